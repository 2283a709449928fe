//! Tensors: memory ([`Engine`]) with a layout ([`StaticLayout`]).
//!
//! A [`Tensor`] is one of three kinds, distinguished by its engine:
//!
//! - in **global memory** ([`Strided`]): the tile's shape is known at compile time, its strides are
//!   not. The layout maps to *coordinates*, `index -> (m, k)`; the address is their dot product
//!   with the run-time strides, and the predicates compare the same coordinates with the remaining
//!   extents of the tensor. The rank is 1 to 5 ([`GlobalArray`]).
//! - in **shared memory** ([`Shared`](crate::memory::Shared)): the layout maps to offsets, all
//!   known at compile time.
//! - in **registers** ([`Registers`], and borrows of them): the layout maps to offsets among the
//!   thread's own elements.
//!
//! Layouts are values ([`Layout`](crate::layout::Layout)) and a tensor carries its layout as a type
//! with one constant ([`StaticLayout`]), so that the compiler computes everything derived from it
//! (partitions, offset tables, vector widths), once for each instantiation, independent of the
//! optimiser. Only thread-dependent values are computed at run time: partitioning moves the
//! tensor's origin and replaces its layout.

mod at;
mod coordinates;
mod element_index;
mod fragment;
mod global;
mod groups;
mod operand;
mod packed;
mod partition;
mod rank;
mod room;
mod rows;
mod shared;
mod slice;
mod static_layout;
mod storage;
mod strided;
mod strides;
pub(crate) mod tables;
mod tile;

pub use at::{
    Backwards, Fixed, Kept, MAX_PLACES, OneStage, Place, PlaceKind, PlaceKinds, Places, SliceOf, Sliceable,
};
pub use coordinates::{CoordinateTensor, Coordinates, identity_tensor};
pub use element_index::ElementIndex;
pub use fragment::{Fragment, FragmentLike, Registers, RegistersMut, RegistersRef, fragment_layout};
pub use global::{
    All, Along, FirstCoordinate, GlobalArray, Matrix, NoOpenMode, Rest, TileCoordinate, TilePlace, TilePlaces,
};
pub use groups::{Groups, GroupsOf, Once};
pub use operand::{Input, InputElement, Output, OutputElement, View};
pub use packed::{PackedArray, PackedTensor};
pub use partition::{One, PartitionOf, Projection, Step, ThreadOf, Unnamed, X};
pub use rank::{MAX_RANK, Rank, TensorCoordinate, TensorRank};
pub use rows::{AcrossLanes, ByRow, InRegisters, OfTile, Reduced, Reordered};
pub(crate) use rows::{each_once, same_size, same_threads};
pub use shared::SharedTensor;
pub(crate) use shared::{block_bytes, starts_at_zero};
pub(crate) use slice::AllButLast;
pub use slice::{ModeOf, Transposed};
pub use static_layout::{Divisors, IdentityOf, StaticLayout, starts_at_offset_zero};
pub(crate) use static_layout::{gcd, stand_in};
pub use storage::{SharedArray, SharedStorage};
pub use strided::{GlobalTensor, Strided};
pub use strides::{Aligned, Dense, KeptStrides, Strides, UnitStride, WholeTiles};
pub use tile::{ProjectedTile, TileOf, TilesOf};

use crate::memory::Storable;
use core::marker::PhantomData;

/// Ends constant evaluation with `text` as the error.
#[track_caller]
const fn refuse<const N: usize>(text: &crate::layout::Text<N>) -> ! {
    panic!("{}", text.as_str())
}

/// Elements of an engine, indexed by a layout.
pub struct Tensor<E, L> {
    engine: E,
    layout: PhantomData<fn() -> L>,
}

impl<E: Clone, L> Clone for Tensor<E, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone(), layout: PhantomData }
    }
}
impl<E: Copy, L> Copy for Tensor<E, L> {}

impl<E, L> Tensor<E, L> {
    /// The elements of `L`, counted from the engine's origin.
    #[inline(always)]
    pub(crate) const fn from_engine(engine: E) -> Self {
        Self { engine, layout: PhantomData }
    }
}

impl<E, L: StaticLayout> Tensor<E, L> {
    /// The number of elements.
    pub const SIZE: usize = L::LAYOUT.size() as usize;

    /// The layout: of coordinates in global memory, of offsets in shared memory.
    #[must_use]
    pub const fn layout(&self) -> crate::layout::Layout {
        L::LAYOUT
    }
}

/// The memory of a tensor's elements, and its origin in it.
pub trait Engine {
    /// The element type.
    type Element: Storable;

    /// The axes along which all tiles are open, one bit each.
    #[doc(hidden)]
    const OPEN_AXES: u32 = 0;
}

/// An engine whose origin can be moved: all but registers, whose slices are borrows.
pub trait Movable: Engine {
    /// Moves the origin by the offset of `T` at `index`.
    fn shift<T: StaticLayout>(&mut self, index: u32);
}

/// An engine of shared memory or global memory, whose elements can be divided among threads.
#[diagnostic::on_unimplemented(
    message = "a tensor over `{Self}` cannot be partitioned among threads",
    note = "a fragment belongs to one thread; tensors in global and shared memory are partitioned"
)]
pub trait Partitioned: Movable {}

/// No mode of tiles is open (`open` has a bit for each axis), or the call does not compile.
#[track_caller]
pub(crate) const fn one_tile(what: &str, open: u32, layout: &crate::layout::Layout) {
    if open != 0 {
        crate::tiling::TilingError::of(what)
            .str("a mode of the tensor is still open, of all tiles along axis ")
            .int(open.trailing_zeros() as i64)
            .str(" of ")
            .layout(layout)
            .str(": take one tile of it first, .at((.., .., .., tile))")
            .raise();
    }
}

/// A number of elements, as a type.
pub trait Length {
    /// The number.
    const LENGTH: usize;
}

/// The most elements that one access may move: [`Access::Run`].
pub const fn run_of<E: Access, L: StaticLayout>() -> usize {
    <E::Run<L> as Length>::LENGTH
}

/// An engine from which the elements of a layout are read, one or several at a time.
///
/// # Safety
/// [`Access::Run`] is correct: `load` and `store` rely on it to move a word as one access.
pub unsafe trait Access: Engine {
    /// The largest number of elements (a power of two) such that every group of this size, starting
    /// at a multiple of it, is contiguous and aligned.
    type Run<L: StaticLayout>: Length;

    /// Reads the elements from `index` on that fill the word `W`; out of bounds elements read as
    /// zeros.
    ///
    /// # Safety
    /// Elements in bounds are readable; `index` is below the layout's size and a multiple of the
    /// word's elements; [`Access::Run`] is a multiple of them too.
    unsafe fn load<L: StaticLayout, W: crate::arch::Word>(&self, index: usize) -> W;

    /// Reads one element of any size; out of bounds it reads as zero.
    ///
    /// # Safety
    /// Elements in bounds are readable; `index` is below the layout's size.
    unsafe fn load_one<L: StaticLayout>(&self, index: usize) -> Self::Element;

    /// [`load_one`](Self::load_one) of an element whose index may be known only at run time.
    ///
    /// # Safety
    /// Same contract as [`load_one`](Self::load_one), for the element's index.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load_at<L: StaticLayout>(&self, at: impl ElementIndex<L>) -> Self::Element {
        // SAFETY: the element may be read, and the index is below the size.
        unsafe { self.load_one::<L>(at.element_index()) }
    }

    /// Whether the element is in bounds.
    fn exists<L: StaticLayout>(&self, index: usize) -> bool;

    /// Faults if one of `count` elements from `index` on, in registers, was never written; other
    /// memories are checked at each read. For callers that read in closures, which do not know the
    /// user's line.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    fn assert_written<L: StaticLayout>(&self, index: usize, count: usize) {
        let _ = (index, count);
    }
}

/// An engine that can also be written.
///
/// # Safety
/// Same contract as [`Access`].
pub unsafe trait AccessMut: Access {
    /// Writes the word to the elements from `index` on; out of bounds elements are skipped.
    ///
    /// # Safety
    /// Same contract as [`Access::load`], for writing.
    unsafe fn store<L: StaticLayout, W: crate::arch::Word>(&mut self, index: usize, word: W);

    /// Writes one element of any size; out of bounds it is skipped.
    ///
    /// # Safety
    /// Same contract as [`Access::load_one`], for writing. For an element smaller than a byte, its
    /// byte is read and written back: meanwhile no other thread accesses any element of the byte.
    unsafe fn store_one<L: StaticLayout>(&mut self, index: usize, value: Self::Element);

    /// [`store_one`](Self::store_one) of an element whose index may be known only at run time.
    ///
    /// # Safety
    /// Same contract as [`store_one`](Self::store_one), for the element's index.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn store_at<L: StaticLayout>(&mut self, at: impl ElementIndex<L>, value: Self::Element) {
        // SAFETY: the element may be written, and the index is below the size.
        unsafe { self.store_one::<L>(at.element_index(), value) }
    }

    /// Tells the simulator that a copy's predicate leaves `count` elements from `index` on
    /// unchanged.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    fn leave<L: StaticLayout>(&mut self, index: usize, count: usize) {
        let _ = (index, count);
    }
}

impl<E: Engine, L> Tensor<E, L> {
    /// The engine, for the algorithms.
    #[inline(always)]
    pub(crate) fn engine(&self) -> &E {
        &self.engine
    }

    /// The engine, for the algorithms.
    #[inline(always)]
    pub(crate) fn engine_mut(&mut self) -> &mut E {
        &mut self.engine
    }

    /// The same elements with another layout from the same origin: for example a thread's partition
    /// with a mode divided by [`logical_divide`](crate::layout::logical_divide).
    ///
    /// # Safety
    /// Each element of `N` is an element of `L`, and `N` has the swizzle, the origin and the
    /// alignment of `L` ([`StaticLayout::SWIZZLE`], [`StaticLayout::ORIGIN`] and
    /// [`StaticLayout::MOVED`]).
    #[inline(always)]
    pub unsafe fn renamed<N: StaticLayout>(self) -> Tensor<E, N> {
        Tensor::from_engine(self.engine)
    }

    /// The engine, for partitions.
    #[inline(always)]
    pub(crate) fn into_engine(self) -> E {
        self.engine
    }
}

impl<E: Engine, L: StaticLayout> Tensor<E, L> {
    /// Reads one element; out of bounds it reads as zero. It is given by its index or by a place in
    /// each mode, `t.get((i, j))`; for a fragment `t[(i, j)]` is the same and needs no `unsafe`. In
    /// memory the index may be known only at run time; in registers a thread's loop over its
    /// elements must be unrolled.
    ///
    /// # Safety
    /// The tensor's memory may be read, and no other thread writes the element meanwhile. `index`
    /// is below [`Tensor::SIZE`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn get(&self, index: impl ElementIndex<L>) -> E::Element
    where
        E: Access,
    {
        // SAFETY: the element may be read, and `index` is below the size.
        unsafe { self.engine.load_at::<L>(index) }
    }

    /// Writes one element; out of bounds it is skipped. It is given as for [`get`](Self::get).
    ///
    /// # Safety
    /// The tensor's memory is writable, and no other thread accesses the element, nor, if it is
    /// smaller than a byte, another element of its byte. `index` is below [`Tensor::SIZE`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn set(&mut self, index: impl ElementIndex<L>, value: E::Element)
    where
        E: AccessMut,
    {
        // SAFETY: the element may be written, and `index` is below the size.
        unsafe { self.engine.store_at::<L>(index, value) }
    }
}
