//! TMA as a tiled copy: moves tiles between a tensor of coordinates, which represents a tensor map,
//! and shared memory.
//!
//! ```
//! use half::bf16;
//! use moye_device::atom::tma::TmaCopy;
//! use moye_device::layout::{Major, SwizzleBytes, layout, shared_memory_atom, tuple};
//! use moye_device::swizzled_layout;
//! use moye_device::tensor::OneStage;
//! use moye_sim::TensorElement;
//!
//! swizzled_layout! {
//!     /// (BLK_M, BLK_K, PIPE)
//!     SmemA = shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((128, 64, 4)));
//! }
//! /// A stage of A, of a matrix (M, K).
//! type LoadA = TmaCopy<bf16, OneStage<SmemA>, 2>;
//! assert_eq!(LoadA::BYTES, 128 * 64 * 2);
//!
//! // The host builds the tensor map from the same type.
//! let map = LoadA::tensor_map(0x1000, &layout!((1000, 512):(512, 1)))?;
//! assert_eq!((map.element, map.box_extents[..2].to_vec()), (TensorElement::Bf16, vec![64, 128]));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use super::tile::{MAX_RANK, TmaTile};
use crate::arch::{CachePolicy, cluster_rank};
use crate::atom::TilingError;
use crate::kernel::{KernelParam, ParamType};
use crate::layout::{ComposedLayout, IntTuple, Layout, Swizzle, Tiler, layout, logical_divide};
use crate::memory::{Element, Shared, TensorMap, TensorMapPointer};
use crate::tensor::tables;
use crate::tensor::{Divisors, Fixed, Movable, Place, StaticLayout, Tensor};
use core::marker::PhantomData;
use core::ops::Deref;

/// The copy of a tile by TMA, as a type: elements `T` with the layout `L` in shared memory,
/// `(BLK_0, BLK_1, ...)`, of a tensor of `R` modes, which starts with the tile's modes.
///
/// With a `CLUSTER` of more than one, each block of the cluster loads its part of the tile along
/// mode 0 and multicasts it to all: CuTe's `SM90_TMA_LOAD_MULTICAST`.
#[derive(Debug)]
pub struct TmaCopy<T, L, const R: usize, const CLUSTER: u32 = 1>(PhantomData<fn() -> (T, L)>);

macro_rules! copied {
    ($($name:ident<C $(, $rank:ident)?>),+) => { $(
        impl<C $(, const $rank: usize)?> Clone for $name<C $(, $rank)?> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<C $(, const $rank: usize)?> Copy for $name<C $(, $rank)?> {}
    )+ };
}
copied!(TmaTensor<C, R>, ThrTma<C>, TmaMap<C>);

/// The parameter type of a [`TmaMap`]: any [`TmaCopy`].
pub trait TmaTiled: Sized + 'static {
    /// The element type.
    type Element: Element;
    /// The boxes that one block copies.
    const TILE: TmaTile;
}

impl<T: Element, L: StaticLayout, const R: usize, const CLUSTER: u32> TmaTiled for TmaCopy<T, L, R, CLUSTER> {
    type Element = T;
    const TILE: TmaTile = boxes(PartLayout::<L, CLUSTER>::LAYOUT, L::SWIZZLE, 8 * T::BYTES as i64, R);
}

/// The boxes of a tile in a tensor of `rank` modes; the tile has extent 1 along modes that it
/// lacks.
const fn boxes(tile: Layout, swizzle: Swizzle, bits: i64, rank: usize) -> TmaTile {
    if tile.rank() > rank || rank > MAX_RANK {
        TilingError::of("TmaCopy")
            .str("a tile ")
            .layout(&tile)
            .str(" of a tensor of ")
            .int(rank as i64)
            .str(" modes; a tensor has 1 to 5, and as many as the tile at least")
            .raise();
    }
    let mut modes = [layout!((1):(0)).mode(0); MAX_RANK];
    let mut mode = 0;
    while mode < tile.rank() {
        modes[mode] = tile.mode(mode);
        mode += 1;
    }
    TmaTile::new(ComposedLayout::new(swizzle, 0, Layout::concat(modes.split_at(rank).0)), bits)
}

/// Mode 0 of a tile divided among the blocks of a cluster. All functions of a copy use this
/// constant, so that the compiler reports a mistake once.
struct Divided<L, const CLUSTER: u32>(PhantomData<L>);

impl<L: StaticLayout, const CLUSTER: u32> Divided<L, CLUSTER> {
    /// `(part, block)`; a cluster that does not divide the tile does not compile.
    const MODES: Layout = {
        let (tile, extent) = (&L::LAYOUT, L::LAYOUT.extent(0));
        if extent % CLUSTER as i64 != 0 {
            let error = TilingError::of("TmaCopy")
                .str("a cluster of ")
                .int(CLUSTER as i64)
                .str(" blocks divides mode 0 of the tile ")
                .layout(tile)
                .str(", which has ")
                .int(extent)
                .str(" elements: its extent must be a multiple");
            error.raise();
        }
        logical_divide(tile.mode(0), Tiler::shape(IntTuple::int(extent / CLUSTER as i64)))
    };
}

/// The part of a tile that one block of `CLUSTER` copies: mode 0 is divided.
pub struct PartLayout<L, const CLUSTER: u32>(PhantomData<L>);
/// Maps a block of the cluster to the origin of its part.
struct BlockOf<L, const CLUSTER: u32>(PhantomData<L>);

macro_rules! marker {
    ($($name:ident)+) => { $(
        impl<L, const CLUSTER: u32> Clone for $name<L, CLUSTER> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<L, const CLUSTER: u32> Copy for $name<L, CLUSTER> {}
    )+ };
}
marker!(PartLayout BlockOf);

impl<L: StaticLayout, const CLUSTER: u32> StaticLayout for BlockOf<L, CLUSTER> {
    const LAYOUT: Layout = if CLUSTER == 1 { layout!((1):(0)) } else { Divided::<L, CLUSTER>::MODES.mode(1) };
}

impl<L: StaticLayout, const CLUSTER: u32> StaticLayout for PartLayout<L, CLUSTER> {
    const LAYOUT: Layout = if CLUSTER == 1 {
        L::LAYOUT
    } else {
        let mut modes = [layout!((1):(0)); MAX_RANK + 1];
        modes[0] = Divided::<L, CLUSTER>::MODES.mode(0);
        let mut mode = 1;
        while mode < L::LAYOUT.rank() {
            modes[mode] = L::LAYOUT.mode(mode);
            mode += 1;
        }
        Layout::concat(modes.split_at(mode).0)
    };
    const ORIGIN: Divisors = L::ORIGIN.and(tables::steps(BlockOf::<L, CLUSTER>::LAYOUT));
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = tables::moved(L::MOVED, BlockOf::<L, CLUSTER>::LAYOUT, L::SWIZZLE);
    const STEPPED: u64 = L::STEPPED;
}

/// A tensor of coordinates, bound to a kernel's tensor map: the coordinate of its first element.
///
/// It has the modes of the map's tensor. Tiles are given by their coordinates, and may cross or be
/// past any edge: loads fill out of bounds elements with zeros, and stores skip them.
#[derive(Debug)]
pub struct TmaTensor<C, const R: usize> {
    map: TensorMapPointer,
    start: [i32; R],
    copy: PhantomData<fn() -> C>,
}

impl<T: Element, L: StaticLayout, const R: usize, const CLUSTER: u32>
    TmaTensor<TmaCopy<T, L, R, CLUSTER>, R>
{
    /// Elements of a tile along each mode of the tensor; 1 along modes that the tile lacks.
    const EXTENTS: [i32; R] = {
        let mut extents = [1; R];
        let mut mode = 0;
        while mode < R && mode < L::LAYOUT.rank() {
            extents[mode] = L::LAYOUT.extent(mode) as i32;
            mode += 1;
        }
        extents
    };

    /// The tile with these coordinates, one for each mode of the tensor, CuTe's `local_tile`:
    /// `a.tensor().at((block.x, k))`. Along modes that the tile lacks, the coordinate itself.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn at<N: TileNumbers<R>>(mut self, numbers: N) -> Self {
        let numbers = numbers.numbers();
        let mut mode = 0;
        while mode < R {
            self.start[mode] += numbers[mode] as i32 * const { Self::EXTENTS }[mode];
            mode += 1;
        }
        self
    }

    /// The tensor that starts at this coordinate, CuTe's `domain_offset`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn offset<N: TileNumbers<R>>(mut self, by: N) -> Self {
        let by = by.numbers();
        let mut mode = 0;
        while mode < R {
            self.start[mode] += by[mode] as i32;
            mode += 1;
        }
        self
    }
}

/// The coordinates of a tile in a tensor of `R` modes, or of an element: a tuple of integers, or an
/// array.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a tile of a tensor map's tensor",
    note = "write a tuple with an integer (i32, u32, i64, u64 or usize) for each mode of the tensor map"
)]
pub trait TileNumbers<const R: usize>: Copy {
    /// The coordinates.
    #[doc(hidden)]
    fn numbers(self) -> [u32; R];
}

impl<P: Place<Kind = Fixed>, const R: usize> TileNumbers<R> for [P; R] {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn numbers(self) -> [u32; R] {
        let mut numbers = [0; R];
        let mut mode = 0;
        while mode < R {
            numbers[mode] = self[mode].place();
            mode += 1;
        }
        numbers
    }
}

macro_rules! numbers {
    ($($rank:literal $($name:ident)+;)+) => { $(
        #[allow(non_snake_case)]
        impl<$($name: Place<Kind = Fixed>),+> TileNumbers<$rank> for ($($name,)+) {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn numbers(self) -> [u32; $rank] {
                let ($($name,)+) = self;
                [$($name.place()),+]
            }
        }
    )+ };
}
numbers! {
    1 A;
    2 A B;
    3 A B C;
    4 A B C D;
    5 A B C D E;
}

/// The part of one block of a cluster in the copy `C`; all of it without a cluster.
#[derive(Debug)]
pub struct ThrTma<C> {
    rank: u32,
    policy: Option<CachePolicy>,
    copy: PhantomData<fn() -> C>,
}

impl<T: Element, L: StaticLayout, const R: usize, const CLUSTER: u32> TmaCopy<T, L, R, CLUSTER> {
    /// The boxes that one block copies.
    pub const TILE: TmaTile = <Self as TmaTiled>::TILE;

    /// The bytes of a tile, which its stage's mbarrier expects from all blocks of the cluster.
    pub const BYTES: u32 = CLUSTER * Self::TILE.bytes();

    /// The part of this block of the cluster.
    #[inline(always)]
    #[must_use]
    pub fn get_slice() -> ThrTma<Self> {
        let _ = Divided::<L, CLUSTER>::MODES;
        let rank = if CLUSTER == 1 { 0 } else { cluster_rank() };
        ThrTma { rank, policy: None, copy: PhantomData }
    }

    /// The tensor of coordinates of a map built from this copy's [`TILE`](Self::TILE), for a
    /// kernel's parameter. A [`TmaMap`] carries the copy in its type.
    #[inline(always)]
    #[must_use]
    pub fn tensor(map: &TensorMap) -> TmaTensor<Self, R> {
        let _ = Divided::<L, CLUSTER>::MODES;
        TmaTensor { map: map.pointer(), start: [0; R], copy: PhantomData }
    }

    /// The tensor map for a tensor at `address` whose layout counts elements.
    ///
    /// # Errors
    /// If TMA does not support the tensor; the error has the values.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn tensor_map(address: u64, tensor: &Layout) -> Result<moye_sim::TensorMap, super::TmaMapError>
    where
        T: super::TmaElement,
    {
        Self::TILE.tensor_map(T::ELEMENT, address, tensor)
    }
}

impl<T: Element, L: StaticLayout, const R: usize, const CLUSTER: u32> ThrTma<TmaCopy<T, L, R, CLUSTER>> {
    /// This copy with an L2 cache policy.
    #[inline(always)]
    #[must_use]
    pub const fn with_policy(mut self, policy: CachePolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// This block's part of a tile, in global memory.
    #[inline(always)]
    #[must_use]
    pub const fn partition_s(
        self,
        mut tensor: TmaTensor<TmaCopy<T, L, R, CLUSTER>, R>,
    ) -> TmaTensor<TmaCopy<T, L, R, CLUSTER>, R> {
        if CLUSTER > 1 {
            tensor.start[0] += (self.rank * const { L::LAYOUT.extent(0) as u32 / CLUSTER }) as i32;
        }
        tensor
    }

    /// This block's part of a tile, in shared memory: `(BLK_0 / CLUSTER, BLK_1, ..., PIPE)`.
    #[inline(always)]
    #[must_use]
    pub fn partition_d<N: StaticLayout>(
        self,
        tensor: Tensor<Shared<T>, N>,
    ) -> Tensor<Shared<T>, PartLayout<N, CLUSTER>> {
        let _ = Divided::<N, CLUSTER>::MODES;
        let mut engine = tensor.into_engine();
        engine.shift::<BlockOf<N, CLUSTER>>(self.rank);
        Tensor::from_engine(engine)
    }

    /// [`copy`](Self::copy) to an mbarrier outside of a pipeline.
    ///
    /// # Safety
    /// Same contract as [`copy`](Self::copy); `barrier` is the shared address of an mbarrier.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn copy_to_barrier<N: StaticLayout>(
        self,
        source: TmaTensor<TmaCopy<T, L, R, CLUSTER>, R>,
        destination: Tensor<Shared<T>, N>,
        barrier: u32,
    ) {
        let () = SameTile::<TmaCopy<T, L, R, CLUSTER>, N>::CHECKED;
        let multicast = if CLUSTER > 1 { Some(((1u32 << CLUSTER) - 1) as u16) } else { None };
        let tile = const { TmaCopy::<T, L, R, CLUSTER>::TILE };
        let address = destination.engine().address();
        // SAFETY: `source` belongs to a map of this copy, whose tensor is readable; the barrier
        // expects the tile's bytes.
        unsafe { tile.load(address, source.map, source.start, barrier, multicast, self.policy) }
    }

    /// Prefetches a tile into L2. One thread calls it.
    ///
    /// # Safety
    /// `source` belongs to a map of this copy, whose tensor is readable memory.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn prefetch(self, source: TmaTensor<TmaCopy<T, L, R, CLUSTER>, R>) {
        // SAFETY: `source` belongs to a map of this copy.
        unsafe { const { TmaCopy::<T, L, R, CLUSTER>::TILE }.prefetch(source.map, source.start) }
    }

    /// Stores a tile. One thread calls it, and commits it as a group (`bulk_commit_group`).
    ///
    /// # Safety
    /// The tile was written, with a fence to the async proxy and a barrier since; it stays
    /// unchanged until the thread has waited for the group. `destination` belongs to a map of this
    /// copy, whose tensor is writable memory that no other thread accesses.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn store<N: StaticLayout>(
        self,
        source: Tensor<Shared<T>, N>,
        destination: TmaTensor<TmaCopy<T, L, R, CLUSTER>, R>,
    ) {
        let () = SameTile::<TmaCopy<T, L, R, CLUSTER>, N>::CHECKED;
        let tile = const { TmaCopy::<T, L, R, CLUSTER>::TILE };
        // SAFETY: the tile was written and fenced; the map's tensor is writable memory that the
        // caller's contract covers.
        unsafe { tile.store(destination.map, destination.start, source.engine().address(), self.policy) }
    }

    /// [`store`](Self::store) that adds to the destination.
    ///
    /// # Safety
    /// Same contract as [`store`](Self::store), except that other threads may add to the same
    /// elements.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn reduce_add<N: StaticLayout>(
        self,
        source: Tensor<Shared<T>, N>,
        destination: TmaTensor<TmaCopy<T, L, R, CLUSTER>, R>,
    ) {
        let () = SameTile::<TmaCopy<T, L, R, CLUSTER>, N>::CHECKED;
        let tile = const { TmaCopy::<T, L, R, CLUSTER>::TILE };
        // SAFETY: the tile was written and fenced; the map's tensor is writable memory that the
        // caller's contract covers.
        unsafe { tile.reduce_add(destination.map, destination.start, source.engine().address()) }
    }
}

/// A tensor in shared memory is cut into the copy's boxes, or does not compile. All functions of
/// the copy name this constant.
pub(crate) struct SameTile<C, N>(PhantomData<(C, N)>);

impl<T, L, N, const R: usize, const CLUSTER: u32> SameTile<TmaCopy<T, L, R, CLUSTER>, N>
where
    T: Element,
    L: StaticLayout,
    N: StaticLayout,
{
    pub(crate) const CHECKED: () = {
        let own = TmaCopy::<T, L, R, CLUSTER>::TILE;
        let given = boxes(N::LAYOUT, N::SWIZZLE, 8 * T::BYTES as i64, R);
        if !own.is_same(&given) {
            let error = TilingError::of("TmaCopy")
                .str("the copy is of tiles ")
                .layout(&PartLayout::<L, CLUSTER>::LAYOUT)
                .str(", and the tensor in shared memory is ")
                .layout(&N::LAYOUT)
                .str(": slice its stages, and partition it by the copy (partition_d)");
            error.raise();
        }
    };
}

/// A tensor map as a kernel's parameter, typed by its copy: a kernel that takes a `TmaMap<LoadA>`
/// accepts no other.
#[repr(transparent)]
pub struct TmaMap<C> {
    map: TensorMap,
    copy: PhantomData<fn() -> C>,
}

impl<C> TmaMap<C> {
    /// The map with these words, in the form of the device that will run the kernel, built from
    /// `C`'s [`TmaTiled::TILE`].
    #[must_use]
    pub const fn from_words(words: [u64; 16]) -> Self {
        Self { map: TensorMap::from_words(words), copy: PhantomData }
    }
}

/// The map without its type: [`pointer`](TensorMap::pointer) is the parameter's address.
impl<C> Deref for TmaMap<C> {
    type Target = TensorMap;

    #[inline(always)]
    fn deref(&self) -> &TensorMap {
        &self.map
    }
}

impl<T: Element, L: StaticLayout, const R: usize, const CLUSTER: u32> TmaMap<TmaCopy<T, L, R, CLUSTER>> {
    /// The tensor of coordinates of the map: call it on the parameter itself.
    #[inline(always)]
    #[must_use]
    pub fn tensor(&self) -> TmaTensor<TmaCopy<T, L, R, CLUSTER>, R> {
        let _ = Divided::<L, CLUSTER>::MODES;
        TmaTensor { map: self.map.pointer(), start: [0; R], copy: PhantomData }
    }
}

// SAFETY: a tensor map; the type marker has no bytes.
unsafe impl<C: 'static> KernelParam for TmaMap<C> {
    const TYPE: ParamType = <TensorMap as KernelParam>::TYPE;

    #[inline(always)]
    fn at(self, address: u64) -> Self {
        Self { map: self.map.at(address), copy: PhantomData }
    }
}
