//! The trait of MMA atoms.

use crate::arch::mma::Registers;
use crate::layout::Layout;
use crate::number::Number;

/// A matrix instruction with its layouts: `D = A B + C`.
///
/// The layouts [`A`](const@MmaAtom::A), [`B`](const@MmaAtom::B), [`C`](const@MmaAtom::C) and
/// [`D`](const@MmaAtom::D) are CuTe's thread-value layouts: they map `(thread, value)` to the index
/// of an element in its tile, counted column by column: `m + M k`, `n + N k`, `m + M n`. "Thread"
/// is an index among the threads of one set of matrices, which [`THR_ID`](MmaAtom::THR_ID) maps to
/// lanes.
///
/// A custom atom has the same items. If its results have C's type, it must also implement
/// [`AddsInPlace`], or only [`gemm_into`](crate::atom::ThrMma::gemm_into) accepts it:
///
/// ```
/// use moye_device::arch::MulAdd;
/// use moye_device::atom::{StaticTiledMma, TiledMma};
/// use moye_device::atom::mma::{AddsInPlace, MmaAtom};
/// use moye_device::layout::{Layout, layout};
/// use moye_device::tensor::Fragment;
/// use moye_device::{static_layout, tiled_mma};
///
/// /// Two multiply-adds of a thread, one after the other.
/// #[derive(Clone, Copy, Default)]
/// struct FmaPair;
///
/// impl AddsInPlace for FmaPair {}
///
/// impl MmaAtom for FmaPair {
///     const NAME: &'static str = "FmaPair";
///     const MOYE_NAME: Option<&'static str> = None;
///     const ARCH: u32 = 0;
///     const OLDEST_ARCH: u32 = 0;
///     const PTX_VERSION: (u32, u32) = (7, 0);
///     const INSTRUCTION: &'static str = "fma.rn.f32";
///     const INSTRUCTION_COUNT: usize = 2;
///     const SHAPE_MNK: [i64; 3] = [1, 1, 2];
///     const THR_ID: Layout = layout!(1);
///     const A: Layout = layout!((1, 2));
///     const B: Layout = layout!((1, 2));
///     const C: Layout = layout!((1, 1));
///     const D: Layout = layout!((1, 1));
///     type A = f32;
///     type B = f32;
///     type C = f32;
///     type D = f32;
///     type RegistersA = [f32; 2];
///     type RegistersB = [f32; 2];
///     type RegistersC = [f32; 1];
///     type RegistersD = [f32; 1];
///
///     unsafe fn fma(d: &mut [f32; 1], a: [f32; 2], b: [f32; 2], [c]: [f32; 1]) {
///         *d = [MulAdd::mul_add(a[1], b[1], MulAdd::mul_add(a[0], b[0], c))];
///     }
///
///     unsafe fn accumulate(d: &mut [f32; 1], a: [f32; 2], b: [f32; 2]) {
///         // SAFETY: all lanes of the warp execute this call, as `fma` requires.
///         unsafe { Self::fma(d, a, b, *d) }
///     }
/// }
///
/// tiled_mma! {
///     Pairs: TiledMma<FmaPair> = TiledMma::new(layout!((1, 1, 1)));
/// }
/// static_layout! {
///     ThreadsA = layout!((2, 3, 4)); // (MMA, MMA_M, MMA_K)
///     ThreadsB = layout!((2, 1, 4)); // (MMA, MMA_N, MMA_K)
///     ThreadsC = layout!((1, 3, 1)); // (MMA, MMA_M, MMA_N)
/// }
///
/// let (a, b) = (Fragment::<f32, ThreadsA>::filled(2.0), Fragment::<f32, ThreadsB>::filled(5.0));
/// let mut c = Fragment::<f32, ThreadsC>::filled(1.0);
/// // SAFETY: all fragments are written, and the atom is one thread's.
/// unsafe { Pairs::get_slice(0).gemm(&mut c, &a, &b) };
/// // SAFETY: inside the fragment.
/// let sums = [0, 1, 2].map(|m| unsafe { c.get(m) });
/// assert_eq!(sums, [1.0 + 8.0 * 2.0 * 5.0; 3]);
/// ```
pub trait MmaAtom: Copy + Default + Send + Sync + 'static {
    /// CuTe's name, which is also the type's.
    const NAME: &'static str;
    /// MoYe's name, if MoYe has the instruction.
    const MOYE_NAME: Option<&'static str>;
    /// The architecture in the name: 80 for sm_80.
    const ARCH: u32;
    /// The oldest architecture that has the instruction, which may be older than the name states.
    const OLDEST_ARCH: u32;
    /// The oldest PTX version that has it, major and minor.
    const PTX_VERSION: (u32, u32);
    /// The instruction in PTX.
    const INSTRUCTION: &'static str;
    /// The number of instructions of the atom: 1, except for complex numbers.
    const INSTRUCTION_COUNT: usize = 1;

    /// The extents m, n and k.
    const SHAPE_MNK: [i64; 3];
    /// The threads of one set of matrices to the lanes of the warp.
    const THR_ID: Layout;
    /// `(thread, value) -> (m, k)`
    const A: Layout;
    /// `(thread, value) -> (n, k)`
    const B: Layout;
    /// `(thread, value) -> (m, n)` of C.
    const C: Layout;
    /// `(thread, value) -> (m, n)` of D; differs from C's only if the types do.
    const D: Layout;

    /// The element type of A.
    type A: Number;
    /// The element type of B.
    type B: Number;
    /// The element type of C.
    type C: Number;
    /// The element type of D.
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
    /// All 32 lanes of the warp execute this call together (a single thread for `SM61_DP4A` and
    /// `SM61_DP2A`).
    unsafe fn fma(d: &mut Self::RegistersD, a: Self::RegistersA, b: Self::RegistersB, c: Self::RegistersC);

    /// Adds a further product to a result: `d += a b`. It is the same instruction if C has D's
    /// type, otherwise the one that adds to D's type.
    ///
    /// # Safety
    /// Same contract as [`fma`](Self::fma).
    unsafe fn accumulate(d: &mut Self::RegistersD, a: Self::RegistersA, b: Self::RegistersB);
}

/// An atom whose results have the type of C, and may replace it: every atom here except the four
/// that add f16 accumulators and return f32. It is implemented for each atom separately, so that
/// the compiler names what those four lack. A custom atom implements it as well (see [`MmaAtom`]).
#[diagnostic::on_unimplemented(
    message = "the results of `{Self}` have another type than what it adds to, and cannot take its place",
    label = "results and sums of two types",
    note = "the method `gemm_into` has a tensor for the results beside the one that is added to"
)]
pub trait AddsInPlace: MmaAtom<RegistersD = <Self as MmaAtom>::RegistersC> {}

/// The name; `None` if it is empty.
pub(super) const fn name(name: &'static str) -> Option<&'static str> {
    if name.is_empty() { None } else { Some(name) }
}

/// Major and minor version, from ten times the version.
pub(super) const fn version(tenfold: u32) -> (u32, u32) {
    (tenfold / 10, tenfold % 10)
}
