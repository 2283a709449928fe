//! Rearranges matrices for kernels that need K contiguous and 16-byte aligned rows. Those kernels
//! read whole 16-byte vectors, so the padding after a row's end is written, too.

use core::marker::PhantomData;
use moye_device::algorithm::copy;
use moye_device::arch::{block_idx, overlap_launches, sync_threads, thread_idx};
use moye_device::layout::{IntTuple, Layout};
use moye_device::memory::{Element, Global, GlobalMut, SharedArray};
use moye_device::tensor::{Dense, Matrix, StaticLayout};
use moye_device::{kernel, layout, memory::SharedStorage, static_layout};

static_layout! {
    /// A block's tile, (BLK_ROWS, BLK_K).
    pub Tile = layout!((64, 64));
    /// (THR_ROWS, THR_K), contiguous along the rows.
    pub ThreadsAlongRows = layout!((64, 4));
    /// (THR_ROWS, THR_K), contiguous along K.
    pub ThreadsAlongK = layout!((4, 64):(64, 1));
}

/// The tile in shared memory, (BLK_ROWS, BLK_K): each column starts one bank after the previous
/// one, so that a warp which writes along the rows and one which reads along K have no bank
/// conflicts.
pub struct Smem<T>(PhantomData<T>);

impl<T> Clone for Smem<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Smem<T> {}

impl<T: Element> StaticLayout for Smem<T> {
    const LAYOUT: Layout = {
        let pad = if T::BYTES < 4 { 4 / T::BYTES } else { 1 };
        Layout::new(IntTuple::flat(&[64, 64]), IntTuple::flat(&[1, 64 + pad as i64]))
    };
}

/// One block's tile.
///
/// # Safety
/// As the kernels below, which declare `SharedArray<T, Smem<T>>`.
#[inline(always)]
unsafe fn pack<T: Element>(
    (src, dst): (Global<T>, GlobalMut<T>),
    shape: (u32, u32),
    written: u32,
    src_strides: [i64; 2],
    dst_strides: [i64; 2],
) {
    let (block, thread) = (block_idx().x, thread_idx().x);
    let tiles_k = written.div_ceil(64);
    let tile = (block / tiles_k, block % tiles_k);
    let m_src = Matrix::new(src, shape, Dense(src_strides)); // (ROWS, K)
    let m_dst = Matrix::new(dst, (shape.0, written), Dense(dst_strides)); // (ROWS, WRITTEN)
    let g_src = m_src.local_tile::<Tile, _>(tile); // (BLK_ROWS, BLK_K)
    let g_dst = m_dst.local_tile::<Tile, _>(tile); // (BLK_ROWS, BLK_K)
    let mut t_g_dst = g_dst.local_partition::<ThreadsAlongK>(thread); // (THR_ROWS, THR_K)
    overlap_launches();
    if src_strides[1] <= src_strides[0] {
        let t_g_src = g_src.local_partition::<ThreadsAlongK>(thread); // (THR_ROWS, THR_K)
        // SAFETY: the caller's contract; each element belongs to one thread.
        unsafe { copy(&t_g_src, &mut t_g_dst) };
        return;
    }
    // SAFETY: the kernel declares it.
    let smem = unsafe { SharedArray::<T, Smem<T>>::take() }; // (BLK_ROWS, BLK_K)
    let t_g_src = g_src.local_partition::<ThreadsAlongRows>(thread); // (THR_ROWS, THR_K)
    let mut t_s_src = smem.local_partition::<ThreadsAlongRows>(thread); // (THR_ROWS, THR_K)
    let t_s_dst = smem.local_partition::<ThreadsAlongK>(thread); // (THR_ROWS, THR_K)
    // SAFETY: the tile is read after the barrier that follows the writes.
    unsafe {
        copy(&t_g_src, &mut t_s_src);
        sync_threads();
        copy(&t_s_dst, &mut t_g_dst);
    }
}

macro_rules! pack {
    ($($name:ident $t:ty, $doc:literal;)+) => { $(
        #[doc = concat!("Copies a matrix of ", $doc, " elements; fastest if the destination's rows are contiguous along K.")]
        ///
        /// `rows x k` elements with strides in elements, and zeros after them up to
        /// `rows x written`. A block of 256 threads for each tile of 64 x 64 of the destination
        /// along x, and for each batch along y.
        ///
        /// # Safety
        /// `written` is at least `k`. All batches of both matrices are in memory of the device,
        /// inside the buffers that the pointers belong to, and they do not overlap. Extents are at
        /// most 2^31 - 64.
        #[kernel(threads = 256, shared = SharedArray<$t, Smem<$t>>)]
        pub unsafe fn $name(
            src: Global<$t>,
            dst: GlobalMut<$t>,
            rows: u32,
            k: u32,
            written: u32,
            src_stride_row: i64,
            src_stride_k: i64,
            src_stride_batch: i64,
            dst_stride_row: i64,
            dst_stride_k: i64,
            dst_stride_batch: i64,
        ) {
            let batch = i64::from(block_idx().y);
            let pointers = (src.offset(batch * src_stride_batch), dst.offset(batch * dst_stride_batch));
            // SAFETY: the caller's contract.
            unsafe { pack::<$t>(pointers, (rows, k), written, [src_stride_row, src_stride_k], [dst_stride_row, dst_stride_k]) }
        }
    )+ };
}
pack! {
    pack_u8 u8, "8-bit";
    pack_u16 u16, "16-bit";
    pack_u32 u32, "32-bit";
    pack_u64 u64, "64-bit";
    pack_u128 u128, "128-bit";
}
