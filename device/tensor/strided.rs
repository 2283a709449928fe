//! The engine of tensors in global memory: addresses are the dot product of coordinates and
//! strides, and the same coordinates yield the predicates.

use super::at::{MAX_PLACES, PlaceKinds, Sliceable};
use super::element_index::ElementIndex;
use super::global::{Along, NoOpenMode, Rest};
use super::rank::{MAX_RANK, More, TensorRank, all, by_axis, more_along, others_below};
use super::static_layout::StaticLayout;
use super::strides::{Strides, WholeTiles};
use super::tables::{Digits, Offsets, SliceDigits, run};
use super::{Access, AccessMut, Engine, Length, Movable, Partitioned, Tensor};
use crate::arch::Word;
use crate::memory::{GlobalPackedMut, GlobalPointer, GlobalPointerMut, Storable};
use crate::number::Scalar;
use core::marker::PhantomData;

/// A tile of a tensor in global memory, or a thread's part of one.
pub type GlobalTensor<P, S, L, R = ()> = Tensor<Strided<P, S, R>, L>;

/// A coordinate: the first two components, and the others.
type Coordinate = ([i32; 2], More);

/// The engine of global memory: an address, the remaining extents of the tensor from there, and the
/// strides.
#[derive(Clone, Copy)]
pub struct Strided<P, S, R = ()> {
    pointer: P,
    /// Extents relative to the origin: an element is in bounds if each coordinate is below.
    left: [i32; 2],
    /// The remaining extents of the third and later modes.
    left_more: More,
    strides: S,
    rest: R,
}

impl<P: GlobalPointer, S: Strides, R> Strided<P, S, R> {
    #[inline(always)]
    pub(super) const fn new(pointer: P, left: [i32; 2], left_more: More, strides: S, rest: R) -> Self {
        Self { pointer, left, left_more, strides, rest }
    }

    #[inline(always)]
    fn without_rest(&self) -> Strided<P, S> {
        Strided {
            pointer: self.pointer,
            left: self.left,
            left_more: self.left_more,
            strides: self.strides,
            rest: (),
        }
    }

    #[inline(always)]
    pub(super) fn advance(&mut self, by: [i32; 2]) {
        let offset = by[0] as i64 * self.strides.along(0) + by[1] as i64 * self.strides.along(1);
        self.pointer = self.pointer.offset(offset);
        self.left = [self.left[0] - by[0], self.left[1] - by[1]];
    }

    #[inline(always)]
    pub(super) fn advance_more(&mut self, by: More) {
        self.pointer = self.pointer.offset(more_along(by, self.strides));
        let left = self.left_more;
        self.left_more = [left[0] - by[0], left[1] - by[1], left[2] - by[2]];
    }

    /// The coordinate of an element, relative to the origin; `index` is constant after unrolling.
    #[inline(always)]
    fn coordinate<L: StaticLayout>(index: usize) -> Coordinate {
        let more = by_axis!(more S::Rank::RANK, AXIS => Offsets::<L, AXIS>::TABLE[index]);
        ([Offsets::<L, 0>::TABLE[index], Offsets::<L, 1>::TABLE[index]], more)
    }

    /// [`coordinate`](Self::coordinate), by arithmetic.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn coordinate_at<L: StaticLayout>(at: impl ElementIndex<L>) -> Coordinate {
        let more = by_axis!(more S::Rank::RANK, AXIS => at.element_offset::<AXIS>());
        ([at.element_offset::<0>(), at.element_offset::<1>()], more)
    }

    /// The pointer to an element.
    #[inline(always)]
    fn pointer_to(&self, ([i, j], more): Coordinate) -> P {
        let pointer =
            self.pointer.offset(i as i64 * self.strides.along(0) + j as i64 * self.strides.along(1));
        if const { S::Rank::RANK > 2 } {
            return pointer.offset(more_along(more, self.strides));
        }
        pointer
    }

    /// The address of an element, in bytes; `index` is constant after unrolling.
    #[inline(always)]
    pub(crate) fn address<L: StaticLayout>(&self, index: usize) -> u64 {
        self.pointer_to(Self::coordinate::<L>(index)).address()
    }

    /// The number of the `count` elements from `index` on that are in bounds; they are a run along
    /// the contiguous mode, or a single element. `index` is constant after unrolling.
    #[inline(always)]
    pub(crate) fn existing<L: StaticLayout>(&self, index: usize, count: usize) -> u32 {
        self.existing_from(Self::coordinate::<L>(index), count)
    }

    /// [`existing`](Self::existing), from a coordinate on.
    #[inline(always)]
    fn existing_from(&self, (c, more): Coordinate, count: usize) -> u32 {
        if S::WHOLE {
            return count as u32;
        }
        if const { S::Rank::RANK > 2 } {
            return self.existing_of_more(all(c, more), count);
        }
        let unit = S::UNIT.unwrap_or(0);
        let across = c[1 - unit] < self.left[1 - unit];
        let run = (self.left[unit] - c[unit]).clamp(0, count as i32) as u32;
        if across { run } else { 0 }
    }

    /// Like [`existing`](Self::existing), for more than two modes.
    #[inline(always)]
    fn existing_of_more(&self, at: [i32; MAX_RANK], count: usize) -> u32 {
        let left = all(self.left, self.left_more);
        let unit = S::UNIT.unwrap_or(0);
        let run = (left[unit] - at[unit]).clamp(0, count as i32) as u32;
        if others_below(at, left, unit) { run } else { 0 }
    }
}

impl<P: GlobalPointer, S: Strides, R: Rest> Engine for Strided<P, S, R> {
    type Element = P::Element;
    const OPEN_AXES: u32 = R::AXES;
}

impl<P: GlobalPointer, S: Strides, R: Rest> Movable for Strided<P, S, R> {
    #[inline(always)]
    fn shift<T: StaticLayout>(&mut self, index: u32) {
        self.advance([Digits::<T, 0>::offset(index), Digits::<T, 1>::offset(index)]);
        if const { S::Rank::RANK > 2 } {
            self.advance_more(by_axis!(more S::Rank::RANK, AXIS => Digits::<T, AXIS>::offset(index)));
        }
    }
}

impl<P: GlobalPointer, S: Strides, R: Rest> Sliceable for Strided<P, S, R> {
    type Slice<'a, K: PlaceKinds>
        = Strided<P, S, R::Slice<K::Backwards>>
    where
        Self: 'a;

    const OPEN: usize = R::OPEN;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn slice<L: StaticLayout, K: PlaceKinds>(&self, places: [u32; MAX_PLACES]) -> Self::Slice<'_, K> {
        let mut whole = self.without_rest();
        whole.advance([SliceDigits::<L, K, 0>::offset(places), SliceDigits::<L, K, 1>::offset(places)]);
        if const { S::Rank::RANK > 2 } {
            whole.advance_more(
                by_axis!(more S::Rank::RANK, AXIS => SliceDigits::<L, K, AXIS>::offset(places)),
            );
        }
        if const { fixes_open::<K>(R::OPEN) } {
            let last = const { K::COUNT - 1 };
            whole.advance(self.rest.offset::<K::Backwards>(places, last));
            if const { S::Rank::RANK > 2 } {
                whole.advance_more(self.rest.offset_more::<K::Backwards>(places, last));
            }
        }
        let Strided { pointer, left, left_more, strides, .. } = whole;
        Strided { pointer, left, left_more, strides, rest: self.rest.slice::<K::Backwards>() }
    }
}

/// Whether a slice fixes one of the last `open` modes.
pub(super) const fn fixes_open<K: PlaceKinds>(open: usize) -> bool {
    let mut mode = K::COUNT.saturating_sub(open);
    while mode < K::COUNT {
        if K::FIXED[mode] {
            return true;
        }
        mode += 1;
    }
    false
}

/// The run length of global memory.
pub struct GlobalRun<T, S, L>(PhantomData<(T, S, L)>);

impl<T: Storable, S: Strides, L: StaticLayout> Length for GlobalRun<T, S, L> {
    const LENGTH: usize = match S::UNIT {
        Some(axis) if S::ALIGN as i64 * 8 > T::BITS => {
            run(L::LAYOUT, axis, S::Rank::RANK, L::ORIGIN, (S::ALIGN as i64 * 8 / T::BITS) as usize)
        }
        _ => 1,
    };
}

impl<P: GlobalPointer, S: Strides, R: Rest> Partitioned for Strided<P, S, R> {}

/// The elements that a word holds.
const fn per_word<W: Word, T: Storable>() -> usize {
    size_of::<W>() * 8 / T::BITS as usize
}

// SAFETY: `run` finds groups that are consecutive along the axis of stride 1 and start at
// multiples of their length there, origin included; the promise of `Aligned` covers the address and
// the other strides.
unsafe impl<P: GlobalPointer, S: Strides, R: NoOpenMode> Access for Strided<P, S, R> {
    type Run<L: StaticLayout> = GlobalRun<P::Element, S, L>;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load<L: StaticLayout, W: Word>(&self, index: usize) -> W {
        let count = const { per_word::<W, P::Element>() };
        let at = Self::coordinate::<L>(index);
        let (pointer, existing) = (self.pointer_to(at), self.existing_from(at, count));
        if count == 1 {
            // SAFETY: the tensor is readable; an element out of bounds is not read.
            return unsafe { W::load_global_if(existing == 1, pointer.address()) };
        }
        if existing == count as u32 {
            // SAFETY: all of the run is in bounds, and `Run` says that it is aligned.
            return unsafe { W::load_global(pointer.address()) };
        }
        // SAFETY: the edge of the matrix is within the word; out of bounds elements are not read.
        unsafe { pointer.read_part(existing) }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load_one<L: StaticLayout>(&self, index: usize) -> P::Element {
        // SAFETY: elements in bounds are readable, and the index is below the size.
        unsafe { self.load_at::<L>(index) }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load_at<L: StaticLayout>(&self, at: impl ElementIndex<L>) -> P::Element {
        let at = Self::coordinate_at::<L>(at);
        // SAFETY: the tensor is readable; an element out of bounds is not read.
        unsafe { self.pointer_to(at).read_if(self.existing_from(at, 1) == 1) }
    }

    #[inline(always)]
    fn exists<L: StaticLayout>(&self, index: usize) -> bool {
        self.existing::<L>(index, 1) == 1
    }
}

// SAFETY: as for `Access`.
unsafe impl<P: GlobalPointerMut, S: Strides, R: NoOpenMode> AccessMut for Strided<P, S, R> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn store<L: StaticLayout, W: Word>(&mut self, index: usize, word: W) {
        let count = const { per_word::<W, P::Element>() };
        let at = Self::coordinate::<L>(index);
        let (pointer, existing) = (self.pointer_to(at), self.existing_from(at, count));
        if count == 1 {
            // SAFETY: the tensor is writable; an element out of bounds is not written.
            return unsafe { W::store_global_if(existing == 1, pointer.address(), word) };
        }
        if existing == count as u32 {
            // SAFETY: all of the run is in bounds, and `Run` says that it is aligned.
            return unsafe { W::store_global(pointer.address(), word) };
        }
        // SAFETY: the edge of the matrix is within the word; out of bounds elements are not
        // written.
        unsafe { pointer.write_part(existing, word) };
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn store_one<L: StaticLayout>(&mut self, index: usize, value: P::Element) {
        // SAFETY: elements in bounds are writable, and the index is below the size.
        unsafe { self.store_at::<L>(index, value) };
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn store_at<L: StaticLayout>(&mut self, at: impl ElementIndex<L>, value: P::Element) {
        let at = Self::coordinate_at::<L>(at);
        // SAFETY: the tensor is writable; an element out of bounds is not written.
        unsafe { self.pointer_to(at).write_if(self.existing_from(at, 1) == 1, value) };
    }
}

impl<T: Scalar + Storable, S: Strides, R: NoOpenMode, L: StaticLayout>
    GlobalTensor<GlobalPackedMut<T>, S, L, R>
{
    /// Writes one element smaller than a byte, by two atomic operations, when other threads may
    /// write other elements of its byte; out of bounds it is skipped. [`set`](Tensor::set) takes
    /// one load and one store, and needs exclusive access to the byte.
    ///
    /// # Safety
    /// The matrix, extended to multiples of 4 bytes, is writable; otherwise same contract as
    /// [`GlobalPackedMut::write_shared_byte`]. `index` is below [`Tensor::SIZE`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn set_shared_byte(&mut self, index: impl ElementIndex<L>, value: T) {
        let at = Strided::<GlobalPackedMut<T>, S, R>::coordinate_at::<L>(index);
        if self.engine.existing_from(at, 1) == 1 {
            // SAFETY: the word around the element may be read and written.
            unsafe { self.engine.pointer_to(at).write_shared_byte(0, value) };
        }
    }
}

impl<P: GlobalPointer, S: Strides, R, L: StaticLayout> GlobalTensor<P, S, L, R> {
    /// The same elements with the promise that all of them are in bounds, so that no access is
    /// predicated; see [`WholeTiles`].
    #[inline(always)]
    pub fn whole(self) -> GlobalTensor<P, WholeTiles<S>, L, R> {
        let Strided { pointer, left, left_more, strides, rest } = self.engine;
        Tensor::from_engine(Strided { pointer, left, left_more, strides: WholeTiles(strides), rest })
    }
}

impl<P: GlobalPointer, S: Strides, const AXIS: usize, L: StaticLayout, B>
    GlobalTensor<P, S, L, Along<AXIS, B>>
{
    /// The number of tiles along the open axis; along the last one if there are several.
    #[inline(always)]
    pub fn tiles(&self) -> u32 {
        self.engine.rest.tiles()
    }
}
