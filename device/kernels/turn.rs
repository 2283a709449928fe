//! Transposes matrices of 4-byte elements, in 16-byte vectors on both sides.
//!
//! A thread loads four numbers along K of each of four rows, and stores four neighbours along the
//! rows for each of them: the transpose only renames registers, as in
//! [`Turned`](super::mma::Turned). It uses no shared memory, and no thread waits for another.
//!
//! One launch transposes both operands of a product, because a launch costs the product some
//! microseconds, more than the transpose of a small operand.

use super::mma::TurnedOf;
use moye_device::algorithm::copy;
use moye_device::arch::{block_idx, overlap_launches, thread_idx};
use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::kernel::KernelParam;
use moye_device::layout::{Layout, layout};
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::{Aligned, IdentityOf, Matrix, UnitStride};
use moye_device::{kernel, static_layout, tiled_copy};

/// Rows and columns of a block's tile.
pub const TILE: u32 = 64;

static_layout! {
    /// A block's tile, (BLK_ROWS, BLK_K).
    pub Tile = layout!((64, 64));
}

/// Threads over groups of four rows and of four along K: a warp has 64 bytes of each of 32 rows,
/// and writes 128 bytes of each of 16 columns.
const THREADS: Layout = layout!(((8, 2), (4, 4)):((1, 32), (8, 64)));
tiled_copy! {
    /// Four along K of four rows.
    pub FoursAlongK: TiledCopy<UniversalCopy<u128>, u32> = TiledCopy::new(THREADS, layout!((4, 4):(4, 1)));
    /// The same values, as four neighbours along the rows of four columns.
    pub FoursAlongRows: TiledCopy<UniversalCopy<u128>, u32> = TiledCopy::new(THREADS, layout!((4, 4)));
}

/// A transpose: element `(row, k)` of `src`, with K contiguous, becomes that of `dst`, with the
/// rows contiguous.
///
/// Strides are in elements and multiples of 4; both matrices start at multiples of 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Turn {
    /// The source.
    pub src: Global<u32>,
    /// The destination.
    pub dst: GlobalMut<u32>,
    /// The row stride of `src`.
    pub src_row: i64,
    /// The column stride of `dst`.
    pub dst_k: i64,
    /// The batch stride of `src`.
    pub src_batch: i64,
    /// The batch stride of `dst`.
    pub dst_batch: i64,
    /// Rows of `src`.
    pub rows: u32,
    /// Elements of a row.
    pub k: u32,
    /// Elements of a column of `dst` that are written, at least the number of rows, padded with
    /// zeros.
    pub written: u32,
    /// The number of batches; nothing is transposed if it is 0.
    pub batches: u32,
}

impl Turn {
    /// Nothing to transpose.
    pub const NONE: Self = Self {
        src: Global::from_address(0),
        dst: GlobalMut::from_address(0),
        src_row: 0,
        dst_k: 0,
        src_batch: 0,
        dst_batch: 0,
        rows: 0,
        k: 0,
        written: 0,
        batches: 0,
    };

    /// The tiles of a batch.
    #[must_use]
    pub const fn tiles(&self) -> u64 {
        self.written.div_ceil(TILE) as u64 * self.k.div_ceil(TILE) as u64
    }
}

/// Transposes two matrices of 32-bit numbers, or one: a block of 256 threads for each tile of the
/// first matrix and then of the second along x, and for each batch along y, for the larger number
/// of batches.
///
/// # Safety
/// All batches of all matrices are in memory of the device, inside the buffers that the pointers
/// belong to, the destinations overlap nothing, and addresses and strides have the alignment that
/// [`Turn`] requires. Extents are at most 2^31 - 64, `written` is at least `rows`, and there are
/// fewer than 2^31 tiles of both.
#[kernel(threads = 256)]
pub unsafe fn turn_u32(first: Turn, second: Turn) {
    let tiles = first.tiles() as u32;
    let block = block_idx().x;
    let (turn, tile) = if block < tiles { (first, block) } else { (second, block - tiles) };
    let batch = block_idx().y;
    let tiles_k = turn.k.div_ceil(TILE);
    let tile = (tile / tiles_k, tile % tiles_k);
    let (src, dst) = (
        turn.src.offset(i64::from(batch) * turn.src_batch),
        turn.dst.offset(i64::from(batch) * turn.dst_batch),
    );
    let m_src = Matrix::new(src, (turn.rows, turn.k), Aligned::<_, 16>(UnitStride::<1>(turn.src_row))); // (ROWS, K)
    let m_dst = Matrix::new(dst, (turn.written, turn.k), Aligned::<_, 16>(UnitStride::<0>(turn.dst_k))); // (WRITTEN, K)
    let thread = thread_idx().x;
    let t_g_src = FoursAlongK::get_slice(thread).partition_s(m_src.local_tile::<Tile, _>(tile)); // (CPY, CPY_ROWS, CPY_K)
    let mut t_g_dst = FoursAlongRows::get_slice(thread).partition_d(m_dst.local_tile::<Tile, _>(tile)); // (CPY, CPY_ROWS, CPY_K)
    // The block's coordinates are computed before the wait for other kernels.
    overlap_launches();
    if batch >= turn.batches {
        return;
    }
    // SAFETY: the caller's contract; each element belongs to one thread; a fragment is fully
    // written before it is read.
    unsafe {
        let mut loaded = t_g_src.make_fragment_like(); // (CPY, CPY_ROWS, CPY_K)
        let mut turned = t_g_dst.make_fragment_like(); // (CPY, CPY_ROWS, CPY_K)
        copy(&t_g_src, &mut loaded);
        copy(&loaded.view_as::<TurnedOf<FoursAlongK, FoursAlongRows, IdentityOf<Tile>>>(), &mut turned);
        copy(&turned, &mut t_g_dst);
    }
}
