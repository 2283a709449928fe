//! Matrices of 8 x 8 elements of 16 bits, held by a warp: `ldmatrix`, `stmatrix`, `movmatrix`.
//!
//! In registers, lane `4 * row + column / 2` holds the elements `(row, column)` and
//! `(row, column + 1)` of a matrix (`column` even), the first in the lower half. In shared memory a
//! matrix is 8 rows of 16 bytes, and lane `8 * matrix + row` passes the address of one.

use crate::block::{ExitedLanes, SHARED_BASE, current, warp_collective};
use crate::fault::Access;
use crate::pod::poison;
use crate::profile::Action;
use crate::race::{Kind, Noted};
use std::panic::Location;

const FULL_WARP: u32 = u32::MAX;

/// One row of a matrix in memory.
type Row = [u16; 8];

/// The two halves of a register.
const fn halves(register: u32) -> [u16; 2] {
    [register as u16, (register >> 16) as u16]
}

const fn register(halves: [u16; 2]) -> u32 {
    halves[0] as u32 | (halves[1] as u32) << 16
}

/// The instruction's name; a warp has rows for at most four matrices.
const fn operation<const N: usize>(names: [&'static str; 3]) -> &'static str {
    match N {
        1 => names[0],
        2 => names[1],
        4 => names[2],
        _ => panic!("one, two or four matrices of 8 x 8"),
    }
}

/// The lane that holds element `(row, column)`, and the half of its register.
const fn holder(row: usize, column: usize) -> (usize, usize) {
    (4 * row + column / 2, column % 2)
}

/// The running lane.
#[track_caller]
fn lane() -> u32 {
    current().running.get() % 32
}

/// Loads a row for the running lane. The access is recorded for the lanes that receive its
/// elements.
#[track_caller]
fn load_row(address: u32) -> Row {
    let block = current();
    block.step();
    block.profile_access(Action::MatrixLoad, address.into(), size_of::<Row>());
    if let Some(row) = block.load_shared(address.wrapping_sub(SHARED_BASE) as usize) {
        return row;
    }
    block.shared_fault(Access::Read, address, size_of::<Row>());
    poison()
}

/// Stores a row of the running lane, whose access is already recorded.
#[track_caller]
fn store_row(address: u32, row: Row) {
    let block = current();
    block.step();
    block.profile_access(Action::MatrixStore, address.into(), size_of::<Row>());
    if !block.store_shared(address.wrapping_sub(SHARED_BASE) as usize, row) {
        block.shared_fault(Access::Write, address, size_of::<Row>());
    }
}

/// Records the loads of the rows of `N` matrices at these addresses, each for the lanes that
/// `receivers` returns.
fn note_loads<const N: usize>(addresses: [Option<u32>; 32], noted: Noted, receivers: impl Fn(u32) -> u32) {
    let block = current();
    if !block.clock.is_on() || std::thread::panicking() {
        return;
    }
    block.note_whole(block.running.get() / 32, size_of::<Row>(), noted, |note| {
        for (row, address) in (0..).zip(addresses).take(8 * N) {
            let Some(offset) = address.map(|address| address.wrapping_sub(SHARED_BASE) as usize) else {
                continue;
            };
            if block.shared.fits(offset, size_of::<Row>()) {
                note(receivers(row), offset);
            }
        }
    });
}

/// Records the access to the rows of `N` matrices at these addresses by the lanes that hold a row's
/// elements. `access(offset, row)` returns both; `row` counts across all matrices.
fn note_rows<const N: usize>(addresses: [Option<u32>; 32], access: impl Fn(usize, u32) -> (Noted, u32)) {
    let block = current();
    if !block.clock.is_on() || std::thread::panicking() {
        return;
    }
    let warp = block.running.get() / 32;
    for (row, address) in addresses.into_iter().enumerate().take(8 * N) {
        let Some(offset) = address.map(|address| address.wrapping_sub(SHARED_BASE) as usize) else {
            continue;
        };
        if block.shared.fits(offset, size_of::<Row>()) {
            let (noted, lanes) = access(offset, row as u32);
            block.note_shared_of(block, warp, lanes, noted, offset, size_of::<Row>());
        }
    }
}

/// Loads `N` matrices (1, 2 or 4): `ldmatrix.sync.aligned.m8n8.xN{.trans}.shared.b16`.
///
/// Lane `8 * i + r`, for `i` below `N`, passes in `address` the start of row `r` of matrix `i`, a
/// multiple of 16; the addresses of the other lanes are ignored. Each lane receives its two
/// elements of each matrix, or of its transpose. All 32 lanes take part.
///
/// A row is read when its lane arrives, so a barrier must order the writes of other lanes before
/// it.
#[track_caller]
pub fn ldmatrix<const N: usize>(transposed: bool, address: u32) -> [u32; N] {
    let name = const { operation::<N>(["ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4"]) };
    // Not a closure, which would lose the caller's line.
    let row: Option<Row> = if lane() < 8 * N as u32 { Some(load_row(address)) } else { None };
    let location = Location::caller();
    warp_collective(name, FULL_WARP, ExitedLanes::Fault, (row, address), |lanes| {
        let rows = lanes.map(|lane| lane.map(|(row, _)| row));
        let addresses = lanes.map(|lane| lane.map(|(_, address)| address));
        note_loads::<N>(addresses, Noted::new(Access::Read, Kind::Read, location), |row| {
            let receive = |lane: &u32| if transposed { lane % 4 == row % 8 / 2 } else { lane / 4 == row % 8 };
            (0..32).filter(receive).fold(0, |lanes, lane| lanes | 1 << lane)
        });
        let element = |matrix: usize, row: usize, column: usize| {
            let (row, column) = if transposed { (column, row) } else { (row, column) };
            // A lane that unwinds computes alone; its result is not used.
            rows[8 * matrix + row].flatten().map_or(u16::MAX, |row| row[column])
        };
        std::array::from_fn(|lane| {
            let (row, column) = (lane / 4, lane % 4 * 2);
            std::array::from_fn(|i| register([element(i, row, column), element(i, row, column + 1)]))
        })
    })
}

/// Stores `N` matrices (1, 2 or 4): `stmatrix.sync.aligned.m8n8.xN{.trans}.shared.b16`. The inverse
/// of [`ldmatrix`].
///
/// A row is written as its lane leaves, so other lanes see it after a barrier.
#[track_caller]
pub fn stmatrix<const N: usize>(transposed: bool, address: u32, fragments: [u32; N]) {
    let name = const { operation::<N>(["stmatrix.x1", "stmatrix.x2", "stmatrix.x4"]) };
    let location = Location::caller();
    let input = (fragments, address);
    let row: Row = warp_collective(name, FULL_WARP, ExitedLanes::Fault, input, |lanes| {
        let addresses = lanes.map(|lane| lane.map(|(_, address)| address));
        let lanes = lanes.map(|lane| lane.map(|(fragments, _)| fragments));
        let element = |matrix: usize, row: usize, column: usize| {
            let (row, column) = if transposed { (column, row) } else { (row, column) };
            let (lane, half) = holder(row, column);
            lanes[lane].map_or(u16::MAX, |fragments| halves(fragments[matrix])[half])
        };
        let stored: [Row; 32] = std::array::from_fn(|lane| {
            let (matrix, row) = (lane / 8, lane % 8);
            std::array::from_fn(|column| if matrix < N { element(matrix, row, column) } else { 0 })
        });
        note_rows::<N>(addresses, |offset, row| {
            let send = |lane: &u32| if transposed { lane % 4 == row % 8 / 2 } else { lane / 4 == row % 8 };
            let changed = current().changed_shared(offset, stored[row as usize]);
            let noted = Noted { changed, ..Noted::new(Access::Write, Kind::Write, location) };
            (noted, (0..32).filter(send).fold(0, |lanes, lane| lanes | 1 << lane))
        });
        stored
    });
    if lane() < 8 * N as u32 {
        store_row(address, row);
    }
}

/// The lane's part of the transpose of a matrix: `movmatrix.sync.aligned.m8n8.trans.b16`. All 32
/// lanes take part.
#[track_caller]
pub fn movmatrix_transposed(fragment: u32) -> u32 {
    warp_collective("movmatrix", FULL_WARP, ExitedLanes::Fault, fragment, |lanes| {
        let element = |row: usize, column: usize| {
            let (lane, half) = holder(column, row);
            lanes[lane].map_or(u16::MAX, |fragment| halves(fragment)[half])
        };
        std::array::from_fn(|lane| {
            let (row, column) = (lane / 4, lane % 4 * 2);
            register([element(row, column), element(row, column + 1)])
        })
    })
}
