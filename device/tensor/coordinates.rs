//! Tensors of coordinates: the positions, in a tensor in global memory, of the elements of a
//! thread's part (CuTe's identity tensor).

use super::at::{MAX_PLACES, PlaceKinds, Sliceable};
use super::element_index::ElementIndex;
use super::fragment::{Registers, RegistersMut};
use super::global::{FirstCoordinate, NoOpenMode, Rest, TileCoordinate, extents_of};
use super::rank::{MAX_RANK, More, Rank, TensorRank, all, by_axis};
use super::rows::{each_once, same_size};
use super::static_layout::{IdentityOf, StaticLayout};
use super::strided::fixes_open;
use super::tables::{Digits, SliceDigits};
use super::{Engine, Movable, Partitioned, Tensor, refuse};
use crate::layout::{Layout, Text};
use crate::memory::{Element, Storable};
use core::marker::PhantomData;

/// The engine of a tensor of coordinates: a position in a tensor of rank `R`, without memory.
///
/// It is partitioned like the tensor whose coordinates it holds. `T` is that tensor's element type,
/// so that its tiled copies accept this tensor.
///
/// `O` are the open modes of tiles, as for a tile in global memory.
#[derive(Clone, Copy)]
pub struct Coordinates<T, R = Rank<2>, O = ()> {
    origin: [i32; 2],
    origin_more: More,
    rest: O,
    tensor: PhantomData<(T, R)>,
}

/// A tensor of coordinates, of layout `L`.
pub type CoordinateTensor<T, L, R = Rank<2>, O = ()> = Tensor<Coordinates<T, R, O>, L>;

/// The coordinates of a tile of the shape of `L` whose first element is at `first`, `(row, column)`
/// in a matrix: CuTe's `make_identity_tensor`, as a part of a larger tensor.
///
/// ```
/// use moye_device::layout::layout;
/// use moye_device::static_layout;
/// use moye_device::tensor::identity_tensor;
///
/// static_layout! { Tile = layout!((32, 8)); Threads = layout!((32, 2)); }
/// let tile = identity_tensor::<f32, Tile, _>((64, 16)); // (BLK_M, BLK_N)
/// let part = tile.local_partition::<Threads>(33); // (1, 4)
/// assert_eq!(part.coordinate((0, 3)), (65, 16 + 1 + 3 * 2));
/// ```
///
/// With [`All`](super::All) instead of an integer, all tiles along that axis are open, from 0 on:
/// [`at`](Tensor::at) selects one, as for the tensor whose coordinates they are.
///
/// ```
/// use moye_device::layout::layout;
/// use moye_device::static_layout;
/// use moye_device::tensor::{All, identity_tensor};
///
/// static_layout! { Tile = layout!((32, 8)); Threads = layout!((32, 2)); }
/// let tiles = identity_tensor::<f32, Tile, _>((64, All)); // (BLK_M, BLK_N, n)
/// let part = tiles.local_partition::<Threads>(33); // (1, 4, n)
/// assert_eq!(part.at((.., .., 5)).coordinate((0, 3)), (65, 5 * 8 + 1 + 3 * 2));
/// ```
#[inline(always)]
#[must_use]
pub fn identity_tensor<T: Storable, L: StaticLayout, C: FirstCoordinate>(
    first: C,
) -> CoordinateTensor<T, IdentityOf<L>, C::Rank, <C as TileCoordinate<C::Rank>>::Rest> {
    let extents = const { extents_of_rank(&L::LAYOUT, C::Rank::RANK) };
    let (row, column) = first.origin();
    let origin_more = first.origin_more().map(|at| at as i32);
    // The extent of the tensor whose tiles these are is not known here.
    let rest = first.rest([i32::MAX; 2], [i32::MAX; MAX_RANK - 2], extents);
    let origin = [row as i32, column as i32];
    Tensor::from_engine(Coordinates { origin, origin_more, rest, tensor: PhantomData })
}

/// The extents of a tile of coordinates; a tile with another number of modes than the coordinates
/// does not compile.
#[track_caller]
const fn extents_of_rank(tile: &Layout, rank: usize) -> [u32; MAX_RANK] {
    if tile.rank() != rank {
        let mut text = Text::<400>::new();
        text.str("identity_tensor: the tile ");
        text.layout(tile);
        text.str(" has ");
        text.int(tile.rank() as i64);
        text.str(" modes, and its first coordinate ");
        text.int(rank as i64);
        refuse(&text);
    }
    extents_of(tile, rank)
}

impl<T: Storable, R: TensorRank, O: Rest> Coordinates<T, R, O> {
    #[inline(always)]
    const fn moved(self, by: [i32; 2]) -> Self {
        Self { origin: [self.origin[0] + by[0], self.origin[1] + by[1]], ..self }
    }

    #[inline(always)]
    const fn moved_more(self, by: More) -> Self {
        let from = self.origin_more;
        Self { origin_more: [from[0] + by[0], from[1] + by[1], from[2] + by[2]], ..self }
    }
}

impl<T: Storable, R: TensorRank, O: Rest> Engine for Coordinates<T, R, O> {
    type Element = T;
    const OPEN_AXES: u32 = O::AXES;
}

impl<T: Storable, R: TensorRank, O: Rest> Movable for Coordinates<T, R, O> {
    #[inline(always)]
    fn shift<S: StaticLayout>(&mut self, index: u32) {
        *self = self.moved([Digits::<S, 0>::offset(index), Digits::<S, 1>::offset(index)]);
        if const { R::RANK > 2 } {
            *self = self.moved_more(by_axis!(more R::RANK, AXIS => Digits::<S, AXIS>::offset(index)));
        }
    }
}

impl<T: Storable, R: TensorRank, O: Rest> Partitioned for Coordinates<T, R, O> {}

impl<T: Storable, R: TensorRank, O: Rest> Sliceable for Coordinates<T, R, O> {
    type Slice<'a, K: PlaceKinds>
        = Coordinates<T, R, O::Slice<K::Backwards>>
    where
        Self: 'a;

    const OPEN: usize = O::OPEN;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn slice<L: StaticLayout, K: PlaceKinds>(&self, places: [u32; MAX_PLACES]) -> Self::Slice<'_, K> {
        let mut slice =
            self.moved([SliceDigits::<L, K, 0>::offset(places), SliceDigits::<L, K, 1>::offset(places)]);
        if const { R::RANK > 2 } {
            slice =
                slice.moved_more(by_axis!(more R::RANK, AXIS => SliceDigits::<L, K, AXIS>::offset(places)));
        }
        if const { fixes_open::<K>(O::OPEN) } {
            let last = const { K::COUNT - 1 };
            slice = slice.moved(self.rest.offset::<K::Backwards>(places, last));
            if const { R::RANK > 2 } {
                slice = slice.moved_more(self.rest.offset_more::<K::Backwards>(places, last));
            }
        }
        let Coordinates { origin, origin_more, rest, tensor } = slice;
        Coordinates { origin, origin_more, rest: rest.slice::<K::Backwards>(), tensor }
    }
}

impl<T: Storable, L: StaticLayout, R: TensorRank, O: Rest> CoordinateTensor<T, L, R, O> {
    /// The coordinate of an element, `(row, column)` in a matrix. The element is given by its index
    /// or by a place in each mode.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn coordinate(&self, index: impl ElementIndex<L>) -> R::Shape
    where
        O: NoOpenMode,
    {
        let mut at = self.engine.moved([index.element_offset::<0>(), index.element_offset::<1>()]);
        if const { R::RANK > 2 } {
            at = at.moved_more(by_axis!(more R::RANK, AXIS => index.element_offset::<AXIS>()));
        }
        R::shape(all(at.origin, at.origin_more))
    }
}

macro_rules! apply_at {
    ($($engine:ty $(, $lifetime:lifetime)?;)+) => { $(
        impl<$($lifetime,)? T: Element, L: StaticLayout> Tensor<$engine, L> {
            /// Replaces each element by `f` of it and its coordinate, `(row, column)` in a matrix:
            /// for a mask or a bias.
            ///
            /// The coordinates must be partitioned like the fragment's tensor.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn apply_at<U: Storable, LC: StaticLayout, R: TensorRank, O: NoOpenMode>(
                &mut self,
                coordinates: &CoordinateTensor<U, LC, R, O>,
                mut f: impl FnMut(T, R::Shape) -> T,
            ) {
                const {
                    same_size("apply_at", &L::LAYOUT, &LC::LAYOUT);
                    each_once("apply_at", &L::LAYOUT);
                };
                for i in 0..Self::SIZE {
                    self[i] = f(self[i], coordinates.coordinate(i));
                }
            }
        }
    )+ };
}
apply_at! {
    Registers<T>;
    RegistersMut<'a, T>, 'a;
}
