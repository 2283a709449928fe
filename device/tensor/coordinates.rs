//! Coordinates as a tensor: where in a tensor in global memory the elements of a thread's part are,
//! CuTe's identity tensor.

use super::at::{MAX_PLACES, PlaceKinds, Sliceable};
use super::element_index::ElementIndex;
use super::fragment::{Registers, RegistersMut};
use super::rank::{More, Rank, TensorCoordinate, TensorRank, all, by_axis};
use super::rows::same_size;
use super::static_layout::{IdentityOf, StaticLayout};
use super::tables::{Digits, Offsets, SliceDigits};
use super::{Engine, Movable, Partitioned, Tensor, refuse};
use crate::arch::simulator_assert;
use crate::layout::{Layout, Text};
use crate::memory::{Element, Storable};
use core::marker::PhantomData;

/// The engine of a tensor of coordinates: a place in a tensor of rank `R`, and no memory.
///
/// It is partitioned like the tensor whose coordinates it has. `T` is that tensor's element type,
/// so that a tiled copy of it accepts this one.
#[derive(Clone, Copy)]
pub struct Coordinates<T, R = Rank<2>> {
    origin: [i32; 2],
    origin_more: More,
    tensor: PhantomData<(T, R)>,
}

/// A tensor of coordinates, of layout `L`.
pub type CoordinateTensor<T, L, R = Rank<2>> = Tensor<Coordinates<T, R>, L>;

/// The coordinates of a tile of the shape of `L` whose first element is at `first`, `(row, column)`
/// in a matrix: CuTe's `make_identity_tensor`, as the part of a larger tensor.
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
#[inline(always)]
#[must_use]
pub fn identity_tensor<T: Storable, L: StaticLayout, C: TensorCoordinate>(
    first: C,
) -> CoordinateTensor<T, IdentityOf<L>, C::Rank> {
    const { has_rank(&L::LAYOUT, C::Rank::RANK) };
    let [row, column, origin_more @ ..] = C::Rank::numbers(first, 0);
    Tensor::from_engine(Coordinates { origin: [row, column], origin_more, tensor: PhantomData })
}

/// A tile of coordinates has as many modes as they have numbers, or it does not compile.
#[track_caller]
const fn has_rank(tile: &Layout, rank: usize) {
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
}

impl<T: Storable, R: TensorRank> Coordinates<T, R> {
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

impl<T: Storable, R: TensorRank> Engine for Coordinates<T, R> {
    type Element = T;
}

impl<T: Storable, R: TensorRank> Movable for Coordinates<T, R> {
    #[inline(always)]
    fn shift<S: StaticLayout>(&mut self, index: u32) {
        *self = self.moved([Digits::<S, 0>::offset(index), Digits::<S, 1>::offset(index)]);
        if const { R::RANK > 2 } {
            *self = self.moved_more(by_axis!(more R::RANK, AXIS => Digits::<S, AXIS>::offset(index)));
        }
    }
}

impl<T: Storable, R: TensorRank> Partitioned for Coordinates<T, R> {}

impl<T: Storable, R: TensorRank> Sliceable for Coordinates<T, R> {
    type Slice<'a, K: PlaceKinds> = Self;

    #[inline(always)]
    fn slice<L: StaticLayout, K: PlaceKinds>(&self, places: [u32; MAX_PLACES]) -> Self {
        let slice =
            self.moved([SliceDigits::<L, K, 0>::offset(places), SliceDigits::<L, K, 1>::offset(places)]);
        if const { R::RANK > 2 } {
            return slice
                .moved_more(by_axis!(more R::RANK, AXIS => SliceDigits::<L, K, AXIS>::offset(places)));
        }
        slice
    }
}

impl<T: Storable, L: StaticLayout, R: TensorRank> CoordinateTensor<T, L, R> {
    /// The coordinate of an element, `(row, column)` in a matrix. The element is named by its
    /// index or by a place in each mode.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn coordinate(&self, index: impl ElementIndex<L>) -> R::Shape {
        let index = index.element_index();
        simulator_assert!(
            index < Self::SIZE,
            "element {index} of the {} of a tensor of coordinates",
            L::LAYOUT
        );
        let mut at = self.engine.moved([Offsets::<L, 0>::TABLE[index], Offsets::<L, 1>::TABLE[index]]);
        if const { R::RANK > 2 } {
            at = at.moved_more(by_axis!(more R::RANK, AXIS => Offsets::<L, AXIS>::TABLE[index]));
        }
        R::shape(all(at.origin, at.origin_more))
    }
}

macro_rules! apply_at {
    ($($engine:ty $(, $lifetime:lifetime)?;)+) => { $(
        impl<$($lifetime,)? T: Element, L: StaticLayout> Tensor<$engine, L> {
            /// Replaces each element by `f` of it and its coordinate, `(row, column)` in a matrix:
            /// a mask, a bias.
            ///
            /// The coordinates are partitioned as the fragment's tensor was.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn apply_at<U: Storable, LC: StaticLayout, R: TensorRank>(
                &mut self,
                coordinates: &CoordinateTensor<U, LC, R>,
                mut f: impl FnMut(T, R::Shape) -> T,
            ) {
                const { same_size("apply_at", &L::LAYOUT, &LC::LAYOUT) };
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
