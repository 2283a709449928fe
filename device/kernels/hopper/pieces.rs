//! Stores C from registers in 16-byte vectors: for small tiles, and for large ones if boxes would
//! be slower.
//!
//! A block with a single small tile stores a few kilobytes and exits, so that latency counts more
//! than bytes. The staged epilogue has two barriers, shared memory, and the code of every option.
//! Here four lanes exchange values instead.
//!
//! Large tiles go through boxes in shared memory, which TMA stores while the next tile is
//! multiplied, if elements have 2 bytes and the block has more tiles. Otherwise the block would
//! wait for the boxes: see [`WgmmaConfig::PIECES`].
//!
//! Threads hold the accumulators of a 64 x N tile as `wgmma` leaves them (`store.rs`): the four
//! lanes of a row have two of each eight columns. With 2-byte elements a vector is eight columns,
//! which the lanes transpose in two steps, each with another lane: before, a lane has pairs of four
//! blocks of eight columns, and after it all of one block.
//!
//! ```text
//! lane              0            1            2            3
//! pairs of block    0 1 2 3      0 1 2 3      0 1 2 3      0 1 2 3
//! with lane ^ 1     0 0 2 2      1 1 3 3      0 0 2 2      1 1 3 3
//! with lane ^ 2     0 0 0 0      1 1 1 1      2 2 2 2      3 3 3 3
//! ```
//!
//! With 4-byte elements a vector is four columns, half of such a block, and one step suffices.
//! Either way the lanes of a row store 64 bytes of it.

use super::config::{ArgumentsOf, WgmmaConfig};
use super::epilogue::Part;
use super::sink::{corner, is_wide};
use super::store::Staging;
use super::words::Corner;
use crate::mma::{Arguments, Scalar};
use moye_device::arch::{FULL_WARP, Word as _, Word128, opaque, shuffle_xor};
use moye_device::collective::Epilogue;
use moye_device::memory::Element;

/// Bytes of a vector.
const PIECE: u64 = size_of::<Word128>() as u64;

/// Whether C can be written so: it is not read, as none is with an epilogue `E` of a caller's, and
/// its rows are whole pieces that begin at multiples of their size.
#[inline(always)]
pub(super) fn has_pieces<E: Epilogue<S>, T: Element, O: Element, S: Scalar>(
    arguments: &Arguments<T, O, S>,
) -> bool {
    let bytes = if is_wide(arguments) { size_of::<S>() } else { size_of::<O>() } as u64;
    // Computed where it is needed: hoisted out of the loop over tiles it would take registers.
    let strides =
        (arguments.ldc | arguments.batch_c | arguments.split_c) as u64 | u64::from(opaque(arguments.n));
    let begins = arguments.c.address() | strides.wrapping_mul(bytes);
    (!E::IS_IDENTITY || arguments.beta == S::ZERO) && begins.is_multiple_of(PIECE)
}

/// Stores a thread's share of an instruction's part of a tile from its accumulators, which are the
/// results.
///
/// # Safety
/// All lanes of a warp call it together. `thread` is the thread's number in its warpgroup, and
/// `part` the instruction's part of the tile. C [has whole vectors](has_pieces) and is writable,
/// and no other thread writes these elements, or only with the same values.
#[inline(always)]
pub(super) unsafe fn write_finished<G: WgmmaConfig>(
    sums: &[G::Sum],
    arguments: &ArgumentsOf<G>,
    part: Part,
    thread: u32,
) {
    let wide = is_wide(arguments);
    let corner = corner(arguments, part, wide);
    // The element types match.
    if wide {
        write_as::<G, G::Sum>(sums, &corner, thread);
    } else {
        write_as::<G, G::Output>(sums, &corner, thread);
    }
}

/// [`write_finished`] as elements `O`.
///
/// # Safety
/// As [`write_finished`], for a C with elements of `O`.
#[inline(always)]
unsafe fn write_as<G: WgmmaConfig, O: Staging<G::Sum>>(sums: &[G::Sum], corner: &Corner, thread: u32) {
    const { assert!(G::BLK_N.is_multiple_of(8 * blocks_at_once::<O>()), "lanes have vectors of all blocks") };
    let pair = |block: u32, below: u32| {
        let at = (4 * block + 2 * below) as usize;
        O::pair(sums[at], sums[at + 1])
    };
    write_blocks::<O>(pair, const { G::BLK_N / 8 }, corner, (16 * (thread / 32), thread % 32));
}

/// Blocks of eight columns whose vectors four lanes hold together.
pub(super) const fn blocks_at_once<O: Element>() -> u32 {
    assert!(O::BYTES == 2 || O::BYTES == 4, "a piece is eight elements, or four");
    if O::BYTES == 2 { 4 } else { 2 }
}

/// Stores a warp's part of C: 16 rows of `blocks` times eight columns, from row `first` of the
/// corner on. `pair` gives the results of a lane, two neighbours of a block, as elements of `O`: in
/// row `lane / 4`, and with `below` = 1 eight rows below.
///
/// # Safety
/// All lanes of the warp call it together. C has elements of `O` and whole vectors, and is
/// writable; `blocks` is a multiple of [`blocks_at_once`].
#[inline(always)]
pub(super) unsafe fn write_blocks<O: Element>(
    pair_of: impl Fn(u32, u32) -> u64,
    all: u32,
    corner: &Corner,
    (first, lane): (u32, u32),
) {
    let blocks = const { blocks_at_once::<O>() };
    let (odd, high) = (lane % 2 == 1, lane % 4 >= 2);
    // The lane's columns within the blocks of a vector.
    let column = if const { O::BYTES == 2 } { 8 * (lane % 4) } else { 8 * (lane % 2) + 4 * (lane % 4 / 2) };
    let mut below = 0;
    while below < 2 {
        let row = first + lane / 4 + 8 * below;
        let line = corner.address.wrapping_add_signed(i64::from(row) * corner.row);
        let mut block = 0;
        while block < all {
            let pair = |b: u32| pair_of(block + b, below);
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
            // Rows of C are whole vectors.
            let address = line + u64::from(column) * O::BYTES as u64;
            Word128::store_global_if(here, address, Word128([w0, w1, w2, w3]));
            block += blocks;
        }
        below += 1;
    }
}

/// Two lanes whose numbers differ in `mask` exchange halves: the lane with the bit set receives the
/// second value as a whole, the other lane the first. The halves are in the order of the lanes.
#[inline(always)]
fn joined<const N: usize>(first: [u32; N], second: [u32; N], mask: u32, set: bool) -> [[u32; N]; 2] {
    let (keep, give) = if set { (second, first) } else { (first, second) };
    let got = give.map(|word| shuffle_xor(FULL_WARP, word, mask));
    if set { [got, keep] } else { [keep, got] }
}
