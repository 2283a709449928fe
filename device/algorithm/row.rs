//! Rows that stay in registers: how many threads share a row, and the reductions across them.
//!
//! A kernel that reduces along rows and then reuses the elements loads each of them once if the
//! threads that share a row hold it in registers. [`RowShape`] defines how many threads share a
//! row, from a few lanes to the blocks of a cluster; [`RowTile`] and [`RowCopy`] are the tile of a
//! block and its tiled copy, and [`RowTeam`](super::RowTeam) reduces across the threads of a row. A
//! kernel is generic over the shape, and the launch chooses an instance by the length of the rows
//! ([`RowShape::COLUMNS`]).
//!
//! ```
//! # #![allow(non_snake_case)]
//! use moye_device::algorithm::{Block256, RowCopy, RowScratch, RowShape, RowStride, RowTeam, Warp};
//! use moye_device::prelude::*;
//!
//! /// `y = x / max(|x|)` over rows of `n` elements, `ld` apart. Grid: `ceil(m / C::ROWS)`.
//! ///
//! /// # Safety
//! /// `x` and `y` hold `m` rows, which start at multiples of 16 bytes; `n` is at most `C::COLUMNS`.
//! #[kernel(
//!     threads = C::BLOCK,
//!     shared = (scratch: SharedArray<f32, RowScratch>),
//!     instances = scaled<f32 | bf16, Warp | Block256>
//! )]
//! pub unsafe fn scaled<T: Element + Convert<f32>, C: RowShape>(
//!     x: Global<T>,
//!     y: GlobalMut<T>,
//!     m: u32,
//!     n: u32,
//!     ld: RowStride,
//! ) where
//!     f32: Convert<T>,
//! {
//!     let mut team = RowTeam::<C>::new(scratch);
//!     let load = RowCopy::<T, C>::get_slice(thread_idx().x);
//!     let (gX, gY) = (team.rows(x, (m, n), ld), team.rows(y, (m, n), ld)); // (BLK_M, BLK_N)
//!     let mut tXrX = team.load(&load.partition_s(gX)); // (CPY, CPY_M, CPY_N)
//!     let max = team.reduce(tXrX.map(f32::abs_value).reduce_rows(f32::max), f32::max); // (CPY_M)
//!     tXrX.apply_rows(&max, |x, max| x / max);
//!     team.store(&tXrX, &load.partition_d(gY));
//! }
//! # trait AbsValue { fn abs_value(self) -> f32; }
//! # impl AbsValue for f32 { fn abs_value(self) -> f32 { if self < 0.0 { -self } else { self } } }
//! # let memory = moye_sim::GlobalMemory::new();
//! # let x = memory.upload(&(0..5 * 100).map(|i| (i % 100) as f32 - 50.0).collect::<Vec<_>>(), "x").unwrap();
//! # let y = memory.upload(&[f32::NAN; 5 * 100], "y").unwrap();
//! # let ld = RowStride { row: 100, element: 1 };
//! # let arguments = (Global::from_address(x.address()), GlobalMut::from_address(y.address()), 5, 100, ld);
//! // SAFETY: both hold 5 rows of 100 elements.
//! # unsafe { scaled_f32_warp.simulate(&memory, 2, Warp::BLOCK, arguments) }.unwrap();
//! # let got = y.download::<f32>();
//! assert_eq!((got[0], got[499]), (-1.0, 0.98));
//! ```

use super::row_chunks::Chunks;
use crate::arch::{
    AsyncWord as _, FULL_WARP, Word128, block_idx, cluster_arrive, cluster_rank, cluster_size, cluster_wait,
    fence_mbarrier_init, grid_dim, lane_id, map_shared, mbarrier_arrive_expect_tx, mbarrier_init,
    mbarrier_wait_parity_cluster, shuffle_xor, thread_idx,
};
use crate::atom::TiledCopy;
use crate::atom::copy::AutoVectorizingCopy;
use crate::kernel::{KernelParam, ParamType};
use crate::layout::layout;
use crate::memory::{Shared, Storable};
use crate::tensor::{Rank, Strides};
use crate::tiling::TilingError;
use crate::{static_layout, tiled_copy};
use core::marker::PhantomData;

/// The assignment of rows to the threads of a launch.
pub trait RowShape: Copy + Default + 'static {
    /// Threads of a block that share a row: a power of two.
    const THREADS: u32;
    /// The alignment of rows in bytes: 16, if their length is a multiple of 16 bytes too, or 1 if
    /// they start at any element.
    const ALIGN: usize;
    /// The blocks that share a row: [`OneBlock`], those of a cluster ([`ClusterBlocks`], sm_90), or
    /// one block that takes the chunks of a row in turn ([`Chunks`]).
    type Blocks: RowBlocks;

    /// The most elements of a row that a thread holds.
    const ELEMENTS: u32 = 32;
    /// Threads of a block.
    const BLOCK: u32 = if Self::THREADS < 128 { 128 } else { Self::THREADS };
    /// Rows of a block.
    const ROWS: u32 = Self::BLOCK / Self::THREADS;
    /// The longest row of a block, in elements; with [`Chunks`] the elements of a chunk.
    const COLUMNS: u32 = Self::THREADS * Self::ELEMENTS;
    /// Whether a [`RowStage`](super::RowStage) copies rows ahead: if few blocks fit on an SM, no
    /// other block's loads are in flight while one reduces.
    const AHEAD: bool = Self::THREADS >= 512 && Self::ALIGN == 16;
}

/// The blocks that share a row. The functions are by default those of one block.
pub trait RowBlocks: Copy + 'static {
    /// Whether they are a cluster's: the launch has clusters of 2, 4 or 8 blocks along x.
    const CLUSTER: bool;
    /// Whether one block takes the chunks of a row in turn.
    const CHUNKS: bool = false;
    /// Whether a block has a part of a row, so that
    /// [`combine_blocks`](super::RowTeam::combine_blocks) combines its values with the others'.
    const DIVIDES: bool = Self::CLUSTER || Self::CHUNKS;

    /// Prepares the exchanges at the kernel's start; `places` has two times [`PLACES`] elements.
    ///
    /// # Safety
    /// All threads of the block call it once, and `places` belong to the exchanges.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn start(places: Shared<f32>) {
        let _ = places;
    }

    /// The row of the block, if each block had one row, and the block's index in its row.
    #[doc(hidden)]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn place() -> (u32, u32) {
        (block_idx().x, 0)
    }

    /// The rows of a launch, if each block had one row.
    #[doc(hidden)]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn rows() -> u32 {
        grid_dim().x
    }

    /// Combines the blocks' values through `places`, at most four values of each block.
    ///
    /// # Safety
    /// All threads of the blocks call it together, `count` is the number of previous calls, and the
    /// threads of the block have synchronised since the last one.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn combine<const N: usize>(
        values: [f32; N],
        places: Shared<f32>,
        count: u32,
        f: &impl Fn([f32; N], [f32; N]) -> [f32; N],
    ) -> [f32; N] {
        let _ = (places, count, f);
        values
    }
}

/// Elements of the scratch memory of a reduction, one for each of 32 warps, and of an exchange:
/// four for each of 8 blocks, and an mbarrier.
pub(super) const PLACES: u32 = 40;

/// A row belongs to one block.
#[derive(Clone, Copy, Debug)]
pub struct OneBlock;

impl RowBlocks for OneBlock {
    const CLUSTER: bool = false;
}

/// A row is shared by the blocks of a cluster: 2, 4 or 8. In a cluster of one block an H200 has no
/// `st.async`.
///
/// They exchange values by `st.async`, which completes on an mbarrier of the block that waits for
/// it. A barrier of the cluster would wait for the block's earlier stores too. Consecutive
/// exchanges alternate between two sets of places and mbarriers: a block sends for exchange `i + 2`
/// when it has received exchange `i + 1`, which the other blocks send after they have read exchange
/// `i`.
#[derive(Clone, Copy, Debug)]
pub struct ClusterBlocks;

/// The address of the mbarrier of an exchange.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn barrier(places: Shared<f32>) -> u32 {
    places.offset(32).address()
}

impl RowBlocks for ClusterBlocks {
    const CLUSTER: bool = true;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn start(places: Shared<f32>) {
        if thread_idx().x == 0 {
            for i in 0..2 {
                // SAFETY: the mbarriers belong to the exchanges.
                unsafe { mbarrier_init(barrier(places.offset(i * PLACES as i32)), 1) };
            }
            fence_mbarrier_init();
        }
        cluster_arrive();
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn place() -> (u32, u32) {
        (block_idx().x / cluster_size(), cluster_rank())
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn rows() -> u32 {
        grid_dim().x / cluster_size()
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn combine<const N: usize>(
        values: [f32; N],
        places: Shared<f32>,
        count: u32,
        f: &impl Fn([f32; N], [f32; N]) -> [f32; N],
    ) -> [f32; N] {
        if count == 0 {
            // All blocks have started and initialised their mbarriers.
            cluster_wait();
        }
        let (thread, blocks) = (thread_idx().x, cluster_size());
        let places = places.offset((count & 1) * PLACES);
        let barrier = barrier(places);
        // SAFETY: each block has four places in every block's memory, which no thread reads or
        // writes between the exchange before the last and the wait for this one.
        unsafe {
            if thread == 0 {
                mbarrier_arrive_expect_tx(barrier, 16 * blocks);
            }
            if thread < blocks {
                let words = [0, 1, 2, 3].map(|i| if i < N { values[i.min(N - 1)].to_bits() } else { 0 });
                let place = map_shared(places.offset(4 * cluster_rank()).address(), thread);
                Word128::store_async(place, Word128(words), map_shared(barrier, thread));
            }
            mbarrier_wait_parity_cluster(barrier, count >> 1 & 1);
            // A lane has a block's values: three steps for eight blocks.
            let (lane, mut all) = (lane_id(), values);
            for (i, value) in all.iter_mut().enumerate() {
                *value = places.read((lane & (blocks - 1)) * 4 + i as u32);
            }
            let both = |all: [f32; N], step: u32| {
                let (mut lower, mut upper) = (all, all);
                for i in 0..N {
                    let other = shuffle_xor(FULL_WARP, all[i], step);
                    let is_lower = lane & step == 0;
                    lower[i] = if is_lower { all[i] } else { other };
                    upper[i] = if is_lower { other } else { all[i] };
                }
                f(lower, upper)
            };
            all = both(all, 1);
            if blocks > 2 {
                all = both(all, 2);
            }
            if blocks > 4 {
                all = both(all, 4);
            }
            all
        }
    }
}

macro_rules! shapes {
    ($(
        $(#[$doc:meta])*
        $name:ident: $threads:literal threads $(of $elements:literal)?, align $align:literal, $blocks:ident;
    )+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;
        impl RowShape for $name {
            const THREADS: u32 = $threads;
            const ALIGN: usize = $align;
            type Blocks = $blocks;
            $(const ELEMENTS: u32 = $elements;)?
        }
    )+ };
}
shapes! {
    /// Four lanes share a row of at most 128 elements: 32 rows a block.
    Lanes4: 4 threads, align 16, OneBlock;
    /// Eight lanes share a row of at most 256 elements: 16 rows a block.
    Lanes8: 8 threads, align 16, OneBlock;
    /// A warp shares a row of at most 1,024 elements: 4 rows a block.
    Warp: 32 threads, align 16, OneBlock;
    /// 128 threads share a row of at most 4,096 elements.
    Block128: 128 threads, align 16, OneBlock;
    /// 256 threads share a row of at most 8,192 elements.
    Block256: 256 threads, align 16, OneBlock;
    /// 512 threads share a row of at most 16,384 elements.
    Block512: 512 threads, align 16, OneBlock;
    /// 1,024 threads share a row of at most 32,768 elements.
    Block1024: 1024 threads, align 16, OneBlock;
    /// A cluster shares a row of at most 16,384 elements a block.
    Cluster512: 512 threads, align 16, ClusterBlocks;
    /// A cluster shares a row of at most 32,768 elements a block.
    Cluster1024: 1024 threads, align 16, ClusterBlocks;
    /// [`Warp`], for rows that start anywhere.
    AnyWarp: 32 threads, align 1, OneBlock;
    /// [`Block512`], for rows that start anywhere.
    AnyBlock512: 512 threads, align 1, OneBlock;
    /// [`Block1024`], for rows that start anywhere.
    AnyBlock: 1024 threads, align 1, OneBlock;
    /// [`Cluster512`], for rows that start anywhere.
    AnyCluster: 512 threads, align 1, ClusterBlocks;
    /// 512 threads take a row of any length in chunks of 8,192 elements, and read it again for each
    /// exchange: see [`Chunks`].
    Chunked: 512 threads of 16, align 16, Chunks;
    /// [`Chunked`], for rows that start anywhere.
    AnyChunked: 512 threads of 16, align 1, Chunks;
}

/// The distances in elements between two rows, and between two elements of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct RowStride {
    /// Between two rows.
    pub row: i64,
    /// Between two elements of a row: 1 if the shape requires an alignment.
    pub element: i64,
}

/// The strides of several matrices, as one parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RowStrides<const N: usize>(pub [RowStride; N]);

// SAFETY: an array of a parameter's type.
unsafe impl<const N: usize> KernelParam for RowStrides<N> {
    const TYPE: ParamType = ParamType::Struct { name: "RowStrides", size: size_of::<Self>() };
}

/// The strides of a matrix of rows of a shape.
#[derive(Clone, Copy)]
pub struct StridesOf<C>(pub(super) RowStride, pub(super) PhantomData<C>);

impl<C: RowShape> Strides for StridesOf<C> {
    type Rank = Rank<2>;
    const UNIT: Option<usize> = if C::ALIGN > 1 { Some(1) } else { None };
    const ALIGN: usize = if C::ALIGN > 1 { C::ALIGN } else { 0 };

    #[inline(always)]
    fn along(self, axis: usize) -> i64 {
        match axis {
            0 => self.0.row,
            _ if C::ALIGN > 1 => 1,
            _ => self.0.element,
        }
    }
}

/// The team's reductions and accesses support the shape, or the kernel does not compile.
pub(super) const fn allowed<C: RowShape>() {
    let threads = C::THREADS as i64;
    if !C::THREADS.is_power_of_two() || threads > 1024 || (threads <= 32 && C::Blocks::CLUSTER) {
        TilingError::of("RowShape")
            .str("THREADS is ")
            .int(threads)
            .str(": a row has a power of two of threads, 1,024 at most, and with the blocks of a cluster 64 or more")
            .raise();
    }
    if C::Blocks::CHUNKS && C::ROWS != 1 {
        TilingError::of("RowShape")
            .str("ROWS is ")
            .int(C::ROWS as i64)
            .str(": a block takes the chunks of one row")
            .raise();
    }
    if C::ALIGN != 1 && C::ALIGN != 16 {
        TilingError::of("RowShape")
            .str("ALIGN is ")
            .int(C::ALIGN as i64)
            .str(": it is 16, or 1 for rows that start anywhere")
            .raise();
    }
}

/// Elements `T` of an access: 16 bytes, or one element if rows start anywhere.
pub(super) const fn vector<T: Storable, C: RowShape>() -> i64 {
    if C::ALIGN == 16 { 128 / T::BITS } else { 1 }
}

static_layout! {
    /// The rows of a block: (BLK_M, BLK_N).
    pub RowTile<C: RowShape> = layout!((C::ROWS as i64, C::COLUMNS as i64));
    /// Shared memory of a [`RowTeam`](super::RowTeam): for each of up to six reductions of a tile,
    /// and of the next tile, an element for each warp; and the places of two exchanges between the
    /// blocks of a cluster.
    pub RowScratch = layout!((40, 14));
}
tiled_copy! {
    /// The copy of a block's rows between global memory and registers.
    pub RowCopy<T: Storable, C: RowShape>: TiledCopy<AutoVectorizingCopy, T> = TiledCopy::new(
        layout!((C::ROWS as i64, C::THREADS as i64):(C::THREADS as i64, 1)),
        layout!((1, vector::<T, C>())),
    );
    /// The copy of elements `E` that accompany elements `T` of a block's rows, such as a mask or
    /// quantised elements: each thread holds the same places as by [`RowCopy`].
    pub RowCopyWith<E: Storable, T: Storable, C: RowShape>: TiledCopy<AutoVectorizingCopy, E> = TiledCopy::new(
        layout!((C::ROWS as i64, C::THREADS as i64):(C::THREADS as i64, 1)),
        layout!((1, vector::<T, C>())),
    );
}
