//! Accumulators as the operand A of a product of 8-bit floats.
//!
//! A thread holds two adjacent columns of an accumulator in each 8, but four adjacent columns of an
//! operand A of 8-bit elements. Moving values between threads would take shuffles. A product is a
//! sum over K, in any order, so the columns stay in place and the rows of B are permuted to the
//! same order ([`paired_column`], by [`transpose_paired`](crate::algorithm::transpose_paired)).

use super::{OperandOf, WgmmaAtom};
use crate::arch::f32x4_to_e4m3x4;
use crate::atom::TilingError;
use crate::atom::tiled_mma::StaticTiledMma;
use crate::memory::Element;
use crate::number::F8E4M3;
use crate::tensor::{Fragment, StaticLayout};

/// An 8-bit float to which one instruction rounds two f32.
pub trait PackQuad: Element {
    /// All four as one word, the first in the lowest byte; larger values saturate.
    fn pack_quad(values: [f32; 4]) -> u32;
}

impl PackQuad for F8E4M3 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn pack_quad(values: [f32; 4]) -> u32 {
        f32x4_to_e4m3x4(values)
    }
}

/// The column of the accumulators that is at `position` along K after [`accumulators_as_a_paired`].
///
/// Within 16 columns, position `4 q + 2 h + b` is column `8 h + 2 q + b`: the pairs of both halves
/// of 8 columns alternate.
///
/// ```
/// use moye_device::atom::wgmma::paired_column;
/// let columns: Vec<u32> = (16..32).map(paired_column).collect();
/// assert_eq!(columns, [16, 17, 24, 25, 18, 19, 26, 27, 20, 21, 28, 29, 22, 23, 30, 31]);
/// ```
#[inline(always)]
#[must_use]
pub const fn paired_column(position: u32) -> u32 {
    position & !15 | (position & 2) << 2 | (position & 12) >> 1 | position & 1
}

/// Accumulators as the operand A of the next product, in registers: rounds them to 8-bit floats.
///
/// Both hold the same rows. The columns are in the order of [`paired_column`]; the rows of B must
/// have the same order.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn accumulators_as_a_paired<M, T, LC, L>(c: &Fragment<f32, LC>) -> Fragment<T, OperandOf<L, M>>
where
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = [u32; 4]>>,
    T: PackQuad,
    LC: StaticLayout,
    L: StaticLayout,
{
    const {
        let operand = OperandOf::<L, M>::LAYOUT;
        if LC::LAYOUT.size() != operand.size()
            || operand.extent(0) != 16
            || operand.extent(1) != 1
            || LC::LAYOUT.extent(1) != 1
            || LC::LAYOUT.cosize() != LC::LAYOUT.size()
        {
            TilingError::of("accumulators_as_a_paired")
                .str("accumulators ")
                .layout(&LC::LAYOUT)
                .str(" are not the operand A ")
                .layout(&operand)
                .str(" of 8-bit elements: both are compact, with one instruction's rows and the same number of columns")
                .raise();
        }
    }
    // SAFETY: all elements are written; indices are inside both.
    unsafe {
        let mut packed = Fragment::<T, OperandOf<L, M>>::uninit();
        // 8 accumulators are two rows of two pairs, 8 columns apart: one register for each row.
        for block in 0..const { LC::LAYOUT.size() as usize / 8 } {
            for row in 0..2 {
                let first = 8 * block + 2 * row;
                let word = T::pack_quad([c.get(first), c.get(first + 1), c.get(first + 4), c.get(first + 5)]);
                *packed.consecutive::<u32>(8 * block + 4 * row) = word;
            }
        }
        packed
    }
}
