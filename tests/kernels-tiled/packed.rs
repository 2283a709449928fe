//! Tensors of elements smaller than a byte: copied by words between all memories, ragged at their
//! edges, and read and written one by one, with rows that start within a byte and threads that
//! share bytes.

use moye_device::algorithm::{copy, copy_tiled, transform};
use moye_device::arch::{block_idx, sync_threads, thread_idx};
use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::layout;
use moye_device::memory::{Global, GlobalMut, GlobalPacked, GlobalPackedMut, SharedStorage, Storable};
use moye_device::number::{B1, S4, Scalar, U4};
use moye_device::tensor::{Aligned, Dense, Matrix, PackedArray, UnitStride};
use moye_device::{kernel, static_layout, tiled_copy};

static_layout! {
    /// A tile that a block copies, (BLK_M, BLK_N).
    pub Tile = layout!((8, 128));
    /// The same in shared memory, with rows that start at words.
    pub Smem = layout!((8, 128):(160, 1));
    /// A tile of an element for each of 128 threads.
    pub Small = layout!((8, 16));
    /// The same in shared memory, rows contiguous.
    pub SmallSmem = layout!((8, 16):(16, 1));
    /// (THR_M, THR_N)
    pub Threads = layout!((8, 16));
    /// A tile of a row for each of 32 threads.
    pub Rows = layout!((32, 16));
    /// (THR_M, THR_N)
    pub RowThreads = layout!((32, 1));
}

/// Both matrices, in elements.
pub struct Problem {
    pub src: Global<u8>,
    pub dst: GlobalMut<u8>,
    /// (M, N)
    pub shape: (u32, u32),
    /// (M, N)
    pub src_strides: [i64; 2],
    /// (M, N)
    pub dst_strides: [i64; 2],
}

/// One tile by words of 32 bits into shared memory, from there to registers, and to the destination
/// by the widest words that rows at multiples of 2 bytes allow. N is contiguous; the source's rows
/// start at multiples of 4 bytes.
///
/// # Safety
/// The matrices lie inside their buffers; the kernel declares the storage and has the threads of
/// `C`.
#[inline(always)]
unsafe fn by_words<T: Scalar + Storable, C>(problem: Problem)
where
    C: StaticTiledCopy<Atom = UniversalCopy<u32>, Element = T>,
{
    let (block, thread) = (block_idx(), thread_idx().x);
    let Problem { src, dst, shape, src_strides: [from, _], dst_strides: [to, _] } = problem;
    let m_src = Matrix::new(GlobalPacked::<T>::new(src), shape, Aligned::<_, 4>(UnitStride::<1>(from))); // (M, N)
    let m_dst = Matrix::new(GlobalPackedMut::<T>::new(dst), shape, Aligned::<_, 2>(UnitStride::<1>(to))); // (M, N)
    let g_src = m_src.local_tile::<Tile, _>((block.x, block.y)); // (BLK_M, BLK_N)
    let g_dst = m_dst.local_tile::<Tile, _>((block.x, block.y)); // (BLK_M, BLK_N)
    let slice = C::get_slice(thread);
    let t_g_src = slice.partition_s(g_src); // (CPY, CPY_M, CPY_N)
    let mut t_g_dst = slice.partition_d(g_dst); // (CPY, CPY_M, CPY_N)
    // SAFETY: the caller's contract; each thread has its bytes to itself, and its fragment is
    // filled before it is read.
    unsafe {
        let smem = PackedArray::<T, Smem>::take(); // (BLK_M, BLK_N)
        let mut t_s = slice.partition_d(smem); // (CPY, CPY_M, CPY_N)
        copy_tiled(C::default(), &t_g_src, &mut t_s);
        sync_threads();
        let mut t_r = t_s.make_fragment_like(); // (CPY, CPY_M, CPY_N)
        copy(&t_s, &mut t_r);
        copy(&t_r, &mut t_g_dst);
    }
}

/// An element for each thread, read alone and written where others write into the same byte; any
/// strides.
///
/// # Safety
/// The matrices lie inside their buffers, whose sizes are multiples of 4 bytes.
#[inline(always)]
unsafe fn by_elements<T: Scalar + Storable>(problem: Problem) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let Problem { src, dst, shape, src_strides, dst_strides } = problem;
    let m_src = Matrix::new(GlobalPacked::<T>::new(src), shape, Dense(src_strides)); // (M, N)
    let m_dst = Matrix::new(GlobalPackedMut::<T>::new(dst), shape, Dense(dst_strides)); // (M, N)
    let t_src = m_src.local_tile::<Small, _>((block.x, block.y)).local_partition::<Threads>(thread); // (1, 1)
    let mut t_dst = m_dst.local_tile::<Small, _>((block.x, block.y)).local_partition::<Threads>(thread); // (1, 1)
    // SAFETY: the caller's contract; each element is one thread's.
    unsafe { t_dst.set_shared_byte(0, t_src.get(0)) };
}

/// A row for each thread, element by element; any strides of the source, and rows of the
/// destination that start at bytes.
///
/// # Safety
/// The matrices lie inside their buffers.
#[inline(always)]
unsafe fn by_rows<T: Scalar + Storable>(problem: Problem) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let Problem { src, dst, shape, src_strides, dst_strides: [to, _] } = problem;
    let m_src = Matrix::new(GlobalPacked::<T>::new(src), shape, Dense(src_strides)); // (M, N)
    let m_dst = Matrix::new(GlobalPackedMut::<T>::new(dst), shape, UnitStride::<1>(to)); // (M, N)
    let t_src = m_src.local_tile::<Rows, _>((block.x, block.y)).local_partition::<RowThreads>(thread); // (1, 16)
    let mut t_dst = m_dst.local_tile::<Rows, _>((block.x, block.y)).local_partition::<RowThreads>(thread); // (1, 16)
    // SAFETY: the caller's contract; the bytes of a row are one thread's.
    unsafe { transform(&t_src, &mut t_dst, |x| x) };
}

/// A tile of 8 x 16 transposed in shared memory, and its values there: `values[i + 8 j]` is that of
/// element `(7 - i, 15 - j)`.
///
/// # Safety
/// The buffers have 128 elements, rows of the source contiguous; the kernel declares the storage.
#[inline(always)]
unsafe fn turned<T: Scalar + Storable, C>(src: Global<u8>, values: GlobalMut<f32>)
where
    C: StaticTiledCopy<Atom = UniversalCopy<u8>, Element = T>,
{
    let thread = thread_idx().x;
    let m_src = Matrix::new(GlobalPacked::<T>::new(src), (8, 16), Aligned::<_, 1>(UnitStride::<1>(16))); // (M, N)
    let g_src = m_src.local_tile::<Small, _>((0, 0)); // (M, N)
    let m_values = Matrix::new(values, (8, 16), UnitStride::<0>(8)); // (M, N)
    let mut t_values = m_values.local_tile::<Small, _>((0, 0)).local_partition::<Threads>(thread); // (1, 1)
    // SAFETY: the caller's contract; what one thread writes others read after a barrier.
    unsafe {
        let smem = PackedArray::<T, SmallSmem>::take(); // (M, N)
        if thread < C::COPY.threads() as u32 {
            let slice = C::get_slice(thread);
            copy_tiled(C::default(), &slice.partition_s(g_src), &mut slice.partition_d(smem));
        }
        sync_threads();
        let value = smem.local_partition::<Threads>(127 - thread).get(0);
        sync_threads();
        let mut own = smem.local_partition::<Threads>(thread); // (1, 1)
        own.set_shared_byte(0, value);
        sync_threads();
        transform(&own, &mut t_values, |x| x.to_f64() as f32);
    }
}

macro_rules! packed {
    ($($words:ident $elements:ident $rows:ident $turned:ident: $t:ty, $load:ident = $load_copy:expr, $bytes:ident = $bytes_copy:expr;)*) => { $(
        tiled_copy! {
            pub $load: TiledCopy<UniversalCopy<u32>, $t> = $load_copy;
            pub $bytes: TiledCopy<UniversalCopy<u8>, $t> = $bytes_copy;
        }
        packed!(@ $words (threads = 32, shared = PackedArray<$t, Smem>) by_words::<$t, $load>);
        packed!(@ $elements (threads = 128) by_elements::<$t>);
        packed!(@ $rows (threads = 32) by_rows::<$t>);

        #[kernel(threads = 128, shared = PackedArray<$t, SmallSmem>)]
        pub unsafe fn $turned(src: Global<u8>, values: GlobalMut<f32>) {
            // SAFETY: the kernel's own contract.
            unsafe { turned::<$t, $bytes>(src, values) }
        }
    )* };
    (@ $name:ident ($($attribute:tt)*) $body:expr) => {
        #[kernel($($attribute)*)]
        pub unsafe fn $name(
            src: Global<u8>,
            dst: GlobalMut<u8>,
            m: u32,
            n: u32,
            src_stride_m: i64,
            src_stride_n: i64,
            dst_stride_m: i64,
            dst_stride_n: i64,
        ) {
            let problem = Problem {
                src,
                dst,
                shape: (m, n),
                src_strides: [src_stride_m, src_stride_n],
                dst_strides: [dst_stride_m, dst_stride_n],
            };
            // SAFETY: the kernel's own contract.
            unsafe { $body(problem) }
        }
    };
}
packed! {
    words_s4 elements_s4 rows_s4 turned_s4: S4,
        WordsS4 = TiledCopy::new(layout!((8, 4):(4, 1)), layout!((1, 8))),
        BytesS4 = TiledCopy::new(layout!((8, 8):(8, 1)), layout!((1, 2)));
    words_u4 elements_u4 rows_u4 turned_u4: U4,
        WordsU4 = TiledCopy::new(layout!((8, 4):(4, 1)), layout!((1, 8))),
        BytesU4 = TiledCopy::new(layout!((8, 8):(8, 1)), layout!((1, 2)));
    words_b1 elements_b1 rows_b1 turned_b1: B1,
        WordsB1 = TiledCopy::new(layout!((8, 4):(4, 1)), layout!((1, 32))),
        BytesB1 = TiledCopy::new(layout!((8, 2):(2, 1)), layout!((1, 8)));
}
