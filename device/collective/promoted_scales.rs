//! Scale policies of [`Promoted`](super::Promoted): which scales of A and B a thread loads.

use crate::arch::opaque;
use crate::kernel::KernelParam;
use crate::memory::{Global, GlobalPointer as _};

/// Rows of B that share one scale of [`BlockScales`].
pub(super) const SCALED_N: u32 = 128;

/// Scales of blocks of A, 1 x 128, or of B, 128 x 128: with any strides; a stride of 0 means one
/// scale for all. All scales are less than 2^31 elements from the first.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct BlockScales {
    /// The first scale; null: all scales of B are 1.
    pub scales: Global<f32>,
    /// The distance between rows of A, or between groups of 128 rows of B.
    pub row: u32,
    /// The distance between blocks along K.
    pub k: u32,
    /// The distance between matrices of B; for A, from the end of a padded group's rows to the next
    /// group.
    pub batch: u32,
}

impl BlockScales {
    /// The place of a block's scale. It is recomputed for each K tile: otherwise it would take
    /// registers beside the accumulators.
    #[inline(always)]
    const fn place(&self, batch: u32, at: u32, k: u32) -> i64 {
        let index = batch.wrapping_mul(self.batch).wrapping_add(at.wrapping_mul(self.row));
        index.wrapping_add(k.wrapping_mul(self.k)) as i64
    }

    /// The address of the scale of block `at` along the rows and `k` along K.
    #[inline(always)]
    pub(super) fn address(&self, batch: u32, at: u32, k: u32) -> u64 {
        self.scales.offset(self.place(batch, at, k)).address()
    }

    /// The scale of block `at` along the rows and `k` along K.
    ///
    /// # Safety
    /// The block has a scale, which is readable.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn read(&self, batch: u32, at: u32, k: u32) -> f32 {
        // SAFETY: the block has a scale.
        unsafe { self.scales.read(self.place(batch, at, k)) }
    }
}

/// Scales of blocks of B, 1 x 128: [`BlockScales`] whose `row` is the distance between rows.
#[derive(Clone, Copy, Debug)]
pub struct RowScales(pub BlockScales);

impl From<BlockScales> for RowScales {
    #[inline(always)]
    fn from(scales: BlockScales) -> Self {
        Self(scales)
    }
}

/// A part's columns, of which a thread holds two of each eight: rows of B.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The part's first column.
    pub first: u32,
    /// The end of B's rows. Columns out of bounds use the last column's scale.
    pub end: u32,
    /// Groups of eight columns in the part.
    pub eights: u32,
    /// The thread's first column in each group: an even number below 8.
    pub lane: u32,
}

/// Scales of B: [`BlockScales`], 128 x 128, or [`RowScales`], 1 x 128.
pub trait ScalesOfB: Copy {
    /// A thread's scales of the columns of a part.
    type Part: Copy;

    /// Reads the scales of a part's columns for a K tile.
    ///
    /// # Safety
    /// The scales are readable.
    unsafe fn part(&self, columns: Columns, batch: u32, k: u32) -> Self::Part;

    /// The scale of the column of accumulator `i` of the part.
    fn of(part: &Self::Part, i: usize) -> f32;
}

impl ScalesOfB for BlockScales {
    type Part = f32;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn part(&self, columns: Columns, batch: u32, k: u32) -> f32 {
        let exists = self.scales.address() != 0;
        let block = columns.first.min(columns.end - 1) / SCALED_N;
        // SAFETY: a part is in one block, which has a scale for each K tile.
        let scale = unsafe { self.scales.offset(self.place(batch, block, k)).read_if(exists) };
        if exists { scale } else { 1.0 }
    }

    #[inline(always)]
    fn of(part: &f32, _: usize) -> f32 {
        *part
    }
}

impl ScalesOfB for RowScales {
    type Part = [[f32; 2]; (SCALED_N / 8) as usize];

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn part(&self, columns: Columns, batch: u32, k: u32) -> Self::Part {
        let mut part = [[0.0; 2]; (SCALED_N / 8) as usize];
        let (first, last) = (columns.first + opaque(columns.lane), columns.end - 1);
        for eight in 0..columns.eights {
            for second in 0..2 {
                let column = (first + 8 * eight + second).min(last);
                // SAFETY: the row of B has a scale for each K tile.
                part[eight as usize][second as usize] = unsafe { self.0.read(batch, column, k) };
            }
        }
        part
    }

    #[inline(always)]
    fn of(part: &Self::Part, i: usize) -> f32 {
        part[i / 4][i % 2]
    }
}
