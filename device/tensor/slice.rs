//! Layouts of a part of a tensor's modes, and the slice of the last mode, a pipeline's stage.

use super::static_layout::{Divisors, StaticLayout};
use super::{Movable, Tensor, tables};
use crate::arch::simulator_assert;
use crate::layout::{Layout, MAX_NODES, Swizzle};
use crate::memory::{Element, Shared};
use core::marker::PhantomData;

/// All modes except the last, for a tensor whose last mode is the stage.
pub struct AllButLast<L>(PhantomData<L>);

/// The last mode.
struct LastOf<L>(PhantomData<L>);

/// The first two modes exchanged.
pub struct Transposed<L>(PhantomData<L>);

impl<L: StaticLayout> StaticLayout for Transposed<L> {
    const LAYOUT: Layout = {
        let mut modes = [0; MAX_NODES];
        let mut mode = 0;
        while mode < L::LAYOUT.rank() {
            modes[mode] = if mode < 2 { 1 - mode } else { mode };
            mode += 1;
        }
        L::LAYOUT.select(modes.split_at(mode).0)
    };
    const ORIGIN: Divisors = L::ORIGIN;
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = L::MOVED;
    const STEPPED: u64 = L::STEPPED;
}

impl<T: Element, L: StaticLayout> Tensor<Shared<T>, L> {
    /// The same elements with the first two modes exchanged: `(BLK_N, D, PIPE)` becomes
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
    // A tuple with one element stays one, so that the modes of an atom's values do not become the
    // tensor's.
    const LAYOUT: Layout = L::LAYOUT.take(0, L::LAYOUT.rank() - 1);
    const ORIGIN: Divisors = L::ORIGIN.and(tables::steps(LastOf::<L>::LAYOUT));
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = tables::moved(L::MOVED, LastOf::<L>::LAYOUT, L::SWIZZLE);
    const STEPPED: u64 = L::STEPPED;
}

impl<E: Movable, L: StaticLayout> Tensor<E, L> {
    /// The tensor at place `index` of its last mode, for generic code that does not know the rank;
    /// [`at`](Tensor::at) names each mode.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn at_stage(self, index: u32) -> Tensor<E, AllButLast<L>> {
        assert_stage(index, const { LastOf::<L>::LAYOUT.size() }, &L::LAYOUT);
        let mut engine = self.engine;
        engine.shift::<LastOf<L>>(index);
        Tensor::from_engine(engine)
    }
}

/// Checks that the layout has the stage; otherwise the simulator faults. One function for all
/// layouts.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
fn assert_stage(index: u32, stages: i64, layout: &Layout) {
    simulator_assert!(i64::from(index) < stages, "stage {index} of {layout}, which has {stages}");
}
