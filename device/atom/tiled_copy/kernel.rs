//! Tiled copies in kernels: carried by types, sliced by the thread.

use super::TiledCopy;
use super::cut::Cut;
use super::partition::of_thread;
use crate::arch::simulator_assert;
use crate::atom::copy::CopyAtom;
use crate::layout::{Layout, Swizzle};
use crate::memory::Storable;
use crate::tensor::{
    Divisors, Engine, Fragment, IdentityOf, OfTile, Partitioned, RegistersMut, RegistersRef, StaticLayout,
    Tensor, stand_in, tables,
};
use core::marker::PhantomData;

/// A tiled copy known at compile time, as a type: it partitions a kernel's tensors.
///
/// Declared by [`tiled_copy!`](crate::tiled_copy).
pub trait StaticTiledCopy: Copy + Default + 'static {
    /// The copy atom.
    type Atom: CopyAtom;
    /// The elements that it copies.
    type Element: Storable;
    /// The tiled copy.
    const COPY: TiledCopy<Self::Atom, Self::Element>;

    /// The number of threads: `#[kernel(threads = Copy::THREADS)]`.
    const THREADS: u32 = Self::COPY.threads() as u32;

    /// The part of `thread`, which must be below [`TiledCopy::threads`]. Otherwise the simulator
    /// faults; a GPU does not check.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn get_slice(thread: u32) -> ThrCopy<Self> {
        simulator_assert!(
            i64::from(thread) < Self::COPY.threads(),
            "get_slice: thread {thread} of a tiled copy of {} threads: launch as many, or let the others do without it",
            Self::COPY.threads()
        );
        ThrCopy { thread, copy: PhantomData }
    }
}

/// The part of one thread in a tiled copy.
pub struct ThrCopy<C> {
    thread: u32,
    copy: PhantomData<fn() -> C>,
}

impl<C> Clone for ThrCopy<C> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<C> Copy for ThrCopy<C> {}

/// A thread's part of `L` as a source of the tiled copy `C`:
/// `((value, repetition), REST_M, REST_N, ...)`.
pub struct PartitionS<L, C>(PhantomData<(L, C)>);

/// A thread's part of `L` as a destination of the tiled copy `C`:
/// `((value, repetition), REST_M, REST_N, ...)`.
pub struct PartitionD<L, C>(PhantomData<(L, C)>);

/// Maps a thread to the origin of its part of a source.
pub struct ThreadS<L, C>(PhantomData<(L, C)>);

/// Maps a thread to the origin of its part of a destination.
pub struct ThreadD<L, C>(PhantomData<(L, C)>);

/// A fragment of layout `L` with the modes of the tiled copy `C`.
pub struct RetileOf<L, C>(PhantomData<(L, C)>);

macro_rules! marker {
    ($($name:ident)+) => { $(
        impl<L, C> Clone for $name<L, C> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<L, C> Copy for $name<L, C> {}
    )+ };
}
marker!(PartitionS PartitionD ThreadS ThreadD RetileOf);

macro_rules! partition {
    ($part:ident $thread:ident $source:literal) => {
        impl<L: StaticLayout, C: StaticTiledCopy> StaticLayout for $thread<L, C> {
            const LAYOUT: Layout = match &Cut::<$source, L, C>::PARTS {
                Ok(parts) => parts.mode(0),
                Err(_) => stand_in(1),
            };
        }

        impl<L: StaticLayout, C: StaticTiledCopy> StaticLayout for $part<L, C> {
            const LAYOUT: Layout = match of_thread(&Cut::<$source, L, C>::PARTS) {
                Ok(part) => part,
                Err(_) => stand_in(1 + L::LAYOUT.rank()),
            };
            const WHOLE: () = {
                let whole = C::COPY.tiling().partition_whole_of(&Cut::<$source, L, C>::PARTS, &L::LAYOUT);
                if let Err(error) = whole {
                    error.raise();
                }
            };
            const ORIGIN: Divisors = L::ORIGIN.and(tables::steps($thread::<L, C>::LAYOUT));
            const SWIZZLE: Swizzle = L::SWIZZLE;
            const MOVED: u64 = tables::moved(L::MOVED, $thread::<L, C>::LAYOUT, L::SWIZZLE);
            const STEPPED: u64 = L::STEPPED;
        }
    };
}
partition!(PartitionS ThreadS true);
partition!(PartitionD ThreadD false);

impl<L: StaticLayout, C: StaticTiledCopy> OfTile for PartitionS<L, C> {
    type Tile = L;
    type Elements = PartitionS<IdentityOf<L>, C>;
    type Threads = ThreadS<IdentityOf<L>, C>;
}

impl<L: StaticLayout, C: StaticTiledCopy> OfTile for PartitionD<L, C> {
    type Tile = L;
    type Elements = PartitionD<IdentityOf<L>, C>;
    type Threads = ThreadD<IdentityOf<L>, C>;
}

impl<L: StaticLayout, C: StaticTiledCopy> StaticLayout for RetileOf<L, C> {
    const LAYOUT: Layout = C::COPY.retile_d(L::LAYOUT);
}

impl<C: StaticTiledCopy> ThrCopy<C> {
    /// This thread's part of a source `(BLK_M, BLK_N, ...)`: `(CPY, CPY_M, CPY_N, ...)`.
    #[inline(always)]
    pub fn partition_s<E, L>(self, tensor: Tensor<E, L>) -> Tensor<E, PartitionS<L, C>>
    where
        E: Partitioned + Engine<Element = C::Element>,
        L: StaticLayout,
    {
        const { PartitionS::<L, C>::WHOLE };
        let mut engine = tensor.into_engine();
        engine.shift::<ThreadS<L, C>>(self.thread);
        Tensor::from_engine(engine)
    }

    /// This thread's part of a destination `(BLK_M, BLK_N, ...)`: `(CPY, CPY_M, CPY_N, ...)`.
    #[inline(always)]
    pub fn partition_d<E, L>(self, tensor: Tensor<E, L>) -> Tensor<E, PartitionD<L, C>>
    where
        E: Partitioned + Engine<Element = C::Element>,
        L: StaticLayout,
    {
        const { PartitionD::<L, C>::WHOLE };
        let mut engine = tensor.into_engine();
        engine.shift::<ThreadD<L, C>>(self.thread);
        Tensor::from_engine(engine)
    }

    /// A fragment `(V, REST_M, REST_N, ...)` of another partition as this copy's source:
    /// `(CPY, CPY_M, CPY_N, ...)`.
    #[inline(always)]
    pub fn retile_s<T, L>(self, fragment: &Fragment<T, L>) -> Tensor<RegistersRef<'_, T>, RetileOf<L, C>>
    where
        T: Storable,
        L: StaticLayout,
    {
        const { RetileOf::<L, C>::LAYOUT };
        fragment.view_as()
    }

    /// A fragment `(V, REST_M, REST_N, ...)` of another partition as this copy's destination:
    /// `(CPY, CPY_M, CPY_N, ...)`.
    #[inline(always)]
    pub fn retile_d<T, L>(self, fragment: &mut Fragment<T, L>) -> Tensor<RegistersMut<'_, T>, RetileOf<L, C>>
    where
        T: Storable,
        L: StaticLayout,
    {
        const { RetileOf::<L, C>::LAYOUT };
        fragment.view_as_mut()
    }
}
