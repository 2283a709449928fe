//! Warp-wide instructions that move 32-bit values: barriers, shuffles, votes, matches, reductions.
//!
//! As in PTX, the lanes of `mask` meet, except lanes that have exited or that a partial warp lacks.

use crate::block::{ExitedLanes, WARP_BARRIER, WARP_SIZE, current};
use crate::fault::FaultKind;
use crate::intrinsics::index::asked;
use std::panic::Location;

/// The lane that a shuffle reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShuffleMode {
    /// Lane `b` of the segment.
    Idx,
    /// The lane `b` lower.
    Up,
    /// The lane `b` higher.
    Down,
    /// The lane whose index differs from the reader's in the bits of `b`: PTX's `bfly`.
    Xor,
}

impl ShuffleMode {
    const fn operation(self) -> &'static str {
        match self {
            Self::Idx => "shfl.sync.idx",
            Self::Up => "shfl.sync.up",
            Self::Down => "shfl.sync.down",
            Self::Xor => "shfl.sync.bfly",
        }
    }

    /// PTX's rule: the lane that `lane` reads, and whether it is in range (if not, a lane reads
    /// itself).
    fn source(self, lane: u32, b: u32, c: u32) -> (u32, bool) {
        let (b, clamp, segment) = (b & 31, c & 31, (c >> 8) & 31);
        let max_lane = (lane & segment) | (clamp & !segment);
        let min_lane = lane & segment;
        let (source, valid) = match self {
            Self::Up => (lane.wrapping_sub(b), i64::from(lane) - i64::from(b) >= i64::from(max_lane)),
            Self::Down => (lane + b, lane + b <= max_lane),
            Self::Xor => (lane ^ b, lane ^ b <= max_lane),
            Self::Idx => {
                let source = min_lane | (b & !segment & 31);
                (source, source <= max_lane)
            }
        };
        if valid { (source, true) } else { (lane, false) }
    }
}

/// `__shfl_sync` and its variants: the value of another lane, within segments of `width` lanes (a
/// power of two up to 32), and whether that lane is in the segment; if not, the value is the lane's
/// own.
///
/// Reading a lane that does not participate is a fault.
#[track_caller]
pub fn shfl(mode: ShuffleMode, mask: u32, value: u32, b: u32, width: u32) -> (u32, bool) {
    if !width.is_power_of_two() || width > WARP_SIZE {
        let reason = format!("a width of {width}, which is not a power of two up to {WARP_SIZE}");
        misuse(mode.operation(), reason);
        return (value, false);
    }
    let clamp = if mode == ShuffleMode::Up { 0 } else { 0x1F };
    shfl_clamped(mode, mask, value, b, (WARP_SIZE - width) << 8 | clamp)
}

/// PTX's `shfl.sync`, `c` holding the clamp value in bits 0 to 4 and the segment mask in bits 8
/// to 12.
#[track_caller]
pub fn shfl_clamped(mode: ShuffleMode, mask: u32, value: u32, b: u32, c: u32) -> (u32, bool) {
    let block = current();
    let (operation, location) = (mode.operation(), Location::caller());
    let exited = ExitedLanes::Ignored;
    let given = Given { value, b, c };
    let Shuffled { read, valid, source, active } =
        block.collective(operation, mask, exited, given, |lanes| shuffle(mode, lanes), location);
    if active & (1 << source) == 0 && !std::thread::panicking() {
        block.raise(location, FaultKind::ShuffleInactive { operation, source_lane: source, active });
    }
    (read, valid)
}

/// A lane's operands of `shfl.sync`.
#[derive(Clone, Copy)]
struct Given {
    value: u32,
    b: u32,
    c: u32,
}

/// A lane's result of `shfl.sync`.
#[derive(Clone, Copy)]
struct Shuffled {
    /// The value that the lane reads.
    read: u32,
    /// Whether its source is valid.
    valid: bool,
    source: u32,
    /// The participating lanes.
    active: u32,
}

fn shuffle(mode: ShuffleMode, lanes: &[Option<Given>; 32]) -> [Shuffled; 32] {
    let active = ballot(|lane| lanes[lane].is_some());
    std::array::from_fn(|lane| {
        let own = lane as u32;
        let Some(Given { b, c, .. }) = lanes[lane] else {
            return Shuffled { read: 0, valid: false, source: own, active };
        };
        let (source, valid) = mode.source(own, b, c);
        let read = lanes[source as usize].map_or(u32::MAX, |given| given.value);
        Shuffled { read, valid, source, active }
    })
}

fn ballot(holds: impl Fn(usize) -> bool) -> u32 {
    (0..32).filter(|&lane| holds(lane)).fold(0, |mask, lane| mask | 1 << lane)
}

/// Faults for an invalid operand. Returns only in a thread that already unwinds.
#[cold]
#[track_caller]
fn misuse(operation: &'static str, reason: String) {
    let block = current();
    if !std::thread::panicking() {
        block.raise(Location::caller(), FaultKind::InvalidOperand { operation, reason });
    }
}

/// Waits for the lanes of `mask`: `bar.warp.sync`.
#[track_caller]
pub fn sync_warp(mask: u32) {
    let exited = ExitedLanes::Ignored;
    current().collective(WARP_BARRIER, mask, exited, (), |_| [(); 32], Location::caller());
}

/// The lanes of the running warp that have not returned: `activemask` on a machine whose lanes
/// never diverge.
#[track_caller]
pub fn active_lanes() -> u32 {
    let block = asked();
    !block.exited_lanes[(block.running.get() / WARP_SIZE) as usize].get()
}

/// Whether `predicate` holds in all lanes of `mask`: `vote.sync.all`.
#[track_caller]
pub fn vote_all(mask: u32, predicate: bool) -> bool {
    let (holds, active) = vote("vote.sync.all", mask, predicate, Location::caller());
    holds == active
}

/// Whether `predicate` holds in any lane of `mask`: `vote.sync.any`.
#[track_caller]
pub fn vote_any(mask: u32, predicate: bool) -> bool {
    vote("vote.sync.any", mask, predicate, Location::caller()).0 != 0
}

/// The lanes of `mask` in which `predicate` holds: `vote.sync.ballot`.
#[track_caller]
pub fn vote_ballot(mask: u32, predicate: bool) -> u32 {
    vote("vote.sync.ballot", mask, predicate, Location::caller()).0
}

/// The lanes in which the predicate holds, and the lanes of the operation.
fn vote(
    operation: &'static str,
    mask: u32,
    predicate: bool,
    location: &'static Location<'static>,
) -> (u32, u32) {
    let count = |lanes: &[Option<bool>; 32]| {
        let holds = ballot(|lane| lanes[lane] == Some(true));
        [(holds, ballot(|lane| lanes[lane].is_some())); 32]
    };
    current().collective(operation, mask, ExitedLanes::Ignored, predicate, count, location)
}

/// The lanes of `mask` that hold the same value as the calling lane: `match.any.sync.b32`.
#[track_caller]
pub fn match_any(mask: u32, value: u32) -> u32 {
    let matches = |lanes: &[Option<u32>; 32]| {
        std::array::from_fn(|lane| ballot(|other| lanes[other].is_some() && lanes[other] == lanes[lane]))
    };
    current().collective("match.any.sync", mask, ExitedLanes::Ignored, value, matches, Location::caller())
}

/// A number that `redux.sync` adds and compares: `u32` or `i32`.
pub trait ReduceNumber: Copy + 'static {
    /// The sum, wrapping.
    #[doc(hidden)]
    fn add(self, other: Self) -> Self;
    /// The smaller.
    #[doc(hidden)]
    fn min(self, other: Self) -> Self;
    /// The larger.
    #[doc(hidden)]
    fn max(self, other: Self) -> Self;
}

macro_rules! reduce_number {
    ($($t:ty),*) => { $(
        impl ReduceNumber for $t {
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            fn min(self, other: Self) -> Self { Ord::min(self, other) }
            fn max(self, other: Self) -> Self { Ord::max(self, other) }
        }
    )* };
}
reduce_number!(u32, i32);

fn reduce<T: Copy + 'static>(
    operation: &'static str,
    mask: u32,
    value: T,
    combine: impl Fn(T, T) -> T,
    location: &'static Location<'static>,
) -> T {
    let all = |lanes: &[Option<T>; 32]| {
        let value = lanes.iter().copied().flatten().reduce(&combine);
        [value.expect("the lane that computes takes part"); 32]
    };
    current().collective(operation, mask, ExitedLanes::Ignored, value, all, location)
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $operation:literal $t:ident: $bound:ident, $combine:expr;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<$t: $bound>(mask: u32, value: $t) -> $t {
            reduce($operation, mask, value, $combine, Location::caller())
        }
    )* };
}
reductions! {
    /// The sum over the lanes of `mask`, wrapping: `redux.sync.add`.
    reduce_add "redux.sync.add" T: ReduceNumber, T::add;
    /// The least value of the lanes of `mask`: `redux.sync.min`.
    reduce_min "redux.sync.min" T: ReduceNumber, T::min;
    /// The greatest value of the lanes of `mask`: `redux.sync.max`.
    reduce_max "redux.sync.max" T: ReduceNumber, T::max;
}

macro_rules! bit_reductions {
    ($($(#[$doc:meta])* $name:ident $operation:literal $combine:expr;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(mask: u32, value: u32) -> u32 {
            reduce($operation, mask, value, $combine, Location::caller())
        }
    )* };
}
bit_reductions! {
    /// The bits that are set in all lanes of `mask`: `redux.sync.and`.
    reduce_and "redux.sync.and" |a, b| a & b;
    /// The bits that are set in any lane of `mask`: `redux.sync.or`.
    reduce_or "redux.sync.or" |a, b| a | b;
    /// The bits that are set in an odd number of lanes of `mask`: `redux.sync.xor`.
    reduce_xor "redux.sync.xor" |a, b| a ^ b;
}

/// Whether the warp elects this lane: `elect.sync`. The simulator elects the lowest lane of the
/// mask that has not returned.
#[track_caller]
pub fn elect(mask: u32) -> bool {
    super::warp_collective("elect.sync", mask, ExitedLanes::Ignored, (), |lanes| {
        let elected = lanes.iter().position(Option::is_some);
        std::array::from_fn(|lane| elected == Some(lane))
    })
}
