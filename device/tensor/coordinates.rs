//! Coordinates as a tensor: where in a matrix the elements of a thread's part are, CuTe's identity
//! tensor.

use super::at::{MAX_PLACES, PlaceKinds, Sliceable};
use super::element_index::ElementIndex;
use super::fragment::{Registers, RegistersMut};
use super::rows::same_size;
use super::static_layout::{IdentityOf, StaticLayout};
use super::tables::{Digits, Offsets, SliceDigits};
use super::{Engine, Partitioned, Tensor};
use crate::arch::simulator_assert;
use crate::memory::{Element, Storable};
use core::marker::PhantomData;

/// The engine of a tensor of coordinates: a place in a matrix, and no memory.
///
/// It is partitioned like the tensor whose coordinates it has. `T` is that tensor's element type,
/// so that a tiled copy of it accepts this one.
#[derive(Clone, Copy)]
pub struct Coordinates<T> {
    origin: [i32; 2],
    element: PhantomData<T>,
}

/// A tensor of coordinates, of layout `L`.
pub type CoordinateTensor<T, L> = Tensor<Coordinates<T>, L>;

/// The coordinates `(row, column)` of a tile of the shape of `L` whose first element is at `first`:
/// CuTe's `make_identity_tensor`, as the part of a larger matrix.
///
/// ```
/// use moye_device::layout::layout;
/// use moye_device::static_layout;
/// use moye_device::tensor::identity_tensor;
///
/// static_layout! { Tile = layout!((32, 8)); Threads = layout!((32, 2)); }
/// let tile = identity_tensor::<f32, Tile>((64, 16)); // (BLK_M, BLK_N)
/// let part = tile.local_partition::<Threads>(33); // (1, 4)
/// assert_eq!(part.coordinate((0, 3)), (65, 16 + 1 + 3 * 2));
/// ```
#[inline(always)]
#[must_use]
pub fn identity_tensor<T: Storable, L: StaticLayout>(
    first: (u32, u32),
) -> CoordinateTensor<T, IdentityOf<L>> {
    Tensor::from_engine(Coordinates { origin: [first.0 as i32, first.1 as i32], element: PhantomData })
}

impl<T: Storable> Coordinates<T> {
    #[inline(always)]
    const fn moved(self, by: [i32; 2]) -> Self {
        Self { origin: [self.origin[0] + by[0], self.origin[1] + by[1]], ..self }
    }
}

impl<T: Storable> Engine for Coordinates<T> {
    type Element = T;

    #[inline(always)]
    fn shift<S: StaticLayout>(&mut self, index: u32) {
        *self = self.moved([Digits::<S, 0>::offset(index), Digits::<S, 1>::offset(index)]);
    }
}

impl<T: Storable> Partitioned for Coordinates<T> {}

impl<T: Storable> Sliceable for Coordinates<T> {
    type Slice<'a, K: PlaceKinds> = Self;

    #[inline(always)]
    fn slice<L: StaticLayout, K: PlaceKinds>(&self, places: [u32; MAX_PLACES]) -> Self {
        self.moved([SliceDigits::<L, K, 0>::offset(places), SliceDigits::<L, K, 1>::offset(places)])
    }
}

impl<T: Storable, L: StaticLayout> CoordinateTensor<T, L> {
    /// `(row, column)` of an element, which is named by its index or by a place in each mode.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn coordinate(&self, index: impl ElementIndex<L>) -> (u32, u32) {
        let index = index.element_index();
        simulator_assert!(
            index < Self::SIZE,
            "element {index} of the {} of a tensor of coordinates",
            L::LAYOUT
        );
        let [row, column] = self.engine.origin;
        ((row + Offsets::<L, 0>::TABLE[index]) as u32, (column + Offsets::<L, 1>::TABLE[index]) as u32)
    }
}

macro_rules! apply_at {
    ($($engine:ty $(, $lifetime:lifetime)?;)+) => { $(
        impl<$($lifetime,)? T: Element, L: StaticLayout> Tensor<$engine, L> {
            /// Replaces each element by `f` of it and its coordinate `(row, column)`: a mask, a
            /// bias.
            ///
            /// The coordinates are partitioned as the fragment's tensor was.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn apply_at<U: Storable, LC: StaticLayout>(
                &mut self,
                coordinates: &CoordinateTensor<U, LC>,
                mut f: impl FnMut(T, (u32, u32)) -> T,
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
