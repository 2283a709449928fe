//! Whole rows in registers: how many threads share a row, and the reductions across them.
//!
//! A kernel that reduces along rows and then uses the elements again reads each of them once if the
//! threads that share a row hold it in registers. [`RowShape`] says how many threads that are, from
//! a few lanes to the blocks of a cluster; [`RowTile`] and [`RowCopy`] are the tile of a block and
//! its tiled copy, and [`RowTeam`] reduces across the threads of a row. A kernel is generic over
//! the shape, and the launch chooses an instance by the length of the rows ([`RowShape::COLUMNS`]).
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

use super::lanes_reduce;
use crate::arch::{
    ClusterWord as _, Convert, Word as _, Word128, block_idx, cluster_arrive, cluster_rank, cluster_size,
    cluster_wait, lane_id, map_shared, sync_threads, thread_idx,
};
use crate::atom::TiledCopy;
use crate::atom::copy::AutoVectorizingCopy;
use crate::kernel::KernelParam;
use crate::layout::{Layout, layout};
use crate::memory::{Element, GlobalPointer, GlobalPointerMut, Shared, Storable};
use crate::tensor::{
    Access as _, AccessMut as _, CoordinateTensor, Fragment, FragmentLike, GlobalArray, GlobalTensor,
    IdentityOf, Rank, SharedTensor, StaticLayout, Strides, TileCoordinate, identity_tensor,
};
use crate::tiling::TilingError;
use crate::{static_layout, tiled_copy};
use core::marker::PhantomData;

/// How the threads of a launch share rows.
pub trait RowShape: Copy + Default + 'static {
    /// Threads of a block that share a row: a power of two.
    const THREADS: u32;
    /// The alignment of rows in bytes: 16, where their length is a multiple of 16 bytes too, or 1
    /// where they start at any element.
    const ALIGN: usize;
    /// The blocks that share a row: [`OneBlock`], or those of a cluster ([`ClusterBlocks`], sm_90).
    type Blocks: RowBlocks;

    /// The most elements of a row that a thread holds.
    const ELEMENTS: u32 = 32;
    /// Threads of a block.
    const BLOCK: u32 = if Self::THREADS < 128 { 128 } else { Self::THREADS };
    /// Rows of a block.
    const ROWS: u32 = Self::BLOCK / Self::THREADS;
    /// The longest row of a block, in elements.
    const COLUMNS: u32 = Self::THREADS * Self::ELEMENTS;
}

/// The blocks that share a row.
pub trait RowBlocks: Copy + 'static {
    /// Whether they are a cluster's: the launch has clusters of 1 to 8 blocks along x.
    const CLUSTER: bool;

    /// Arrives at the cluster's barrier at the kernel's start.
    #[doc(hidden)]
    fn start();

    /// The row of the block, if each had one, and the block's number in it.
    #[doc(hidden)]
    fn place() -> (u32, u32);

    /// Combines the blocks' values through `places`, `N` elements for each block.
    ///
    /// # Safety
    /// All threads of the blocks call it together, `first` says whether for the first time, and no
    /// other call has the same places.
    #[doc(hidden)]
    unsafe fn combine<const N: usize>(
        values: [f32; N],
        places: Shared<f32>,
        first: bool,
        f: &impl Fn([f32; N], [f32; N]) -> [f32; N],
    ) -> [f32; N];
}

/// A row has one block at most.
#[derive(Clone, Copy, Debug)]
pub struct OneBlock;

impl RowBlocks for OneBlock {
    const CLUSTER: bool = false;

    #[inline(always)]
    fn start() {}

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn place() -> (u32, u32) {
        (block_idx().x, 0)
    }

    #[inline(always)]
    unsafe fn combine<const N: usize>(
        values: [f32; N],
        _: Shared<f32>,
        _: bool,
        _: &impl Fn([f32; N], [f32; N]) -> [f32; N],
    ) -> [f32; N] {
        values
    }
}

/// A row has the blocks of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterBlocks;

impl RowBlocks for ClusterBlocks {
    const CLUSTER: bool = true;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn start() {
        cluster_arrive();
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn place() -> (u32, u32) {
        (block_idx().x / cluster_size(), cluster_rank())
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn combine<const N: usize>(
        values: [f32; N],
        places: Shared<f32>,
        first: bool,
        f: &impl Fn([f32; N], [f32; N]) -> [f32; N],
    ) -> [f32; N] {
        if first {
            // No block writes into one that has not started.
            cluster_wait();
        }
        let (thread, blocks) = (thread_idx().x, cluster_size());
        // SAFETY: each block has places in every block's memory, which are read after the barrier.
        unsafe {
            if thread < blocks {
                for (i, value) in values.into_iter().enumerate() {
                    let place = places.offset((cluster_rank() * N as u32) as i32 + i as i32).address();
                    f32::store_shared_cluster(map_shared(place, thread), value);
                }
            }
            cluster_arrive();
            cluster_wait();
            let of_block = |block: u32| {
                let mut values = values;
                for (i, value) in values.iter_mut().enumerate() {
                    *value = places.read((block * N as u32) as i32 + i as i32);
                }
                values
            };
            let mut all = of_block(0);
            for block in 1..blocks {
                all = f(all, of_block(block));
            }
            all
        }
    }
}

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident: $threads:literal threads, align $align:literal, $blocks:ident;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;
        impl RowShape for $name {
            const THREADS: u32 = $threads;
            const ALIGN: usize = $align;
            type Blocks = $blocks;
        }
    )+ };
}
shapes! {
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
    /// A cluster shares a row of at most 8,192 elements a block.
    Cluster256: 256 threads, align 16, ClusterBlocks;
    /// A cluster shares a row of at most 16,384 elements a block.
    Cluster512: 512 threads, align 16, ClusterBlocks;
    /// A cluster shares a row of at most 32,768 elements a block.
    Cluster1024: 1024 threads, align 16, ClusterBlocks;
    /// [`Warp`], of rows that start anywhere.
    AnyWarp: 32 threads, align 1, OneBlock;
    /// [`Block512`], of rows that start anywhere.
    AnyBlock512: 512 threads, align 1, OneBlock;
    /// [`Block1024`], of rows that start anywhere.
    AnyBlock: 1024 threads, align 1, OneBlock;
    /// [`Cluster512`], of rows that start anywhere.
    AnyCluster: 512 threads, align 1, ClusterBlocks;
}

/// The distances in elements between two rows, and between two elements of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct RowStride {
    /// Between two rows.
    pub row: i64,
    /// Between two elements of a row: 1 where the shape demands an alignment.
    pub element: i64,
}

/// The strides of a matrix of rows of a shape.
#[derive(Clone, Copy)]
pub struct StridesOf<C>(RowStride, PhantomData<C>);

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

/// The shape is one that the team's reductions and accesses know, or the kernel does not compile.
const fn allowed<C: RowShape>() {
    let threads = C::THREADS as i64;
    if !C::THREADS.is_power_of_two() || threads > 1024 || (threads <= 32 && C::Blocks::CLUSTER) {
        TilingError::of("RowShape")
            .str("THREADS is ")
            .int(threads)
            .str(": a row has a power of two of threads, 1,024 at most, and with the blocks of a cluster 64 or more")
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

/// Elements `T` of an access: 16 bytes, or one element where rows start anywhere.
const fn vector<T: Storable, C: RowShape>() -> i64 {
    if C::ALIGN == 16 { 128 / T::BITS } else { 1 }
}

static_layout! {
    /// The rows of a block: (BLK_M, BLK_N).
    pub RowTile<C: RowShape> = layout!((C::ROWS as i64, C::COLUMNS as i64));
    /// Shared memory of a [`RowTeam`]: for each of up to six reductions an element for each warp
    /// and for each block of the cluster.
    pub RowScratch = layout!((40, 6));
}
tiled_copy! {
    /// The copy of a block's rows between global memory and registers.
    pub RowCopy<T: Storable, C: RowShape>: TiledCopy<AutoVectorizingCopy, T> = TiledCopy::new(
        layout!((C::ROWS as i64, C::THREADS as i64):(C::THREADS as i64, 1)),
        layout!((1, vector::<T, C>())),
    );
}

/// The most reductions of a [`RowTeam`].
const USES: u32 = 6;
/// Elements of the scratch memory of a reduction: 32 warps and 8 blocks.
const PLACES: u32 = 40;

/// The threads that share a row: lanes of a warp, the threads of a block, or those of the blocks of
/// a cluster.
///
/// In the simulator loads and stores are functions, which kernels of a shape and an element type
/// share: inlined they would be most of the time of its build.
pub struct RowTeam<C> {
    scratch: SharedTensor<f32, RowScratch>,
    /// Reductions so far: each has its part of the scratch memory, so that none waits until another
    /// has been read.
    used: u32,
    /// Whether the blocks have exchanged values.
    met: bool,
    shape: PhantomData<C>,
}

impl<C: RowShape> RowTeam<C> {
    /// The team of this thread.
    ///
    /// # Safety
    /// All threads of the block make one, and `scratch` belongs to it until the kernel ends. Grid
    /// and block are those of the shape: `C::BLOCK` threads, a block for each `C::ROWS` rows or a
    /// cluster for each row.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn new(scratch: SharedTensor<f32, RowScratch>) -> Self {
        const { allowed::<C>() };
        C::Blocks::start();
        Self { scratch, used: 0, met: false, shape: PhantomData }
    }

    /// The block's rows of a matrix of `m` rows of `n` elements: `(BLK_M, BLK_N)`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn rows<P: GlobalPointer>(
        &self,
        pointer: P,
        shape: (u32, u32),
        stride: RowStride,
    ) -> GlobalTensor<P, StridesOf<C>, IdentityOf<RowTile<C>>, <(u32, u32) as TileCoordinate<Rank<2>>>::Rest>
    {
        self.rows_at(pointer, shape, stride, self.tile())
    }

    /// [`rows`](Self::rows) of the tile at a coordinate instead of the block's: for a block that
    /// takes several tiles, or a part of the columns.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn rows_at<P: GlobalPointer>(
        &self,
        pointer: P,
        shape: (u32, u32),
        stride: RowStride,
        tile: (u32, u32),
    ) -> GlobalTensor<P, StridesOf<C>, IdentityOf<RowTile<C>>, <(u32, u32) as TileCoordinate<Rank<2>>>::Rest>
    {
        GlobalArray::new(pointer, shape, StridesOf::<C>(stride, PhantomData))
            .local_tile::<RowTile<C>, _>(tile)
    }

    /// The coordinates of the block's rows, `(row, column)` of the matrix: (BLK_M, BLK_N). They are
    /// partitioned as the rows are.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn coordinates<T: Storable>(&self) -> CoordinateTensor<T, IdentityOf<RowTile<C>>> {
        let (row, column) = self.tile();
        identity_tensor::<T, RowTile<C>, _>((row * C::ROWS, column * C::COLUMNS))
    }

    /// The coordinate of the block's tile of rows: `(block, 0)`, or in a cluster `(cluster, rank)`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn tile(&self) -> (u32, u32) {
        C::Blocks::place()
    }

    /// The row of the matrix that this thread shares; it may be past the last one.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn row(&self) -> u32 {
        self.tile().0 * C::ROWS + thread_idx().x / C::THREADS
    }

    /// The row of the matrix whose results this thread may write, one value a row; `None` in the
    /// row's other threads.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn leader(&self) -> Option<u32> {
        let (_, rank) = self.tile();
        (thread_idx().x.is_multiple_of(C::THREADS) && rank == 0).then(|| self.row())
    }

    /// Combines each row's values of all threads that share it; all of them get the result. Same
    /// bits in every run: the order depends on the shape alone.
    ///
    /// # Safety
    /// All threads of the block (of the cluster) call it together, at most six times in a kernel.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn reduce<L: StaticLayout>(
        &mut self,
        rows: Fragment<f32, L>,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, L> {
        let mut rows = rows;
        for row in 0..Fragment::<f32, L>::SIZE {
            // SAFETY: all threads of the row are here.
            unsafe {
                let (value, places) = self.reduce_one(rows[row], &f);
                // Those after the places of the warps.
                [rows[row]] = self.exchange([value], places.offset(32), |[a], [b]| [f(a, b)]);
            }
        }
        rows
    }

    /// [`reduce`](Self::reduce) in each block of a cluster alone. With
    /// [`combine_blocks`](Self::combine_blocks) several reductions need one exchange between the
    /// blocks.
    ///
    /// # Safety
    /// Same contract as [`reduce`](Self::reduce).
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn reduce_in_block<L: StaticLayout>(
        &mut self,
        rows: Fragment<f32, L>,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, L> {
        let mut rows = rows;
        for row in 0..Fragment::<f32, L>::SIZE {
            // SAFETY: all threads of the row are here.
            rows[row] = unsafe { self.reduce_one(rows[row], &f).0 };
        }
        rows
    }

    /// Combines `N` values, at most four, of each block that shares the row: those of one block
    /// are returned as they are. Same bits in every run.
    ///
    /// # Safety
    /// Same contract as [`reduce`](Self::reduce), among whose calls it counts; all threads of a
    /// block have the same values.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn combine_blocks<const N: usize>(
        &mut self,
        values: [f32; N],
        f: impl Fn([f32; N], [f32; N]) -> [f32; N],
    ) -> [f32; N] {
        const { assert!(N <= 4, "RowTeam::combine_blocks takes four values at most") };
        let places = self.places();
        // SAFETY: all threads of the blocks are here, and no other exchange has these places.
        unsafe { self.exchange(values, places, f) }
    }

    /// Scratch memory of one more reduction.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn places(&mut self) -> Shared<f32> {
        let places = self.scratch.pointer().offset((self.used * PLACES) as i32);
        self.used += 1;
        crate::arch::simulator_assert!(self.used <= USES, "a RowTeam reduces at most {USES} times");
        places
    }

    /// Combines values of the blocks through places for those of all blocks.
    ///
    /// # Safety
    /// Same contract as [`combine_blocks`](Self::combine_blocks); no other exchange has the places.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn exchange<const N: usize>(
        &mut self,
        values: [f32; N],
        places: Shared<f32>,
        f: impl Fn([f32; N], [f32; N]) -> [f32; N],
    ) -> [f32; N] {
        let first = !core::mem::replace(&mut self.met, true);
        // SAFETY: the caller's contract: all threads of the blocks are here.
        unsafe { C::Blocks::combine(values, places, first, &f) }
    }

    /// [`reduce`](Self::reduce) of one value in a block, and the scratch memory of the reduction.
    ///
    /// # Safety
    /// Same contract as [`reduce`](Self::reduce).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn reduce_one(&mut self, value: f32, f: &impl Fn(f32, f32) -> f32) -> (f32, Shared<f32>) {
        let places = self.scratch.pointer().offset((self.used * PLACES) as i32);
        let value = match C::THREADS {
            1 => value,
            2 => lanes_reduce::<1, f32>(value, f),
            4 => lanes_reduce::<3, f32>(value, f),
            8 => lanes_reduce::<7, f32>(value, f),
            16 => lanes_reduce::<15, f32>(value, f),
            _ => lanes_reduce::<31, f32>(value, f),
        };
        if C::THREADS <= 32 {
            return (value, places);
        }
        let places = self.places();
        let (thread, lane) = (thread_idx().x, lane_id());
        let warps = const { C::THREADS / 32 };
        // SAFETY: a warp writes its own place, and reads the others' after the barrier; no later
        // reduction has the same places. In a cluster each block has a place in every block, which
        // is read after the cluster's barrier.
        unsafe {
            if lane == 0 {
                places.write((thread / 32) as i32, value);
            }
            sync_threads();
            // Each warp combines the places, which lanes read at once.
            let value = places.read((lane % warps) as i32);
            let value = match warps {
                2 => lanes_reduce::<1, f32>(value, f),
                4 => lanes_reduce::<3, f32>(value, f),
                8 => lanes_reduce::<7, f32>(value, f),
                16 => lanes_reduce::<15, f32>(value, f),
                _ => lanes_reduce::<31, f32>(value, f),
            };
            (value, places)
        }
    }
}

impl<C: RowShape> RowTeam<C> {
    /// Elements of the vectors that are loaded before they are used: enough to hide the latency,
    /// and few enough for 64 registers a thread.
    const GROUP: usize = 16;

    /// The elements `from..to` of a thread's part, each vector by one predicated load; 0 out of
    /// bounds.
    ///
    /// # Safety
    /// The source is readable.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load_vectors<P, S, L>(
        part: &GlobalTensor<P, S, L, ()>,
        values: &mut Fragment<P::Element, FragmentLike<L>>,
        (from, to): (usize, usize),
    ) where
        P: GlobalPointer<Element: Element>,
        S: Strides,
        L: StaticLayout,
    {
        let vector = const { vector::<P::Element, C>() as usize };
        for i in from / vector..to / vector {
            let i = i * vector;
            let (valid, address) = (part.engine().exists::<L>(i), part.engine().address::<L>(i));
            // SAFETY: the vector is in bounds where it is valid, and aligned as the shape says; a
            // fragment's elements are compact.
            unsafe {
                if C::ALIGN > 1 {
                    let word = Word128::load_global_if(valid, address);
                    values.engine_mut().store::<FragmentLike<L>, Word128>(i, word);
                } else {
                    let bits = <P::Element as Element>::Bits::load_global_if(valid, address);
                    values[i] = P::Element::from_bits(bits);
                }
            }
        }
    }

    /// A thread's part of the block's rows, in f32; 0 out of bounds. Each vector is one predicated
    /// load: vectors are in bounds or out of it, as the shape's alignment holds for the length too.
    ///
    /// # Safety
    /// Same contract as [`copy`](super::copy()), for the source.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub unsafe fn load<P, S, L>(
        &self,
        part: &GlobalTensor<P, S, L, ()>,
    ) -> Fragment<f32, FragmentLike<FragmentLike<L>>>
    where
        P: GlobalPointer<Element: Element + Convert<f32>>,
        S: Strides,
        L: StaticLayout,
    {
        let mut values = Fragment::<P::Element, FragmentLike<L>>::zeros();
        // SAFETY: the source is readable.
        unsafe { Self::load_vectors(part, &mut values, (0, const { L::LAYOUT.size() as usize })) };
        values.convert()
    }

    /// Replaces each element of a thread's rows by `f` of it and of the element of `part` at the
    /// same place, 0 out of bounds; a few vectors are loaded at a time, so that few registers hold
    /// them.
    ///
    /// # Safety
    /// Same contract as [`load`](Self::load).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn apply_loaded<P, S, LG, L>(
        &self,
        values: &mut Fragment<f32, L>,
        part: &GlobalTensor<P, S, LG, ()>,
        f: impl Fn(f32, f32) -> f32,
    ) where
        P: GlobalPointer<Element: Element + Convert<f32>>,
        S: Strides,
        LG: StaticLayout,
        L: StaticLayout,
    {
        let size = const { same_part(&L::LAYOUT, &LG::LAYOUT) };
        for group in 0..size.div_ceil(Self::GROUP) {
            let (from, to) = (group * Self::GROUP, ((group + 1) * Self::GROUP).min(size));
            let mut loaded = Fragment::<P::Element, FragmentLike<LG>>::zeros();
            // SAFETY: the source is readable.
            unsafe { Self::load_vectors(part, &mut loaded, (from, to)) };
            for i in from..to {
                values[i] = f(values[i], loaded[i].convert());
            }
        }
    }

    /// Stores a thread's rows, rounded to the elements of `part`, each vector by one predicated
    /// store; nothing out of bounds.
    ///
    /// # Safety
    /// Same contract as [`copy`](super::copy()), for the destination.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn store<P, S, LG, L>(&self, values: &Fragment<f32, L>, part: &GlobalTensor<P, S, LG, ()>)
    where
        P: GlobalPointerMut<Element: Element>,
        f32: Convert<P::Element>,
        S: Strides,
        LG: StaticLayout,
        L: StaticLayout,
    {
        let (size, vector) =
            const { (same_part(&L::LAYOUT, &LG::LAYOUT), vector::<P::Element, C>() as usize) };
        let rounded = values.convert::<P::Element>();
        for i in 0..size / vector {
            let i = i * vector;
            let (valid, address) = (part.engine().exists::<LG>(i), part.engine().address::<LG>(i));
            // SAFETY: the vector is in bounds where it is valid, and aligned as the shape says; a
            // fragment's elements are compact.
            unsafe {
                if C::ALIGN > 1 {
                    let word = rounded.engine().load::<FragmentLike<L>, Word128>(i);
                    Word128::store_global_if(valid, address, word);
                } else {
                    <P::Element as Element>::Bits::store_global_if(valid, address, rounded[i].to_bits());
                }
            }
        }
    }

    /// Sets the elements of a thread's rows that are out of bounds of `part` to `value`: what has
    /// no effect on the reduction that follows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub fn fill_outside<P, S, LG, L>(
        &self,
        values: &mut Fragment<f32, L>,
        part: &GlobalTensor<P, S, LG, ()>,
        value: f32,
    ) where
        P: GlobalPointer,
        S: Strides,
        LG: StaticLayout,
        L: StaticLayout,
    {
        let (size, vector) =
            const { (same_part(&L::LAYOUT, &LG::LAYOUT), vector::<P::Element, C>() as usize) };
        for i in 0..size {
            // As the vector that it is in.
            if !part.engine().exists::<LG>(i / vector * vector) {
                values[i] = value;
            }
        }
    }
}

/// The number of elements of a thread's rows and of the part that they go with.
const fn same_part(values: &Layout, part: &Layout) -> usize {
    if values.size() != part.size() {
        TilingError::of("RowTeam")
            .str("the values are ")
            .layout(values)
            .str(" and the part is ")
            .layout(part)
            .str(": take the part of the tensor by the same RowCopy")
            .raise();
    }
    values.size() as usize
}
