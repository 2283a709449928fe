//! Transposes a tile, which TMA loaded in rows along K, into a stage.
//!
//! 128 threads transpose 128 rows at a time, four rows and four elements along K each: a thread
//! loads four 16-byte vectors along K and stores four vectors along M, one for each column. The
//! transpose of the register block only renames registers ([`TransposedRegisters`]).
//!
//! **Banks.** Eight lanes access one vector each at the same time, and should use all 32 banks.
//!
//! A row occupies 64 of 128 bytes: TMA places rows that are shorter than the swizzle's span one
//! span apart. Its vectors are permuted by the row's index modulo 8, so that vector `c` of row
//! `4 g + i` is at place `c ^ i`, and 4 further if `g` is odd. Eight lanes read without a conflict
//! if they have every `c` with an even and an odd `g`.
//!
//! Columns of a stage are padded by four banks, so that vectors of columns `4 c` and `4 (c + 1)`
//! are 16 banks apart: place `4 c + g` modulo 8, in vectors. Eight lanes write without a conflict
//! if these differ. Both conditions hold if, of the lanes with the same two groups of rows, those
//! with `c` = 2 and 3 have the next two groups instead: [`transposed_by`].

use moye_device::algorithm::copy;
use moye_device::arch::{Word as _, Word128};
use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::collective::TransposedRegisters;
use moye_device::layout::{ComposedLayout, Layout, Swizzle, layout};
use moye_device::memory::Shared;
use moye_device::tensor::{Fragment, SharedTensor, StaticLayout, Tensor};
use moye_device::{static_layout, swizzled_layout, tiled_copy};

/// Rows that are transposed at a time.
pub const ROWS: u32 = 128;
/// Bytes from one landed row to the next.
const PITCH: u32 = 128;

swizzled_layout! {
    /// Rows as TMA leaves them, (ROWS, BLK_K).
    pub Landing = ComposedLayout::new(Swizzle::new(3, 2, 3), 0, layout!((128, 16):(32, 1)));
}
static_layout! {
    /// These rows in a stage of A, (ROWS, BLK_K).
    pub RowsOfA = layout!((128, 16):(1, 260));
    /// These rows in a stage of B.
    pub RowsOfB = layout!((128, 16):(1, 132));
}

static_layout! {
    /// The vectors that a thread loads from its rows, four elements each.
    PartOfRows = layout!(16);
}

/// Threads over groups of four rows and vectors of four elements along K.
const THREADS: Layout = layout!((32, 4):(4, 1));
tiled_copy! {
    /// Vectors along K of four rows.
    pub WordsAlongK: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(THREADS, layout!((4, 4):(4, 1)));
    /// The same values, as four adjacent elements along M of four columns.
    pub FoursAlongM: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(THREADS, layout!((4, 4)));
}

/// Bytes of a landing of this many rows.
pub const fn bytes(rows: u32) -> u32 {
    rows * PITCH
}

/// The part of the 128 x 16 block that thread `thread` transposes, without bank conflicts: `c` is
/// its lowest two bits, `g` the others, whose second bit is XORed with the upper bit of `c`.
#[inline(always)]
#[must_use]
pub const fn transposed_by(thread: u32) -> u32 {
    thread ^ (thread >> 1 & 1) << 3
}

/// The part of a tile that a thread transposes.
#[derive(Clone, Copy)]
pub struct Transposer {
    part: u32,
    /// The addresses of its four vectors in the first landing. The swizzle is the same in the other
    /// landings, which are multiples of 1024 bytes away.
    words: [u32; 4],
}

impl Transposer {
    /// The part of thread `thread` of 128; `landing` is the address of the first landing.
    #[inline(always)]
    pub fn new(landing: u32, thread: u32) -> Self {
        let part = transposed_by(thread);
        let sL: SharedTensor<f32, Landing> = Tensor::shared(Shared::from_address(landing)); // (ROWS, BLK_K)
        let tTsL = WordsAlongK::get_slice(part).partition_s(sL); // (CPY, CPY_M, CPY_K)
        let word = |row: usize| tTsL.address_of(4 * row);
        Self { part, words: [word(0), word(1), word(2), word(3)] }
    }

    /// Transposes 128 rows, which are `distance` bytes after the first ones, to the columns `sT`.
    ///
    /// # Safety
    /// The rows have arrived, and no thread writes them; no other thread accesses `sT`. `distance`
    /// is a multiple of 1024. All 128 threads call it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn transpose<L: StaticLayout>(&self, distance: u32, sT: SharedTensor<f32, L>) {
        let store = FoursAlongM::get_slice(self.part);
        let tTsT = store.partition_d(sT); // (CPY, CPY_M, CPY_K)
        let mut tTrL: Fragment<f32, PartOfRows> = Fragment::uninit(); // (CPY)
        for row in 0..4 {
            let word = Word128::load_shared(self.words[row] + distance);
            for k in 0..4 {
                tTrL.view_mut().set(4 * row + k, f32::from_bits(word.0[k]));
            }
        }
        let mut tTrT = tTsT.make_fragment_like(); // (CPY, CPY_M, CPY_K)
        copy(&tTrL.view_as::<TransposedRegisters<WordsAlongK, FoursAlongM, Landing>>(), &mut tTrT);
        store.copy(&tTrT, tTsT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first of thread `thread`'s four vectors of a landing: (row, vector along K).
    fn word(thread: u32) -> [u32; 2] {
        let part = transposed_by(thread);
        [4 * (part / 4), part % 4]
    }

    #[test]
    fn all_words_are_transposed_once() {
        let mut seen = [0; 128];
        (0..128).map(word).for_each(|[row, word]| seen[(row + word) as usize] += 1);
        assert_eq!(seen, [1; 128]);
    }

    #[test]
    fn eight_lanes_meet_no_bank_twice() {
        /// Whether the places of 16 bytes, modulo 8, cover each group of banks once.
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
