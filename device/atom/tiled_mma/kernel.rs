//! Tiled MMAs in kernels: carried by types, sliced by the thread.

use super::cut::Cut;
use super::partition::{fragment_of, of_thread};
use super::{Operand, TiledMma};
use crate::arch::simulator_assert;
use crate::atom::Atom;
use crate::atom::mma::MmaAtom;
use crate::layout::{Layout, Swizzle};
use crate::memory::Storable;
use crate::tensor::{
    Divisors, Engine, Fragment, IdentityOf, OfTile, Partitioned, StaticLayout, Tensor, one_tile, stand_in,
    tables,
};
use crate::tiling::TilingError;
use core::marker::PhantomData;

/// A tiled MMA known at compile time, as a type: it partitions the operands of a product.
///
/// Declared by [`tiled_mma!`](crate::tiled_mma).
pub trait StaticTiledMma: Copy + Default + 'static {
    /// The MMA atom: of a warp, or of a warpgroup.
    type Atom: Atom;
    /// The tiled MMA.
    const MMA: TiledMma<Self::Atom>;

    /// The number of threads: `#[kernel(threads = Mma::THREADS)]`.
    const THREADS: u32 = Self::MMA.threads() as u32;

    /// The part of `thread`, which must be below [`TiledMma::threads`]. Otherwise the simulator
    /// faults; a GPU does not check.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn get_slice(thread: u32) -> ThrMma<Self> {
        simulator_assert!(
            i64::from(thread) < const { Self::MMA.threads() },
            "get_slice: thread {thread} of a tiled MMA of {} threads: launch as many, or let the others do without it",
            const { Self::MMA.threads() }
        );
        ThrMma { thread, mma: PhantomData }
    }
}

/// The part of one thread in a tiled MMA.
pub struct ThrMma<M> {
    thread: u32,
    mma: PhantomData<fn() -> M>,
}

impl<M> Clone for ThrMma<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for ThrMma<M> {}

/// An operand, as a type.
pub trait OperandKind: Copy + 'static {
    /// The operand.
    const OPERAND: Operand;
}

macro_rules! operands {
    ($($(#[$doc:meta])* $name:ident $operand:ident;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl OperandKind for $name {
            const OPERAND: Operand = Operand::$operand;
        }
    )+ };
}
operands! {
    /// The operand A, `(M, K)`.
    OfA A;
    /// The operand B, `(N, K)`.
    OfB B;
    /// The operand C, `(M, N)`.
    OfC C;
    /// The result D, `(M, N)`.
    OfD D;
}

/// A thread's part of an operand of layout `L` in the tiled MMA `M`:
/// `(value, REST_0, REST_1, ...)`.
pub struct PartitionMma<L, M, O>(PhantomData<(L, M, O)>);

/// Maps a thread to the origin of its part of an operand.
pub struct ThreadMma<L, M, O>(PhantomData<(L, M, O)>);

macro_rules! marker {
    ($($name:ident)+) => { $(
        impl<L, M, O> Clone for $name<L, M, O> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<L, M, O> Copy for $name<L, M, O> {}
    )+ };
}
marker!(PartitionMma ThreadMma);

impl<L: StaticLayout, M: StaticTiledMma, O: OperandKind> StaticLayout for ThreadMma<L, M, O> {
    const LAYOUT: Layout = match &Self::BY_THREAD {
        Ok(parts) => parts.mode(0),
        Err(_) => stand_in(1),
    };
}

impl<L: StaticLayout, M: StaticTiledMma, O: OperandKind> ThreadMma<L, M, O> {
    /// `(thread, (value, (REST_0, REST_1)))`.
    const BY_THREAD: Result<Layout, TilingError> = M::MMA.tiling().by_thread_of(
        &Cut::<L, M, O>::PARTS,
        &Cut::<(), M, ()>::COORDINATES,
        Cut::<(), M, O>::ALL_MODES,
    );
}

impl<L: StaticLayout, M: StaticTiledMma, O: OperandKind> StaticLayout for PartitionMma<L, M, O> {
    const LAYOUT: Layout = match of_thread(&Cut::<L, M, O>::PARTS) {
        Ok(part) => part,
        Err(_) => stand_in(1 + L::LAYOUT.rank()),
    };
    const WHOLE: () = {
        if let Err(error) = M::MMA.tiling().is_whole(O::OPERAND, &Cut::<L, M, O>::PARTS, &L::LAYOUT) {
            error.raise();
        }
        if let Err(error) = &ThreadMma::<L, M, O>::BY_THREAD {
            error.raise();
        }
    };
    const ORIGIN: Divisors = L::ORIGIN.and(tables::steps(ThreadMma::<L, M, O>::LAYOUT));
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = tables::moved(L::MOVED, ThreadMma::<L, M, O>::LAYOUT, L::SWIZZLE);
    const STEPPED: u64 = L::STEPPED;
}

/// The layout of a thread's fragment of an operand's tile of layout `L`: see
/// [`MmaTiling::fragment`](super::MmaTiling::fragment).
pub struct FragmentOf<L, M, O>(PhantomData<(L, M, O)>);
marker!(FragmentOf);

impl<L: StaticLayout, M: StaticTiledMma, O: OperandKind> StaticLayout for FragmentOf<L, M, O> {
    const LAYOUT: Layout = match fragment_of(O::OPERAND, &of_thread(&Cut::<L, M, O>::PARTS)) {
        Ok(fragment) => fragment,
        Err(_) => stand_in(1 + L::LAYOUT.rank()),
    };
    const WHOLE: () = PartitionMma::<L, M, O>::WHOLE;
}

impl<L: StaticLayout, M: StaticTiledMma, O: OperandKind> OfTile for FragmentOf<L, M, O> {
    type Tile = L;
    type Elements = PartitionMma<IdentityOf<L>, M, O>;
    type Threads = ThreadMma<IdentityOf<L>, M, O>;
}

impl<L: StaticLayout, M: StaticTiledMma, O: OperandKind> OfTile for PartitionMma<L, M, O> {
    type Tile = L;
    type Elements = PartitionMma<IdentityOf<L>, M, O>;
    type Threads = ThreadMma<IdentityOf<L>, M, O>;
}

/// The layout of a thread's accumulator for a tile of the shape of `L`.
pub type AccumulatorOf<L, M> = FragmentOf<L, M, OfC>;

// Written out: the first lines of a check's message would show a macro, if one expanded to it.
impl<M: StaticTiledMma> ThrMma<M> {
    /// This thread's part of a tile `(BLK_M, BLK_K)` of A: `(MMA, MMA_M, MMA_K)`.
    #[inline(always)]
    pub fn partition_a<E: Partitioned, L: StaticLayout>(
        self,
        tensor: Tensor<E, L>,
    ) -> Tensor<E, PartitionMma<L, M, OfA>> {
        const { same_width::<E::Element, M::Atom, OfA>() };
        const { PartitionMma::<L, M, OfA>::WHOLE };
        self.part(tensor)
    }

    /// This thread's part of a tile `(BLK_N, BLK_K)` of B: `(MMA, MMA_N, MMA_K)`.
    #[inline(always)]
    pub fn partition_b<E: Partitioned, L: StaticLayout>(
        self,
        tensor: Tensor<E, L>,
    ) -> Tensor<E, PartitionMma<L, M, OfB>> {
        const { same_width::<E::Element, M::Atom, OfB>() };
        const { PartitionMma::<L, M, OfB>::WHOLE };
        self.part(tensor)
    }

    /// This thread's part of a tile `(BLK_M, BLK_N)` of C: `(MMA, MMA_M, MMA_N)`.
    #[inline(always)]
    pub fn partition_c<E: Partitioned, L: StaticLayout>(
        self,
        tensor: Tensor<E, L>,
    ) -> Tensor<E, PartitionMma<L, M, OfC>> {
        const { PartitionMma::<L, M, OfC>::WHOLE };
        self.part(tensor)
    }

    /// This thread's part of a tile `(BLK_M, BLK_N)` of the result D: `(MMA, MMA_M, MMA_N)`. Same
    /// as for C, except for atoms whose types of C and D differ.
    #[inline(always)]
    pub fn partition_d<E: Partitioned, L: StaticLayout>(
        self,
        tensor: Tensor<E, L>,
    ) -> Tensor<E, PartitionMma<L, M, OfD>> {
        const { PartitionMma::<L, M, OfD>::WHOLE };
        self.part(tensor)
    }

    #[inline(always)]
    fn part<E: Partitioned, L: StaticLayout, O: OperandKind>(
        self,
        tensor: Tensor<E, L>,
    ) -> Tensor<E, PartitionMma<L, M, O>> {
        let mut engine = tensor.into_engine();
        engine.shift::<ThreadMma<L, M, O>>(self.thread);
        Tensor::from_engine(engine)
    }
}

macro_rules! partition_fragments {
    ($($(#[$doc:meta])* $fragment:ident $kind:ident $of:ty;)+) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// Every element is written before it is read.
        #[inline(always)]
        pub unsafe fn $fragment<E: Engine, L: StaticLayout>(
            self,
            _tile: &Tensor<E, L>,
        ) -> Fragment<$of, FragmentOf<L, M, $kind>>
        where
            $of: Storable,
        {
            const { one_tile(stringify!($fragment), E::OPEN_AXES, &L::LAYOUT) };
            const { same_width::<E::Element, M::Atom, $kind>() };
            const { PartitionMma::<L, M, $kind>::WHOLE };
            // SAFETY: the caller writes every element before it reads it.
            unsafe { Fragment::uninit() }
        }
    )+ };
}

impl<M> ThrMma<M> {
    #[inline(always)]
    pub(super) fn thread(self) -> u32 {
        self.thread
    }
}

impl<M: StaticTiledMma<Atom: MmaAtom>> ThrMma<M> {
    partition_fragments! {
        /// A fragment for this thread's part of a tile `(BLK_M, BLK_K)` of A:
        /// `(MMA, MMA_M, MMA_K)`.
        partition_fragment_a OfA E::Element;
        /// A fragment for this thread's part of a tile `(BLK_N, BLK_K)` of B:
        /// `(MMA, MMA_N, MMA_K)`.
        partition_fragment_b OfB E::Element;
        /// A fragment of accumulators for this thread's part of a tile `(BLK_M, BLK_N)` of C, of
        /// the atom's type, independent of the tile's: `(MMA, MMA_M, MMA_N)`.
        partition_fragment_c OfC <M::Atom as MmaAtom>::C;
        /// A fragment of results for this thread's part of a tile `(BLK_M, BLK_N)` of D, of the
        /// atom's type, independent of the tile's: `(MMA, MMA_M, MMA_N)`.
        partition_fragment_d OfD <M::Atom as MmaAtom>::D;
    }
}

macro_rules! fragments {
    ($($(#[$doc:meta])* $name:ident $kind:ident $of:ty;)+) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// Every element is written before it is read.
        #[inline(always)]
        pub unsafe fn $name<E: Engine, L: StaticLayout>(
            self,
            _part: &Tensor<E, PartitionMma<L, M, $kind>>,
        ) -> Fragment<$of, FragmentOf<L, M, $kind>>
        where
            $of: Storable,
        {
            const { one_tile(stringify!($name), E::OPEN_AXES, &L::LAYOUT) };
            const { PartitionMma::<L, M, $kind>::WHOLE };
            // SAFETY: the caller writes every element before it reads it.
            unsafe { Fragment::uninit() }
        }
    )+ };
}

impl<M: StaticTiledMma<Atom: MmaAtom>> ThrMma<M> {
    fragments! {
        /// A fragment for a part `(MMA, MMA_M, MMA_K)` of A.
        make_fragment_a OfA E::Element;
        /// A fragment for a part `(MMA, MMA_N, MMA_K)` of B.
        make_fragment_b OfB E::Element;
        /// A fragment for a part `(MMA, MMA_M, MMA_N)` of C.
        make_fragment_c OfC <M::Atom as MmaAtom>::C;
        /// A fragment for a part `(MMA, MMA_M, MMA_N)` of D.
        make_fragment_d OfD <M::Atom as MmaAtom>::D;
    }
}

/// The tensor's elements have the width of the atom's, or the partition does not compile. C and D
/// in memory may have any type; accumulators are converted.
pub(super) const fn same_width<T: Storable, A: Atom, O: OperandKind>() {
    let (name, bits) = A::TRAITS.numbers[match O::OPERAND {
        Operand::A => 0,
        Operand::B => 1,
        Operand::C | Operand::D => return,
    }];
    if T::BITS != bits as i64 {
        crate::atom::TilingError::of("TiledMma")
            .str("the tensor's elements, ")
            .str(T::NAME)
            .str(", have ")
            .int(T::BITS)
            .str(" bits, and the atom multiplies ")
            .str(name)
            .str(" of ")
            .int(bits as i64)
            .str(" bits: convert the elements, or take another atom")
            .raise();
    }
    if !stands_for(T::NAME, name) {
        crate::atom::TilingError::of("TiledMma")
            .str("the tensor's elements are ")
            .str(T::NAME)
            .str(", and the atom multiplies ")
            .str(name)
            .str(": convert the elements, or take the atom of theirs")
            .raise();
    }
}

/// Whether elements of type `element` may stand for an atom's type `number`: the types are equal;
/// or f32 for tf32, its upper bits; or an unsigned integer for the bits of a float.
pub(crate) const fn stands_for(element: &str, number: &str) -> bool {
    let (element, number) = (element.as_bytes(), number.as_bytes());
    // `i8` of Rust is PTX's `s8`.
    let same_kind = element[0] == number[0] || element[0] == b'i' && number[0] == b's';
    if same_kind && element.len() == number.len() {
        let mut at = 1;
        while at < element.len() && element[at] == number[at] {
            at += 1;
        }
        if at == element.len() {
            return true;
        }
    }
    let integer = matches!(number[0], b's' | b'u') || number[0] == b'b' && number[1] == b'1';
    let is_tf32 = number[0] == b't';
    element[0] == b'u' && !integer || is_tf32 && element[0] == b'f'
}

#[cfg(test)]
mod tests {
    use super::stands_for;

    #[test]
    fn elements_stand_for_numbers_of_their_kind_and_bits_for_floats() {
        for (element, number) in [
            ("f16", "f16"),
            ("bf16", "bf16"),
            ("f32", "tf32"),
            ("tf32", "tf32"),
            ("i8", "s8"),
            ("u8", "u8"),
            ("i32", "s32"),
            ("s4", "s4"),
            ("b1", "b1"),
            ("u8", "e4m3"),
            ("u16", "bf16"),
            ("u32", "tf32"),
            ("c64", "c64"),
            ("gc64", "gc64"),
        ] {
            assert!(stands_for(element, number), "{element} for {number}");
        }
        for (element, number) in [
            ("bf16", "f16"),
            ("f16", "bf16"),
            ("i16", "f16"),
            ("e5m2", "e4m3"),
            ("u8", "s8"),
            ("i8", "u8"),
            ("i8", "e4m3"),
            ("u4", "s4"),
            ("f32", "s32"),
            ("u32", "s32"),
            ("f32", "f64"),
            ("i32", "tf32"),
        ] {
            assert!(!stands_for(element, number), "{element} for {number}");
        }
    }
}
