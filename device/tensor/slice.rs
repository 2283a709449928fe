//! Slices: a tensor at one place of its last mode, `t(_, _, k)`.

use super::fragment::{RegistersMut, RegistersRef};
use super::static_layout::{Divisors, StaticLayout};
use super::{Access, Engine, Fragment, Tensor, tables};
use crate::arch::{Word, simulator_assert};
use crate::layout::{Layout, Swizzle};
use crate::memory::{Element, Shared, Storable};
use core::marker::PhantomData;

/// All modes but the last.
pub struct AllButLast<L>(PhantomData<L>);

/// The last mode.
pub struct LastOf<L>(PhantomData<L>);

/// The first two modes exchanged.
pub struct Transposed<L>(PhantomData<L>);

impl<L: StaticLayout> StaticLayout for Transposed<L> {
    const LAYOUT: Layout = {
        let (rows, columns) = (L::LAYOUT.mode(0), L::LAYOUT.mode(1));
        match L::LAYOUT.rank() {
            2 => Layout::concat(&[columns, rows]),
            3 => Layout::concat(&[columns, rows, L::LAYOUT.mode(2)]),
            _ => Layout::concat(&[columns, rows, L::LAYOUT.mode(2), L::LAYOUT.mode(3)]),
        }
    };
    const ORIGIN: Divisors = L::ORIGIN;
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = L::MOVED;
    const STEPPED: u64 = L::STEPPED;
}

impl<T: Element, L: StaticLayout> Tensor<Shared<T>, L> {
    /// The same elements with the first two modes exchanged: `(BLK_N, D, PIPE)` as
    /// `(D, BLK_N, PIPE)`.
    #[inline(always)]
    #[must_use]
    pub fn transposed(self) -> Tensor<Shared<T>, Transposed<L>> {
        Tensor::from_engine(self.engine)
    }
}

/// Mode `I`.
pub struct ModeOf<L, const I: usize>(PhantomData<L>);

macro_rules! marker {
    ($($name:ident<L $(, $i:ident)?>),+) => { $(
        impl<L $(, const $i: usize)?> Clone for $name<L $(, $i)?> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<L $(, const $i: usize)?> Copy for $name<L $(, $i)?> {}
    )+ };
}
marker!(Transposed<L>, AllButLast<L>, LastOf<L>, ModeOf<L, I>);

impl<L: StaticLayout, const I: usize> StaticLayout for ModeOf<L, I> {
    const LAYOUT: Layout = L::LAYOUT.mode(I);
    const ORIGIN: Divisors = L::ORIGIN;
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = L::MOVED;
    const STEPPED: u64 = L::STEPPED;
}

impl<L: StaticLayout> StaticLayout for LastOf<L> {
    const LAYOUT: Layout = L::LAYOUT.mode(L::LAYOUT.rank() - 1);
}

impl<L: StaticLayout> StaticLayout for AllButLast<L> {
    // A tuple of one stays one, so that the modes of an atom's values do not become the tensor's.
    const LAYOUT: Layout = L::LAYOUT.take(0, L::LAYOUT.rank() - 1);
    const ORIGIN: Divisors = L::ORIGIN.and(tables::steps(LastOf::<L>::LAYOUT));
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = tables::moved(L::MOVED, LastOf::<L>::LAYOUT, L::SWIZZLE);
    const STEPPED: u64 = L::STEPPED;
}

/// The last mode of `L` has a place `index`: in the simulator a fault where it does not.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn inside<L: StaticLayout>(what: &str, index: u32) {
    simulator_assert!(
        i64::from(index) < LastOf::<L>::LAYOUT.size(),
        "{what}: place {index} of the last mode of {}, which has {}",
        L::LAYOUT,
        LastOf::<L>::LAYOUT.size()
    );
}

impl<E: Engine, L: StaticLayout> Tensor<E, L> {
    /// The tensor at place `index` of its last mode: `(CPY, CPY_M, CPY_K)` at `k` is
    /// `(CPY, CPY_M)`.
    ///
    /// A stage of a pipeline, or a step along K, which an unrolled loop makes a constant.
    /// The simulator faults where `index` is not below the mode's size.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn slice_last(self, index: u32) -> Tensor<E, AllButLast<L>> {
        inside::<L>("slice_last", index);
        let mut engine = self.engine;
        engine.shift::<LastOf<L>>(index);
        Tensor::from_engine(engine)
    }
}

impl<T: Storable, L: StaticLayout> Fragment<T, L> {
    /// The fragment at place `index` of its last mode, to read.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn at_last(&self, index: u32) -> Tensor<RegistersRef<'_, T>, AllButLast<L>> {
        self.view().slice_last(index)
    }

    /// The fragment at place `index` of its last mode, to write.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn at_last_mut(&mut self, index: u32) -> Tensor<RegistersMut<'_, T>, AllButLast<L>> {
        self.view_mut().slice_last(index)
    }
}

/// A part of a tensor in shared memory that keeps the whole's layout `L` and counts from one of its
/// elements on.
///
/// [`slice_last`](Tensor::slice_last) moves the origin, which is right for a place known at run
/// time, the stage of a pipeline. For one that is a constant after unrolling, a step along K, this
/// is better where the layout is swizzled: the swizzle of the origin is computed once for all
/// steps, and each step is an exclusive or with a constant.
pub struct Part<T: Element, L> {
    whole: Shared<T>,
    first: u32,
    layout: PhantomData<fn() -> L>,
}

impl<T: Element, L> Clone for Part<T, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Element, L> Copy for Part<T, L> {}

impl<T: Element, L: StaticLayout> Tensor<Shared<T>, L> {
    /// The tensor at place `index` of its last mode, a constant after unrolling: see [`Part`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn part_last(self, index: u32) -> Tensor<Part<T, L>, AllButLast<L>> {
        inside::<L>("part_last", index);
        let first = index * const { AllButLast::<L>::LAYOUT.size() as u32 };
        Tensor::from_engine(Part { whole: self.engine, first, layout: PhantomData })
    }
}

impl<T: Element, L: StaticLayout> Part<T, L> {
    /// The address of an element of the part, in bytes.
    #[inline(always)]
    pub(crate) fn address(&self, index: usize) -> u32 {
        self.whole.address_of::<L>(self.first as usize + index)
    }
}

impl<T: Element, L: StaticLayout> Engine for Part<T, L> {
    type Element = T;

    fn shift<S: StaticLayout>(&mut self, _: u32) {
        const {
            panic!(
                "a part by index cannot be sliced again: slice the tensor (slice_last) before its last step (part_last)"
            )
        }
    }
}

/// The run of a slice: at most a divisor of it.
pub struct PartRun<T, L>(PhantomData<(T, L)>);

impl<T: Element, L: StaticLayout> super::Length for PartRun<T, L> {
    const LENGTH: usize = {
        let size = AllButLast::<L>::LAYOUT.size() as usize;
        let mut run = super::run_of::<Shared<T>, L>();
        while !size.is_multiple_of(run) {
            run /= 2;
        }
        run
    };
}

// SAFETY: the elements are those of the whole from `first` on, a multiple of every run that both
// layouts have.
unsafe impl<T: Element, L: StaticLayout> Access for Part<T, L> {
    type Run<N: StaticLayout> = PartRun<T, L>;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load<N: StaticLayout, W: Word>(&self, index: usize) -> W {
        // SAFETY: the slice's word from `index` on may be read.
        unsafe { self.whole.load::<L, W>(self.first as usize + index) }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load_one<N: StaticLayout>(&self, index: usize) -> T {
        // SAFETY: the slice's element may be read.
        unsafe { self.whole.load_one::<L>(self.first as usize + index) }
    }

    #[inline(always)]
    fn exists<N: StaticLayout>(&self, _: usize) -> bool {
        true
    }
}
