//! Tiled copies in kernels: carried by types, sliced by the thread.

use super::TiledCopy;
use super::cut::Cut;
use super::partition::of_thread;
use crate::algorithm::{FromRegisters, ReadBy, TiledCall, ToRegisters, WrittenBy, copy_if, copy_tiled};
use crate::arch::simulator_assert;
use crate::atom::copy::CopyAtom;
use crate::layout::{Layout, Swizzle};
use crate::memory::Storable;
use crate::tensor::{
    Divisors, Engine, Fragment, IdentityOf, Input, OfTile, Output, Partitioned, RegistersMut, RegistersRef,
    StaticLayout, Tensor, stand_in, tables,
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

impl<C: StaticTiledCopy> ThrCopy<C> {
    /// Copies a thread's part of the source to its part of the destination by the atom; both are
    /// partitioned by this copy: `(CPY, CPY_M, CPY_N, ...)`. CuTe's `copy(tiled_copy, src, dst)`.
    ///
    /// Elements out of bounds of a matrix are read as zeros and not written. A `cp.async` is
    /// complete after [`cp_async_wait`](crate::arch::cp_async_wait).
    ///
    /// # Safety
    /// The source is readable and the destination writable; meanwhile (until the wait, for
    /// `cp.async`) no other thread writes elements of the source or accesses elements of the
    /// destination. Elements smaller than a byte are copied as whole bytes, as by
    /// [`copy`](crate::algorithm::copy()): no other thread accesses the rest of a row's last byte
    /// either. An atom of a warp (`ldmatrix`, `stmatrix`) is called by all its lanes together, and
    /// the GPU supports it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn copy<S, D>(self, source: S, mut destination: D)
    where
        S: Input<Engine: ReadBy<C::Atom> + Engine<Element = C::Element>>,
        D: Output<Engine: WrittenBy<C::Atom> + Engine<Element = C::Element>>,
    {
        let _ = TiledCall::<C, S::Engine, S::Layout, D::Engine, D::Layout>::COUNT;
        let () = TiledCall::<C, S::Engine, S::Layout, D::Engine, D::Layout>::WHOLE_BYTES;
        // SAFETY: the source may be read and the destination written.
        unsafe { copy_tiled(C::default(), source.input(), destination.output()) }
    }

    /// [`copy`](Self::copy) of the atoms `i`, counted through `(repetition, CPY_M, CPY_N, ...)`,
    /// for which `predicate(i)` holds. CuTe's `copy_if(tiled_copy, pred, src, dst)`.
    ///
    /// Elements that the predicate excludes keep their values, or become zeros if the atom's name
    /// ends in `ZFILL`. For an atom that leaves its width to the tensors (`DefaultCopy`,
    /// `AutoVectorizingCopy`) a predicate applies to one element, as in
    /// [`copy_elements_if`](crate::algorithm::copy_elements_if).
    ///
    /// # Safety
    /// Same contract as [`copy`](Self::copy), for the copied elements.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn copy_if<S, D>(self, predicate: impl Fn(usize) -> bool, source: S, mut destination: D)
    where
        S: Input<Engine: ReadBy<C::Atom> + Engine<Element = C::Element>>,
        D: Output<Engine: WrittenBy<C::Atom> + Engine<Element = C::Element>>,
    {
        let () = TiledCall::<C, S::Engine, S::Layout, D::Engine, D::Layout>::TAKES_PREDICATES;
        let _ = TiledCall::<C, S::Engine, S::Layout, D::Engine, D::Layout>::COUNT;
        // SAFETY: the copied elements of both sides may be accessed.
        unsafe { copy_if(C::default(), predicate, source.input(), destination.output()) }
    }

    /// Copies a thread's part of the source to a fragment of another partition, for example of an
    /// operand, by the atom: the fragment is [retiled](Self::retile_d).
    ///
    /// # Safety
    /// Same contract as [`copy`](Self::copy).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load<S, L>(self, source: S, fragment: &mut Fragment<C::Element, L>)
    where
        S: Input<Engine: ReadBy<C::Atom> + Engine<Element = C::Element>>,
        L: StaticLayout,
        C: ToRegisters,
    {
        let _ = TiledCall::<C, S::Engine, S::Layout, RegistersMut<'_, C::Element>, RetileOf<L, C>>::COUNT;
        let () =
            TiledCall::<C, S::Engine, S::Layout, RegistersMut<'_, C::Element>, RetileOf<L, C>>::WHOLE_BYTES;
        // SAFETY: the source may be read.
        unsafe { C::to_registers(source.input(), &mut self.retile_d(fragment)) }
    }

    /// Copies a fragment of another partition, for example an accumulator, to a thread's part of
    /// the destination by the atom: the fragment is [retiled](Self::retile_s).
    ///
    /// # Safety
    /// Same contract as [`copy`](Self::copy).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn store<D, L>(self, fragment: &Fragment<C::Element, L>, mut destination: D)
    where
        D: Output<Engine: WrittenBy<C::Atom> + Engine<Element = C::Element>>,
        L: StaticLayout,
        C: FromRegisters,
    {
        let _ = TiledCall::<C, RegistersRef<'_, C::Element>, RetileOf<L, C>, D::Engine, D::Layout>::COUNT;
        let () =
            TiledCall::<C, RegistersRef<'_, C::Element>, RetileOf<L, C>, D::Engine, D::Layout>::WHOLE_BYTES;
        // SAFETY: the destination may be written.
        unsafe { C::from_registers(&self.retile_s(fragment), destination.output()) }
    }
}
