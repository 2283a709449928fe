//! The trait of `wgmma` atoms.

use crate::arch::wgmma::Accumulators;
use crate::atom::{Atom, ByDescriptors, ByRegisters, Operands};
use crate::layout::{Layout, Major};
use crate::number::Number;

/// A constant of an atom: K is contiguous in shared memory.
pub const K_MAJOR: bool = false;
/// A constant of an atom: M (for A) or N (for B) is contiguous in shared memory.
pub const MN_MAJOR: bool = true;
/// A constant of an atom: the operand's elements are negated.
pub const NEGATED: bool = true;

/// The form of A for an instruction: a matrix descriptor, or a thread's registers.
pub trait OperandA: Copy {
    /// Whether it is in registers.
    const IN_REGISTERS: bool;

    /// [`ByRegisters`] or [`ByDescriptors`].
    type Form;
}

impl OperandA for u64 {
    const IN_REGISTERS: bool = false;
    type Form = ByDescriptors;
}

impl OperandA for [u32; 4] {
    const IN_REGISTERS: bool = true;
    type Form = ByRegisters;
}

/// A `wgmma` instruction of a warpgroup: `D = A B + D`, of a 64 x K, a K x N and a 64 x N matrix.
pub trait WgmmaAtom:
    Atom
    + Operands<
        FormA = <<Self as WgmmaAtom>::OperandA as OperandA>::Form,
        FormB = ByDescriptors,
        Accumulator = <Self as WgmmaAtom>::D,
    >
{
    /// CuTe's name.
    const NAME: &'static str;
    /// The PTX instruction.
    const INSTRUCTION: &'static str;
    /// The PTX version that has it.
    const PTX_VERSION: (u32, u32);
    /// The extents m, n and k.
    const SHAPE_MNK: [i64; 3];
    /// The threads of a warpgroup.
    const THR_ID: Layout;
    /// The thread-value layout of A; in shared memory, all threads hold all elements.
    const A: Layout;
    /// The thread-value layout of B: all threads hold all elements.
    const B: Layout;
    /// The thread-value layout of C and D.
    const C: Layout;
    /// The contiguous mode of A in shared memory; without meaning for A in registers.
    const MAJOR_A: Major;
    /// The contiguous mode of B in shared memory.
    const MAJOR_B: Major;
    /// The element type of A.
    type A: Number;
    /// The element type of B.
    type B: Number;
    /// The element type of C and D.
    type D: Number;
    /// A thread's registers of C and D.
    type Accumulators: Accumulators;
    /// The form of A.
    type OperandA: OperandA;

    /// Executes the instruction once: `d = a b + d`, or `a b` without `adds`.
    ///
    /// # Safety
    /// Same contract as the functions of [`arch::wgmma`](crate::arch::wgmma).
    unsafe fn mma(d: &mut Self::Accumulators, a: Self::OperandA, b: u64, adds: bool);
}

/// The major mode of an atom's constant.
pub(super) const fn major(mn: bool) -> Major {
    if mn { Major::Mn } else { Major::K }
}
