//! Tiles of tensors with a static layout (in shared memory, or of coordinates), and the projections
//! of tiles.
//!
//! In the algebra: divide the tensor's layout by the tile's shape,
//! `(BLK_0, BLK_1, ..., REST_0, REST_1, ...)`, and slice at the tile's coordinate. For tensors in
//! global memory, whose extents are known at run time, see [`GlobalArray::local_tile`].
//!
//! [`GlobalArray::local_tile`]: super::GlobalArray::local_tile

use super::at::{MAX_PLACES, PlaceKinds, Sliceable, modes_where};
use super::coordinates::CoordinateTensor;
use super::global::{Rest, TilePlaces};
use super::partition::Projection;
use super::rank::{MAX_RANK, TensorRank};
use super::static_layout::{Divisors, StaticLayout, stand_in};
use super::tables::{moved, steps};
use super::{Tensor, one_tile, refuse};
use crate::arch::simulator_assert;
use crate::layout::{IntTuple, Layout, MAX_NODES, Swizzle, Text, Tiler, make_col_major, try_logical_divide};
use crate::memory::{Element, Shared, SharedPacked, Storable};
use crate::number::Scalar;
use core::marker::PhantomData;

/// The modes of the tile `T` that the projection `P` keeps, CuTe's `dice`: `(BLK_M, BLK_K)` from
/// `(BLK_M, BLK_N, BLK_K)` by `Step<One, X, One>`.
pub struct ProjectedTile<T, P>(PhantomData<(T, P)>);

/// The tiles of the shape of `T` in `L`: `(REST_0, REST_1, ...)`.
pub struct TilesOf<L, T>(PhantomData<(L, T)>);

/// A tile of the shape of `T` in a tensor of layout `L`, at a coordinate of kinds `K`:
/// `(BLK_0, BLK_1, ..., rest, ...)`.
pub struct TileOf<L, T, K>(PhantomData<(L, T, K)>);

macro_rules! marker {
    ($($name:ident<$($of:ident),+>),+) => { $(
        impl<$($of),+> Clone for $name<$($of),+> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<$($of),+> Copy for $name<$($of),+> {}
    )+ };
}
marker!(ProjectedTile<T, P>, TilesOf<L, T>, TileOf<L, T, K>);

impl<T: StaticLayout, P: Projection> StaticLayout for ProjectedTile<T, P> {
    const LAYOUT: Layout = projected(&T::LAYOUT, P::KEPT, P::NAMED);
}

/// A projection names each mode of the tile and keeps at least one, or it does not compile.
const fn projected(tile: &Layout, kept: [bool; MAX_RANK], named: usize) -> Layout {
    let mut shape = [IntTuple::int(1); MAX_RANK];
    let (mut count, mut mode) = (0, 0);
    while mode < tile.rank() && mode < MAX_RANK {
        if kept[mode] && mode < named {
            shape[count] = tile.mode(mode).shape();
            count += 1;
        }
        mode += 1;
    }
    if named != tile.rank() || count == 0 {
        let mut text = Text::<400>::new();
        text.str("tile!: the projection names ");
        text.int(named as i64);
        text.str(" modes and keeps ");
        text.int(count as i64);
        text.str(", and the tile ");
        text.layout(tile);
        text.str(" has ");
        text.int(tile.rank() as i64);
        text.str(": write `1` for each mode of the tile that is kept, one at least, and `X` for each other");
        refuse(&text);
    }
    make_col_major(IntTuple::tuple(shape.split_at(count).0))
}

/// Mode `mode` of a tensor, divided: `(BLK, REST)`.
const fn divided(tensor: &Layout, tile: &Layout, mode: usize) -> Layout {
    if mode >= tensor.rank() {
        return stand_in(2);
    }
    match try_logical_divide(tensor.mode(mode), Tiler::shape(IntTuple::int(tile.extent(mode)))) {
        Ok(parts) => parts,
        Err(_) => stand_in(2),
    }
}

/// The tile has no more modes than the tensor, and divides them; its coordinate has `places`
/// entries. Otherwise it does not compile.
#[track_caller]
const fn divides(tensor: &Layout, tile: &Layout, places: usize) {
    let mut text = Text::<400>::new();
    text.str("local_tile: the tile ");
    text.layout(tile);
    if places != tile.rank() {
        text.str(" has ");
        text.int(tile.rank() as i64);
        text.str(" modes, and its coordinate ");
        text.int(places as i64);
        text.str(": write a number or `_` for each mode of the tile");
        refuse(&text);
    }
    if tile.rank() > tensor.rank() {
        text.str(" has ");
        text.int(tile.rank() as i64);
        text.str(" modes, and the tensor ");
        text.layout(tensor);
        text.str(" has ");
        text.int(tensor.rank() as i64);
        refuse(&text);
    }
    let mut mode = 0;
    while mode < tile.rank() {
        if tensor.extent(mode) % tile.extent(mode) != 0 {
            text.str(" does not divide the tensor ");
            text.layout(tensor);
            text.str(": mode ");
            text.int(mode as i64);
            text.str(" has ");
            text.int(tensor.extent(mode));
            text.str(" elements; take a tile whose extents divide those of the tensor");
            refuse(&text);
        }
        mode += 1;
    }
}

impl<L: StaticLayout, T: StaticLayout> StaticLayout for TilesOf<L, T> {
    const LAYOUT: Layout = {
        let mut modes = [L::LAYOUT; MAX_RANK];
        let mut mode = 0;
        while mode < T::LAYOUT.rank() {
            modes[mode] = divided(&L::LAYOUT, &T::LAYOUT, mode).mode(1);
            mode += 1;
        }
        Layout::concat(modes.split_at(mode).0)
    };
    const ORIGIN: Divisors = L::ORIGIN;
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = L::MOVED;
    const STEPPED: u64 = L::STEPPED;
}

impl<L: StaticLayout, T: StaticLayout, K: PlaceKinds> StaticLayout for TileOf<L, T, K> {
    const LAYOUT: Layout = {
        let (tile, tiles) = (T::LAYOUT, TilesOf::<L, T>::LAYOUT);
        let mut modes = [L::LAYOUT; MAX_NODES];
        let (mut count, mut mode) = (0, 0);
        while mode < tile.rank() {
            modes[count] = divided(&L::LAYOUT, &tile, mode).mode(0);
            count += 1;
            mode += 1;
        }
        mode = 0;
        while mode < tile.rank() {
            if !K::FIXED[mode] {
                modes[count] = tiles.mode(mode);
                count += 1;
            }
            mode += 1;
        }
        while mode < L::LAYOUT.rank() {
            modes[count] = L::LAYOUT.mode(mode);
            count += 1;
            mode += 1;
        }
        Layout::concat(modes.split_at(count).0)
    };
    const WHOLE: () = divides(&L::LAYOUT, &T::LAYOUT, K::COUNT);
    const ORIGIN: Divisors = L::ORIGIN.and(steps(modes_where(TilesOf::<L, T>::LAYOUT, K::FIXED, true)));
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = L::MOVED;
    const STEPPED: u64 = moved(L::STEPPED, modes_where(TilesOf::<L, T>::LAYOUT, K::FIXED, true), L::SWIZZLE);
}

/// Checks that the coordinate belongs to a tile; otherwise the simulator faults.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn check<L: StaticLayout, T: StaticLayout, K: PlaceKinds>(places: [u32; MAX_PLACES]) {
    // Only the simulator checks.
    if cfg!(not(target_arch = "nvptx64")) {
        for (mode, &place) in places.iter().enumerate().take(T::LAYOUT.rank()) {
            let tiles = TilesOf::<L, T>::LAYOUT.extent(mode);
            simulator_assert!(
                !K::FIXED[mode] || i64::from(place) < tiles,
                "local_tile: tile {place} along mode {mode} of {}, where the tile {} has {tiles}",
                L::LAYOUT,
                T::LAYOUT
            );
        }
    }
}

// Written out: the first lines of a check's message would show a macro, if one expanded to it.
impl<T: Element, L: StaticLayout> Tensor<Shared<T>, L> {
    /// The tile with coordinate `at` among tiles of the shape of `B`: CuTe's `local_tile`.
    ///
    /// Like [`GlobalArray::local_tile`](super::GlobalArray::local_tile), but the tiles must divide
    /// the tensor, or it does not compile. Modes past those of the tile are kept: for
    /// `(128, 64, PIPE)`, `tile!(sA, (64, 64), (warpgroup, 0))` is `(64, 64, PIPE)`. The simulator
    /// faults if there is no such tile.
    ///
    /// ```
    /// use moye_device::memory::Shared;
    /// use moye_device::prelude::*;
    ///
    /// swizzled_layout! {
    ///     /// (BLK_M, BLK_K, PIPE)
    ///     SmemA = shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((128, 64, 4)));
    /// }
    /// let sA = SharedTensor::<f16, SmemA>::shared(Shared::from_address(0x400)); // (BLK_M, BLK_K, PIPE)
    /// let warpgroup = 1u32;
    /// let sA = tile!(sA, (64, 64), (warpgroup, 0)); // (64, BLK_K, PIPE)
    /// assert_eq!([0, 1, 2].map(|mode| sA.layout().extent(mode)), [64, 64, 4]);
    /// // Row 64, at 128 bytes a row, is the first of the second warpgroup.
    /// assert_eq!(sA.at((0, .., 0)).address_of(0), 0x400 + 64 * 128);
    /// ```
    #[doc(alias = "@tile")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn local_tile<B: StaticLayout, C: TilePlaces>(
        self,
        at: C,
    ) -> Tensor<Shared<T>, TileOf<L, B, C::Kinds>> {
        const { divides(&L::LAYOUT, &B::LAYOUT, C::Kinds::COUNT) };
        Tensor::from_engine(sliced::<_, L, B, C>(&self.engine, at))
    }
}

impl<T: Scalar + Storable, L: StaticLayout> Tensor<SharedPacked<T>, L> {
    /// The tile with coordinate `at` among tiles of the shape of `B`: same as `local_tile` of other
    /// shared memory.
    #[doc(alias = "@tile")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn local_tile<B: StaticLayout, C: TilePlaces>(
        self,
        at: C,
    ) -> Tensor<SharedPacked<T>, TileOf<L, B, C::Kinds>> {
        const { divides(&L::LAYOUT, &B::LAYOUT, C::Kinds::COUNT) };
        Tensor::from_engine(sliced::<_, L, B, C>(&self.engine, at))
    }
}

impl<T: Storable, R: TensorRank, O: Rest, L: StaticLayout> CoordinateTensor<T, L, R, O> {
    /// The coordinates of the tile with coordinate `at` among tiles of the shape of `B`: same as
    /// `local_tile` of shared memory. They must have no open mode, or it does not compile.
    #[doc(alias = "@tile")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn local_tile<B: StaticLayout, C: TilePlaces>(
        self,
        at: C,
    ) -> CoordinateTensor<T, TileOf<L, B, C::Kinds>, R, O::Slice<<C::Kinds as PlaceKinds>::Backwards>> {
        const { one_tile("local_tile", O::AXES, &L::LAYOUT) };
        const { divides(&L::LAYOUT, &B::LAYOUT, C::Kinds::COUNT) };
        Tensor::from_engine(sliced::<_, L, B, C>(&self.engine, at))
    }
}

/// The engine of a tile.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn sliced<E: Sliceable, L: StaticLayout, B: StaticLayout, C: TilePlaces>(
    engine: &E,
    at: C,
) -> E::Slice<'_, C::Kinds> {
    let places = at.places();
    check::<L, B, C::Kinds>(places);
    engine.slice::<TilesOf<L, B>, C::Kinds>(places)
}
