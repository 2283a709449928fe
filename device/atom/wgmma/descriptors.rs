//! Operands in shared memory as tensors of matrix descriptors: CuTe's `make_fragment_A` and
//! `make_fragment_B` of an `SS` atom.
//!
//! A partition of shared memory, `(MMA, MMA_M, MMA_K, PIPE)`, becomes `(1, MMA_M, MMA_K, PIPE)`:
//! each element is the descriptor of one instruction's part. A descriptor holds its address in
//! units of 16 bytes, so the layout uses these units, and slicing adds to the descriptor.

use super::{SharedOperand, WgmmaAtom};
use crate::arch::opaque;
use crate::atom::tiled_mma::{OfA, OfB, OperandKind, PartitionMma, StaticTiledMma, ThrMma};
use crate::atom::{Operand, TilingError};
use crate::layout::{ComposedLayout, Layout, layout, upcast};
use crate::memory::{Element, Shared};
use crate::number::Number;
use crate::tensor::tables::{Digits, Offsets, PLAIN, SliceDigits};
use crate::tensor::{Engine, MAX_PLACES, Movable, PlaceKinds, Sliceable, StaticLayout, Tensor};
use core::marker::PhantomData;

/// The engine of a tensor of matrix descriptors: the descriptor of its first element.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors {
    /// The address in units of 16 bytes, and the leading offset: slicing changes its low 14 bits.
    low: u32,
    /// The stride and the swizzle.
    high: u32,
}

impl Engine for Descriptors {
    type Element = u64;
}

impl Movable for Descriptors {
    #[inline(always)]
    fn shift<T: StaticLayout>(&mut self, index: u32) {
        self.low = self.low.wrapping_add_signed(Digits::<T, PLAIN>::offset(index));
    }
}

impl Sliceable for Descriptors {
    type Slice<'a, K: PlaceKinds> = Self;

    #[inline(always)]
    fn slice<L: StaticLayout, K: PlaceKinds>(&self, places: [u32; MAX_PLACES]) -> Self {
        let offset = SliceDigits::<L, K, PLAIN>::offset(places);
        Self { low: self.low.wrapping_add_signed(offset), ..*self }
    }
}

/// A tensor of matrix descriptors.
pub type DescriptorTensor<L> = Tensor<Descriptors, L>;

impl<L: StaticLayout> DescriptorTensor<L> {
    /// The same tensor, whose descriptors are computed where they are used: otherwise the compiler
    /// would hoist each of them out of a loop, into a separate register.
    #[inline(always)]
    pub(super) fn computed_here(&self) -> Self {
        let Descriptors { low, high } = *self.engine();
        Tensor::from_engine(Descriptors { low: opaque(low), high })
    }

    /// The descriptor at an index, a constant after unrolling.
    #[inline(always)]
    #[must_use]
    pub fn descriptor(&self, index: usize) -> u64 {
        let Descriptors { low, high } = *self.engine();
        u64::from(high) << 32 | u64::from(low.wrapping_add_signed(Offsets::<L, PLAIN>::TABLE[index]))
    }
}

/// The layout of the descriptors of an operand `O` of the tiled MMA `M` in shared memory of layout
/// `L`: `(1, MMA_MN, MMA_K, ...)`, in units of 16 bytes.
pub struct DescriptorsOf<L, M, O>(PhantomData<(L, M, O)>);

impl<L, M, O> Clone for DescriptorsOf<L, M, O> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L, M, O> Copy for DescriptorsOf<L, M, O> {}

impl<L: StaticLayout, M: StaticTiledMma<Atom: WgmmaAtom>, O: OperandKind> StaticLayout
    for DescriptorsOf<L, M, O>
{
    const LAYOUT: Layout = {
        let part = PartitionMma::<L, M, O>::LAYOUT;
        let rest = part.take(1, part.rank());
        let () = Self::STAGES;
        let mut modes = [layout!((1):(0)); 6];
        let mut mode = 0;
        while mode < rest.rank() {
            modes[mode + 1] = upcast(rest.mode(mode), Self::PIECE);
            mode += 1;
        }
        Layout::concat(modes.split_at(mode + 1).0)
    };
}

impl<L: StaticLayout, M: StaticTiledMma<Atom: WgmmaAtom>, O: OperandKind> DescriptorsOf<L, M, O> {
    /// The tile's first two modes as the operand of an instruction, or a compile error.
    pub(in crate::atom) const OPERAND: SharedOperand = {
        let tile = ComposedLayout::new(L::SWIZZLE, 0, L::LAYOUT.take(0, 2));
        match O::OPERAND {
            Operand::A => SharedOperand::a::<M::Atom>(tile),
            _ => SharedOperand::b::<M::Atom>(tile),
        }
    };
    /// Elements in 16 bytes.
    const PIECE: i64 = {
        let bits = if matches!(O::OPERAND, Operand::A) {
            <<M::Atom as WgmmaAtom>::A as Number>::WIDTH
        } else {
            <<M::Atom as WgmmaAtom>::B as Number>::WIDTH
        };
        128 / if bits < 8 { 8 } else { bits as i64 }
    };
    /// The period of the swizzle in elements.
    const PATTERN: i64 =
        if L::SWIZZLE.bits() == 0 { Self::PIECE } else { (8 * Self::PIECE) << L::SWIZZLE.bits() };

    /// Stages must be aligned to the swizzle's period, or the tensor has no descriptors.
    pub(in crate::atom) const STAGES: () = {
        let mut mode = 2;
        while mode < L::LAYOUT.rank() {
            let along = L::LAYOUT.mode(mode);
            let stride = if along.size() > 1 { along.at(1) } else { 0 };
            if stride % Self::PATTERN != 0 {
                let error = TilingError::of("wgmma")
                    .str("stages of ")
                    .layout(&L::LAYOUT)
                    .str(" are ")
                    .int(stride)
                    .str(" elements apart, and the swizzle repeats after ")
                    .int(Self::PATTERN)
                    .str(" (without one: 16 bytes, ")
                    .int(Self::PIECE)
                    .str(" elements): make the stride a multiple");
                error.raise();
            }
            mode += 1;
        }
    };
}

/// The descriptors of a thread's part of an operand in shared memory.
#[inline(always)]
pub(in crate::atom) fn descriptors_of<T, M, O, L>(
    part: &Tensor<Shared<T>, PartitionMma<L, M, O>>,
) -> DescriptorTensor<DescriptorsOf<L, M, O>>
where
    T: Element,
    M: StaticTiledMma<Atom: WgmmaAtom>,
    O: OperandKind,
    L: StaticLayout,
{
    let first = const { DescriptorsOf::<L, M, O>::OPERAND }.descriptor(part.engine().address(), 0, 0);
    Tensor::from_engine(Descriptors { low: first as u32, high: (first >> 32) as u32 })
}

macro_rules! descriptors {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)+) => { $(
        $(#[$doc])*
        ///
        /// The partition must be of a whole array, or of one of its stages. In a kernel whose
        /// warpgroups divide M, slice the tiled MMA by the warpgroup's first thread
        /// (`get_slice(128 * warpgroup)`), which is uniform across the warp: descriptors are in
        /// uniform registers.
        #[inline(always)]
        #[must_use]
        pub fn $name<T: Element, L: StaticLayout>(
            self,
            part: &Tensor<Shared<T>, PartitionMma<L, M, $kind>>,
        ) -> DescriptorTensor<DescriptorsOf<L, M, $kind>> {
            const { DescriptorsOf::<L, M, $kind>::OPERAND };
            let () = DescriptorsOf::<L, M, $kind>::STAGES;
            descriptors_of(part)
        }
    )+ };
}

impl<M: StaticTiledMma<Atom: WgmmaAtom>> ThrMma<M> {
    descriptors! {
        /// The descriptors of a part of A in shared memory: `(1, MMA_M, MMA_K, ...)`.
        descriptors_a OfA;
        /// The descriptors of a part of B in shared memory: `(1, MMA_N, MMA_K, ...)`.
        descriptors_b OfB;
    }
}
