//! A tile that has landed in rows along K, turned round into a stage.
//!
//! 128 threads have 128 rows at a time, each of them four rows and four numbers along K: it reads four words of 16 bytes along K and writes
//! four of neighbours along M, one for each column. That is the transposition of a block of registers, which only names them in another order
//! ([`TurnedOf`]).
//!
//! **Banks.** Eight lanes access a word each at the same time, and are to have all 32 banks between them.
//!
//! A row has landed in 64 of 128 bytes: TMA lays rows that are shorter than its swizzle's span a span apart. Its words are exchanged by the row's number
//! modulo 8, so that word `c` of row `4 g + i` is at place `c ^ i`, and 4 further on where `g` is odd: eight lanes read without a conflict that have
//! every `c` with an even and an odd `g`.
//!
//! Columns of a stage are four banks longer than a multiple of 32, so that words of columns `4 c` and `4 (c + 1)` lie
//! 16 banks apart: place `4 c + g` modulo 8, in words. Eight lanes write without a conflict where these differ. Both hold if of the lanes with
//! the same two groups of rows those with `c` of 2 and 3 have the two next ones instead: [`turned_by`].

use crate::mma::TurnedOf;
use moye_device::algorithm::{copy, copy_tiled};
use moye_device::arch::{Word as _, Word128};
use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::{ComposedLayout, Layout, Swizzle, layout};
use moye_device::memory::Shared;
use moye_device::tensor::{Fragment, SharedTensor, StaticLayout, Tensor};
use moye_device::{static_layout, swizzled_layout, tiled_copy};

/// Rows that are turned at a time.
pub const ROWS: u32 = 128;
/// Bytes from a row that has landed to the next one.
const PITCH: u32 = 128;

swizzled_layout! {
    /// Rows as TMA leaves them, (ROWS, BLK_K).
    pub Landing = ComposedLayout::new(Swizzle::new(3, 2, 3), 0, layout!((128, 16):(32, 1)));
}
static_layout! {
    /// As many rows of a stage of A, (ROWS, BLK_K).
    pub RowsOfA = layout!((128, 16):(1, 260));
    /// The same of B.
    pub RowsOfB = layout!((128, 16):(1, 132));
}

static_layout! {
    /// What a thread reads of its rows: words of four numbers.
    PartOfRows = layout!(16);
}

/// Threads over groups of four rows and words of four numbers along K.
const THREADS: Layout = layout!((32, 4):(4, 1));
tiled_copy! {
    /// Words along K of four rows.
    pub WordsAlongK: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(THREADS, layout!((4, 4):(4, 1)));
    /// The same, as four neighbours along M of four columns.
    pub FoursAlongM: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(THREADS, layout!((4, 4)));
}

/// Bytes of a landing of so many rows.
pub const fn bytes(rows: u32) -> u32 {
    rows * PITCH
}

/// The part of the 128 that thread `thread` turns round, so that no bank is met twice: `c` is its lowest two bits, `g` the others, of which the second one
/// is exchanged by the upper bit of `c`.
#[inline(always)]
#[must_use]
pub const fn turned_by(thread: u32) -> u32 {
    thread ^ (thread >> 1 & 1) << 3
}

/// A thread's part of what is turned round.
#[derive(Clone, Copy)]
pub struct Turner {
    part: u32,
    /// Where its four words lie in the first landing: the swizzle is the same in all others, which are whole rows of 1024 bytes away.
    words: [u32; 4],
}

impl Turner {
    /// The part of thread `thread` of 128; `landing` is the address of the first landing.
    #[inline(always)]
    pub fn new(landing: u32, thread: u32) -> Self {
        let part = turned_by(thread);
        let rows: SharedTensor<f32, Landing> = Tensor::shared(Shared::from_address(landing)); // (ROWS, BLK_K)
        let rows = WordsAlongK::get_slice(part).partition_s(rows); // (CPY, CPY_M, CPY_K)
        let word = |row: usize| rows.address_of(4 * row);
        Self { part, words: [word(0), word(1), word(2), word(3)] }
    }

    /// Turns 128 rows round: from those that landed `distance` bytes behind the first ones to the columns `to`.
    ///
    /// # Safety
    /// The rows have landed, and nobody writes them; nobody else touches `to`. `distance` is a multiple of 1024. All 128 threads call it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn turn<L: StaticLayout>(&self, distance: u32, to: SharedTensor<f32, L>) {
        let mut t_to = FoursAlongM::get_slice(self.part).partition_d(to); // (CPY, CPY_M, CPY_K)
        // SAFETY: the caller's contract; all of a fragment is written before it is read.
        unsafe {
            let mut loaded: Fragment<f32, PartOfRows> = Fragment::uninit(); // (CPY)
            for row in 0..4 {
                let word = Word128::load_shared(self.words[row] + distance);
                for k in 0..4 {
                    loaded.view_mut().set(4 * row + k, f32::from_bits(word.0[k]));
                }
            }
            let mut turned = t_to.make_fragment_like(); // (CPY, CPY_M, CPY_K)
            copy(&loaded.view_as::<TurnedOf<WordsAlongK, FoursAlongM, Landing>>(), &mut turned);
            copy_tiled(FoursAlongM, &turned, &mut t_to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word of a landing (row, word along K) that thread `thread` reads first of its four.
    fn word(thread: u32) -> [u32; 2] {
        let part = turned_by(thread);
        [4 * (part / 4), part % 4]
    }

    #[test]
    fn all_words_are_turned_once() {
        let mut seen = [0; 128];
        (0..128).map(word).for_each(|[row, word]| seen[(row + word) as usize] += 1);
        assert_eq!(seen, [1; 128]);
    }

    #[test]
    fn eight_lanes_meet_no_bank_twice() {
        /// Places of 16 bytes modulo 8, which are all banks: each is there once.
        fn all_banks(places: impl Iterator<Item = u32>) -> bool {
            places.fold(0_u32, |seen, place| seen + (1 << (4 * (place % 8)))) == 0x1111_1111
        }
        for first in (0..128).step_by(8) {
            let lanes = || (first..first + 8).map(word);
            for i in 0..4 {
                assert!(
                    all_banks(lanes().map(|[row, word]| word ^ ((row + i) % 8))),
                    "read {i} from thread {first} on"
                );
                for to in [RowsOfA::LAYOUT, RowsOfB::LAYOUT] {
                    let place =
                        |[row, word]: [u32; 2]| to.at(i64::from(row) + 128 * i64::from(4 * word + i)) / 4;
                    let written = lanes().map(|at| place(at) as u32);
                    assert!(all_banks(written), "write {i} from thread {first} on to {to}");
                }
            }
        }
    }
}
