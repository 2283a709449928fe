//! The form in which an instruction takes its operands: registers, or matrix descriptors of shared
//! memory. It determines the results of [`fragment_a`](crate::atom::ThrMma::fragment_a) and
//! [`fragment_b`](crate::atom::ThrMma::fragment_b).

use super::mma::MmaAtom;
use super::tiled_mma::{OperandKind, PartitionMma, StageOf, StaticTiledMma};
use super::wgmma::{DescriptorTensor, DescriptorsOf, WgmmaAtom, descriptors_of};
use crate::memory::{Element, Shared};
use crate::number::Number;
use crate::tensor::{Engine, Fragment, StaticLayout, Tensor};

/// The forms of an atom's operands, and the type of its accumulators.
///
/// Implemented by every [`MmaAtom`] and every [`WgmmaAtom`].
pub trait Operands {
    /// The form of A.
    type FormA;
    /// The form of B.
    type FormB;
    /// The type of its accumulators.
    type Accumulator: Number;
}

impl<A: MmaAtom> Operands for A {
    type FormA = ByRegisters;
    type FormB = ByRegisters;
    type Accumulator = <A as MmaAtom>::C;
}

/// An operand in registers: a fragment.
#[derive(Clone, Copy, Debug)]
pub struct ByRegisters;

/// An operand in shared memory, which the instruction takes as a matrix descriptor.
#[derive(Clone, Copy, Debug)]
pub struct ByDescriptors;

/// The form of a thread's part of the operand `O`, of layout `L` in the memory `E`, for a tiled MMA
/// `M`.
#[diagnostic::on_unimplemented(
    message = "the instruction of `{M}` takes its operand from shared memory, and the tensor is in `{E}`",
    label = "not in shared memory",
    note = "an atom in `_SS` reads A and B from shared memory, one in `_RS` reads B from there: partition the tensors \
            that the stages are copied to"
)]
pub trait MakeFragment<M, O, E, L> {
    /// A fragment, or a tensor of descriptors.
    type Fragment;

    /// Does not compile if the part has none.
    #[doc(hidden)]
    const CHECKED: ();

    /// Builds it from the part.
    #[doc(hidden)]
    fn make(part: &Tensor<E, PartitionMma<L, M, O>>) -> Self::Fragment;
}

impl<M, O, E, L> MakeFragment<M, O, E, L> for ByRegisters
where
    M: StaticTiledMma,
    O: OperandKind,
    E: Engine,
    L: StaticLayout,
{
    type Fragment = Fragment<E::Element, StageOf<PartitionMma<L, M, O>, O>>;

    const CHECKED: () = { StageOf::<PartitionMma<L, M, O>, O>::WHOLE };

    #[inline(always)]
    fn make(_part: &Tensor<E, PartitionMma<L, M, O>>) -> Self::Fragment {
        Fragment::to_be_filled()
    }
}

impl<M, O, T, L> MakeFragment<M, O, Shared<T>, L> for ByDescriptors
where
    M: StaticTiledMma<Atom: WgmmaAtom>,
    O: OperandKind,
    T: Element,
    L: StaticLayout,
{
    type Fragment = DescriptorTensor<DescriptorsOf<L, M, O>>;

    const CHECKED: () = {
        let () = DescriptorsOf::<L, M, O>::STAGES;
        let _ = DescriptorsOf::<L, M, O>::OPERAND;
    };

    #[inline(always)]
    fn make(part: &Tensor<Shared<T>, PartitionMma<L, M, O>>) -> Self::Fragment {
        descriptors_of(part)
    }
}

/// The operand A of [`crate::atom::ThrMma::fragment_a`].
pub type FragmentA<M, O, E, L> =
    <<<M as StaticTiledMma>::Atom as Operands>::FormA as MakeFragment<M, O, E, L>>::Fragment;

/// The operand B of [`crate::atom::ThrMma::fragment_b`].
pub type FragmentB<M, O, E, L> =
    <<<M as StaticTiledMma>::Atom as Operands>::FormB as MakeFragment<M, O, E, L>>::Fragment;

/// The operand B of a product that [`crate::atom::ThrMma::gemm`] supports: registers and other
/// memory for FMA and `mma.sync`, descriptors for `wgmma`.
#[diagnostic::on_unimplemented(
    message = "`{A}`, `{Self}` and `{C}` are not operands A, B and C of a product by `{M}`",
    note = "an FMA and `mma.sync` take tensors whose elements are read (`fragment_a`, `fragment_b`) and write C by `&mut`",
    note = "`wgmma` takes B, and in `_SS` also A, as descriptors, which `fragment_b` and `fragment_a` make of shared memory"
)]
pub trait Multiplies<M, A, C> {
    /// Does not compile if the operands do not form a product.
    #[doc(hidden)]
    const CHECKED: ();

    /// Adds the product to C, or replaces C by it.
    ///
    /// # Safety
    /// Same contract as [`crate::atom::ThrMma::gemm`].
    #[doc(hidden)]
    unsafe fn multiply(self, a: A, c: C, adds: bool);
}
