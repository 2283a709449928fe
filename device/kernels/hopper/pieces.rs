//! C of small tiles by pieces of 16 bytes, from the registers that hold the sums.
//!
//! A block that has one tile writes it and ends, a few kilobytes of small tiles, so that what C takes is the way there, and not its bytes.
//! By rows that is two barriers, shared memory, and code for all that can be asked for. Here four lanes exchange what they have.
//!
//! Threads hold the sums of a 64 x N tile as `wgmma` leaves them (`store.rs`): the four lanes of a row have two of each eight columns. With
//! elements of 2 bytes a piece is eight columns, which the lanes bring together in two steps, each with another lane: a lane has
//! pairs of four blocks of eight columns, and then all of one.
//!
//! ```text
//! lane              0            1            2            3
//! pairs of block    0 1 2 3      0 1 2 3      0 1 2 3      0 1 2 3
//! with lane ^ 1     0 0 2 2      1 1 3 3      0 0 2 2      1 1 3 3
//! with lane ^ 2     0 0 0 0      1 1 1 1      2 2 2 2      3 3 3 3
//! ```
//!
//! Of 4 bytes a piece is four columns, half of such a block, and one step makes it. Both ways the lanes of a row write 64 bytes of it.

use super::config::{AccumulatorsOf, ArgumentsOf, WgmmaConfig};
use super::epilogue::{Part, corner, is_wide};
use super::finish::finish;
use super::store::Staging;
use super::words::Corner;
use crate::arch::wgmma::Accumulators as _;
use crate::arch::{FULL_WARP, Fma as _, Word as _, Word128, shuffle_xor};
use crate::kernels::mma::Convertible as _;

/// Bytes of a piece.
const PIECE: u64 = size_of::<Word128>() as u64;

/// Whether C can be written so: it is not read, and its rows are whole pieces that begin at multiples of their size.
#[inline(always)]
pub(super) fn has_pieces<G: WgmmaConfig>(arguments: &ArgumentsOf<G>) -> bool {
    let bytes = if is_wide::<G>(arguments) { size_of::<G::Scalar>() } else { size_of::<G::Output>() } as u64;
    let strides = (arguments.ldc | arguments.batch_c) as u64 | u64::from(arguments.n);
    let begins = arguments.c.address() | strides.wrapping_mul(bytes);
    arguments.beta == G::Scalar::ZERO && begins.is_multiple_of(PIECE)
}

/// Writes a thread's share of a warpgroup's part of a tile, of which it has the sums.
///
/// # Safety
/// All lanes of a warp come together. `thread` is the thread's number in its warpgroup, whose part of the tile `part` is; C
/// [has pieces](has_pieces) and may be written, and nobody else writes these elements, or only the same values.
#[inline(always)]
pub(super) unsafe fn write_pieces<G: WgmmaConfig>(
    sums: &mut AccumulatorsOf<G>,
    arguments: &ArgumentsOf<G>,
    part: Part,
    thread: u32,
) {
    // SAFETY: the caller's contract.
    unsafe { finish::<G>(sums, arguments, part, thread) };
    let wide = is_wide::<G>(arguments);
    let corner = corner::<G>(arguments, part, wide);
    // SAFETY: the caller's contract; elements are as wide as they are asked for.
    unsafe {
        if wide {
            write::<G, G::Scalar>(sums, &corner, thread);
        } else {
            write::<G, G::Output>(sums, &corner, thread);
        }
    }
}

/// [`write_pieces`] as elements `O`.
///
/// # Safety
/// As [`write_pieces`], of a C that has elements `O`.
#[inline(always)]
unsafe fn write<G: WgmmaConfig, O: Staging<G::Scalar>>(
    sums: &AccumulatorsOf<G>,
    corner: &Corner,
    thread: u32,
) {
    // Blocks of eight columns that four lanes have pieces of.
    let blocks = const {
        assert!(O::BYTES == 2 || O::BYTES == 4, "a piece is eight elements, or four");
        let blocks = if O::BYTES == 2 { 4 } else { 2 };
        assert!(G::BLK_N.is_multiple_of(8 * blocks), "lanes have pieces of all blocks");
        blocks
    };
    let sums = sums.as_slice();
    let (warp, lane) = (thread / 32, thread % 32);
    let (odd, high) = (lane % 2 == 1, lane % 4 >= 2);
    // The lane's columns of those of a piece's blocks.
    let column = if const { O::BYTES == 2 } { 8 * (lane % 4) } else { 8 * (lane % 2) + 4 * (lane % 4 / 2) };
    let mut below = 0;
    while below < 2 {
        let row = 16 * warp + lane / 4 + 8 * below;
        let line = corner.address.wrapping_add_signed(i64::from(row) * corner.row);
        let mut block = 0;
        while block < const { G::BLK_N / 8 } {
            let of = |at: usize| sums[at].widen();
            let pair = |b: u32| {
                let at = (4 * (block + b) + 2 * below) as usize;
                O::pair(of(at), of(at + 1))
            };
            let piece = if const { O::BYTES == 2 } {
                let [p0, p1, p2, p3] = [pair(0), pair(1), pair(2), pair(3)].map(|pair| [pair as u32]);
                let (first, second) = (joined(p0, p1, 1, odd), joined(p2, p3, 1, odd));
                joined([first[0][0], first[1][0]], [second[0][0], second[1][0]], 2, high)
            } else {
                let words = |pair: u64| [pair as u32, (pair >> 32) as u32];
                joined(words(pair(0)), words(pair(1)), 1, odd)
            };
            let column = 8 * block + column;
            let here = row < corner.left.0 && column < corner.left.1;
            let [[w0, w1], [w2, w3]] = piece;
            // SAFETY: the caller's contract; rows of C are whole pieces.
            unsafe {
                let address = line + u64::from(column) * O::BYTES as u64;
                Word128::store_global_if(here, address, Word128([w0, w1, w2, w3]));
            }
            block += blocks;
        }
        below += 1;
    }
}

/// Two lanes, whose numbers differ in `mask`, have each a half of both: the one that has the bit set gets the second as a whole, the
/// other one the first. Its halves in the order of the lanes.
#[inline(always)]
fn joined<const N: usize>(first: [u32; N], second: [u32; N], mask: u32, set: bool) -> [[u32; N]; 2] {
    let (keep, give) = if set { (second, first) } else { (first, second) };
    let got = give.map(|word| shuffle_xor(FULL_WARP, word, mask));
    if set { [got, keep] } else { [keep, got] }
}
