//! `local_partition`: the elements of a tile that belong to a thread.
//!
//! The threads' layout is repeated over the tile; a thread owns the elements at its place in every
//! repetition. In the algebra: divide the tile's layout by the threads' shape,
//! `((THR_M, THR_N), (REST_M, REST_N))`, fix the first mode at the thread's coordinate (which moves
//! the origin) and keep the second.
//!
//! A projection drops modes of the threads' layout: threads that differ only in these modes own the
//! same elements. The operands of a matrix product need it: with threads `(16, 16)` over `C`, the
//! rows of `A` are divided by the first thread mode, `Step<One, X>`, and the rows of `B` by the
//! second, `Step<X, One>`.

use super::rank::MAX_RANK;
use super::static_layout::{Divisors, StaticLayout, stand_in};
use super::tables::moved;
use super::{Partitioned, Tensor, refuse};
use crate::arch::simulator_assert;
use crate::layout::{
    IntTuple, Layout, Swizzle, Text, Tiler, composition, make_layout, right_inverse, try_zipped_divide,
};
use core::marker::PhantomData;

/// Keeps a mode of the threads' layout (CuTe's `_1` in a `Step`).
#[derive(Clone, Copy, Debug)]
pub struct One;

/// Drops a mode of the threads' layout (CuTe's `X` in a `Step`).
#[derive(Clone, Copy, Debug)]
pub struct X;

/// A mode past the named modes of a [`Step`].
#[derive(Clone, Copy, Debug)]
pub struct Unnamed;

/// [`One`], [`X`] or [`Unnamed`].
pub trait Selector: Copy + 'static {
    /// Whether the mode is kept.
    const KEPT: bool;

    /// Whether the projection names the mode.
    const NAMED: bool = true;
}

impl Selector for One {
    const KEPT: bool = true;
}
impl Selector for X {
    const KEPT: bool = false;
}
impl Selector for Unnamed {
    const KEPT: bool = true;
    const NAMED: bool = false;
}

/// The modes of a layout that a projection keeps: modes of a thread layout that divide the tensor,
/// such as `Step<One, X>`, or modes of a tile, such as `Step<One, X, One>`.
#[derive(Clone, Copy, Debug)]
pub struct Step<A, B = Unnamed, C = Unnamed, D = Unnamed, E = Unnamed>(PhantomData<(A, B, C, D, E)>);

/// The modes of the threads' layout by which a tensor is partitioned, or the modes of a tile.
pub trait Projection: Copy + 'static {
    /// Whether mode `i` is kept; modes past the end are kept.
    const KEPT: [bool; MAX_RANK];

    /// The number of modes that it names.
    const NAMED: usize;
}

impl<A: Selector, B: Selector, C: Selector, D: Selector, E: Selector> Projection for Step<A, B, C, D, E> {
    const KEPT: [bool; MAX_RANK] = [A::KEPT, B::KEPT, C::KEPT, D::KEPT, E::KEPT];
    const NAMED: usize =
        A::NAMED as usize + B::NAMED as usize + C::NAMED as usize + D::NAMED as usize + E::NAMED as usize;
}

/// All modes.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

impl Projection for Whole {
    const KEPT: [bool; MAX_RANK] = [true; MAX_RANK];
    const NAMED: usize = 0;
}

/// The elements of one thread: modes `(REST_0, REST_1, ...)` of `L` divided by the threads `T`.
pub struct PartitionOf<L, T, P = Whole>(PhantomData<(L, T, P)>);

/// Maps a thread index to the origin of its elements, for `L` divided by the threads `T`.
pub struct ThreadOf<L, T, P = Whole>(PhantomData<(L, T, P)>);

macro_rules! marker {
    ($name:ident) => {
        impl<L, T, P> Clone for $name<L, T, P> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<L, T, P> Copy for $name<L, T, P> {}
    };
}
marker!(PartitionOf);
marker!(ThreadOf);

/// A projection names all modes of the threads' layout, or it does not compile.
#[track_caller]
const fn names_modes_of(threads: &Layout, named: usize) {
    if named != 0 && named != threads.rank() {
        let mut text = Text::<400>::new();
        text.str("local_partition: the projection names ");
        text.int(named as i64);
        text.str(" modes, and the threads ");
        text.layout(threads);
        text.str(" have ");
        text.int(threads.rank() as i64);
        text.str(": write `1` or `X` for each of these");
        refuse(&text);
    }
}

/// `((THR_0, ...), (REST_0, ...))`: the tile divided by the kept modes of the threads' layout.
const fn divided(tile: Layout, threads: Layout, kept: [bool; MAX_RANK]) -> Layout {
    let mut tilers = [Tiler::any(); MAX_RANK];
    let mut rank = 0;
    let mut mode = 0;
    while mode < threads.rank() {
        if kept[mode] {
            tilers[rank] = Tiler::shape(IntTuple::int(threads.extent(mode)));
            rank += 1;
        }
        mode += 1;
    }
    match try_zipped_divide(tile, Tiler::by_mode(tilers.split_at(rank).0)) {
        Ok(parts) => parts,
        Err(_) => Layout::concat(&[stand_in(rank), stand_in(tile.rank())]),
    }
}

/// The threads are numbered without gaps and divide the tile, or it does not compile.
#[track_caller]
const fn divides(tile: &Layout, threads: &Layout, kept: [bool; MAX_RANK], named: usize) {
    names_modes_of(threads, named);
    let parts = divided(*tile, *threads, kept);
    if parts.size() != tile.size() {
        let mut text = Text::<400>::new();
        text.str("local_partition: the threads ");
        text.layout(threads);
        text.str(" do not divide the tile ");
        text.layout(tile);
        text.str(", of which they would take ");
        text.int(parts.size());
        text.str(" elements of ");
        text.int(tile.size());
        text.str(": take a tile whose extents are multiples of theirs, or other threads");
        refuse(&text);
    }
    let numbered = right_inverse(*threads).size();
    if numbered != threads.size() {
        let mut text = Text::<400>::new();
        text.str("local_partition: the layout of the threads, ");
        text.layout(threads);
        text.str(", must number all ");
        text.int(threads.size());
        text.str(" of them 0, 1, 2, ... without gaps or repetition; it does so up to ");
        text.int(numbered);
        refuse(&text);
    }
}

impl<L: StaticLayout, T: StaticLayout, P: Projection> StaticLayout for PartitionOf<L, T, P> {
    const LAYOUT: Layout = divided(L::LAYOUT, T::LAYOUT, P::KEPT).mode(1);
    const WHOLE: () = divides(&L::LAYOUT, &T::LAYOUT, P::KEPT, P::NAMED);
    const ORIGIN: Divisors = L::ORIGIN.and(ThreadOf::<L, T, P>::STEPS);
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = moved(L::MOVED, ThreadOf::<L, T, P>::LAYOUT, L::SWIZZLE);
    const STEPPED: u64 = L::STEPPED;
}

impl<L: StaticLayout, T: StaticLayout, P: Projection> StaticLayout for ThreadOf<L, T, P> {
    const LAYOUT: Layout = {
        let tiles = divided(L::LAYOUT, T::LAYOUT, P::KEPT).mode(0);
        // (THR_0, THR_1, ...) -> offset, with stride 0 for dropped modes.
        let (mut shape, mut stride) = ([IntTuple::int(1); MAX_RANK], [IntTuple::int(0); MAX_RANK]);
        let (mut mode, mut next) = (0, 0);
        while mode < T::LAYOUT.rank() {
            if P::KEPT[mode] {
                shape[mode] = tiles.mode(next).shape();
                stride[mode] = tiles.mode(next).stride();
                next += 1;
            } else {
                shape[mode] = IntTuple::int(T::LAYOUT.extent(mode));
            }
            mode += 1;
        }
        let by_coordinate =
            make_layout(IntTuple::tuple(shape.split_at(mode).0), IntTuple::tuple(stride.split_at(mode).0));
        // thread index -> (THR_0, THR_1, ...)
        composition(by_coordinate, right_inverse(T::LAYOUT))
    };
}

impl<L: StaticLayout, T: StaticLayout, P: Projection> ThreadOf<L, T, P> {
    const STEPS: Divisors = super::tables::steps(<Self as StaticLayout>::LAYOUT);
}

impl<E: Partitioned, L: StaticLayout> Tensor<E, L> {
    /// The elements of thread `thread` (below the size of `T`), using all modes of the threads'
    /// layout.
    ///
    /// `(BLK_M, BLK_N)` by threads `(THR_M, THR_N)` is `(BLK_M / THR_M, BLK_N / THR_N)`. Threads
    /// that do not divide the tile do not compile.
    ///
    /// MoYe.jl's `@parallelize`.
    #[doc(alias = "@parallelize")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn local_partition<T: StaticLayout>(self, thread: u32) -> Tensor<E, PartitionOf<L, T>> {
        const { divides(&L::LAYOUT, &T::LAYOUT, Whole::KEPT, Whole::NAMED) };
        self.part_of::<T, Whole>(thread)
    }

    /// The elements of thread `thread`, using the modes of the threads' layout that `P` keeps. The
    /// simulator faults if `thread` is out of range.
    ///
    /// `(BLK_M, BLK_K)` by threads `(THR_M, THR_N)` and `Step<One, X>` is `(BLK_M / THR_M, BLK_K)`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn local_partition_by<T: StaticLayout, P: Projection>(
        self,
        thread: u32,
    ) -> Tensor<E, PartitionOf<L, T, P>> {
        const { divides(&L::LAYOUT, &T::LAYOUT, P::KEPT, P::NAMED) };
        self.part_of::<T, P>(thread)
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn part_of<T: StaticLayout, P: Projection>(self, thread: u32) -> Tensor<E, PartitionOf<L, T, P>> {
        simulator_assert!(
            i64::from(thread) < T::LAYOUT.size(),
            "local_partition: thread {thread} of the {} of {}: launch as many, or let the others do without it",
            T::LAYOUT.size(),
            T::LAYOUT
        );
        let mut engine = self.engine;
        engine.shift::<ThreadOf<L, T, P>>(thread);
        Tensor::from_engine(engine)
    }
}
