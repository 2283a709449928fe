//! What every MMA atom says of itself.

use crate::arch::mma::Registers;
use crate::layout::Layout;
use crate::number::Number;

/// A matrix instruction with its layouts: `D = A B + C`.
///
/// The layouts [`A`](const@MmaAtom::A), [`B`](const@MmaAtom::B), [`C`](const@MmaAtom::C) and [`D`](const@MmaAtom::D) are CuTe's thread-value
/// layouts: they map `(thread, value)` to the index of an element in its tile, counted column by column: `m + M k`,
/// `n + N k`, `m + M n`. "Thread" counts the threads of one set of matrices; [`THR_ID`](MmaAtom::THR_ID) says which
/// lane each is.
pub trait MmaAtom: Copy + Default + Send + Sync + 'static {
    /// CuTe's name, which is the type's.
    const NAME: &'static str;
    /// MoYe's name, where MoYe has the instruction.
    const MOYE_NAME: Option<&'static str>;
    /// The architecture in the name: 80 for sm_80.
    const ARCH: u32;
    /// The oldest architecture that has the instruction, which may be older than the name says.
    const OLDEST_ARCH: u32;
    /// The oldest PTX version that has it, major and minor.
    const PTX_VERSION: (u32, u32);
    /// The instruction in PTX.
    const INSTRUCTION: &'static str;
    /// How many of them make up the atom: 1, but for complex numbers.
    const INSTRUCTION_COUNT: usize = 1;

    /// The extents m, n and k.
    const SHAPE_MNK: [i64; 3];
    /// From the threads of one set of matrices to lanes of the warp.
    const THR_ID: Layout;
    /// `(thread, value) -> (m, k)`
    const A: Layout;
    /// `(thread, value) -> (n, k)`
    const B: Layout;
    /// `(thread, value) -> (m, n)` of C.
    const C: Layout;
    /// `(thread, value) -> (m, n)` of D; differs from C's only where the types do.
    const D: Layout;

    /// The elements of A.
    type A: Number;
    /// The elements of B.
    type B: Number;
    /// The elements of C.
    type C: Number;
    /// The elements of D.
    type D: Number;

    /// A thread's registers of A.
    type RegistersA: Registers;
    /// A thread's registers of B.
    type RegistersB: Registers;
    /// A thread's registers of C.
    type RegistersC: Registers;
    /// A thread's registers of D.
    type RegistersD: Registers;

    /// Executes the instruction: `d = a b + c`.
    ///
    /// # Safety
    /// All 32 lanes of the warp execute this call together (one thread alone for `SM61_DP4A` and `SM61_DP2A`).
    unsafe fn fma(d: &mut Self::RegistersD, a: Self::RegistersA, b: Self::RegistersB, c: Self::RegistersC);

    /// Adds a further product to a result: `d += a b`. The same instruction where C is of D's type; the one that adds to D's
    /// type where it is not.
    ///
    /// # Safety
    /// As [`fma`](Self::fma).
    unsafe fn accumulate(d: &mut Self::RegistersD, a: Self::RegistersA, b: Self::RegistersB);
}

/// An atom whose results have the type of what it adds to, and may take its place: every atom but the four that add to f16 and give
/// f32, each for itself, so that the compiler says what those lack.
#[diagnostic::on_unimplemented(
    message = "the results of `{Self}` have another type than what it adds to, and cannot take its place",
    label = "results and sums of two types",
    note = "`gemm_tiled_into` has a tensor for the results beside the one that is added to"
)]
pub trait AddsInPlace: MmaAtom<RegistersD = <Self as MmaAtom>::RegistersC> {}

/// The name, where there is one.
pub(super) const fn name(name: &'static str) -> Option<&'static str> {
    if name.is_empty() { None } else { Some(name) }
}

/// Major and minor version of ten times the version.
pub(super) const fn version(tenfold: u32) -> (u32, u32) {
    (tenfold / 10, tenfold % 10)
}
