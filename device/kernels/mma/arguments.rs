//! What the products on tensor cores take: the operands, where they lie, and what becomes of the sums.

use super::scalar::Scalar;
use moye_device::kernel::KernelParam;
use moye_device::memory::{Element, Global, GlobalMut};

/// The arguments of a product `c = activation(alpha * a * b + beta * c + bias)`: elements `T`, results `O`, and what is
/// computed behind the product in `S`.
///
/// Offsets, strides and leading dimensions are in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Arguments<T: Element, O: Element, S: Element> {
    /// `(M, K)`
    pub a: Global<T>,
    /// `(N, K)`
    pub b: Global<T>,
    /// `(M, N)`, N the fast axis. A `GlobalMut<S>` behind a cast where `wide` is set.
    pub c: GlobalMut<O>,
    /// What is added to each element, of `c`'s type; not read where its address is 0.
    pub bias: Global<O>,
    /// Between the slow axis' elements of `a`.
    pub lda: i64,
    /// Between the slow axis' elements of `b`.
    pub ldb: i64,
    /// Between the rows of `c`.
    pub ldc: i64,
    /// Between the batches of `a`; 0 where all have the same.
    pub batch_a: i64,
    /// Between the batches of `b`.
    pub batch_b: i64,
    /// Between the batches of `c`.
    pub batch_c: i64,
    /// Between the parts of `c` that the splits of K write.
    pub split_c: i64,
    /// Between the elements of `bias` along M: 1 for one a row, 0 for one a column.
    pub bias_m: i64,
    /// Between the elements of `bias` along N.
    pub bias_n: i64,
    /// The factor of the product. Kernels that multiply apply it even where it is 0, so that NaN and
    /// infinities of `a` and `b` reach `c`. `finish_*` with 0 splits leaves the product out: `Matmul`
    /// launches it alone where `alpha` or K is 0.
    pub alpha: S,
    /// The factor of what was in `c`, which is not read where this is 0.
    pub beta: S,
    /// The extents.
    pub m: u32,
    /// As `m`.
    pub n: u32,
    /// As `m`.
    pub k: u32,
    /// The parts that K is cut into: blocks along y are batches times splits.
    pub splits: u32,
    /// What each part but the last has of K, a multiple of the tile's.
    pub k_chunk: u32,
    /// An [`Activation`] as a number.
    pub activation: u32,
    /// Whether `c` and `bias` have elements of type `S`: 0 or 1.
    pub wide: u32,
    /// Whether `c` may be written by a tensor map, where the kernel has one: 0 or 1.
    pub tensor_c: u32,
    /// How many products there are, for kernels whose blocks have more than one tile; elsewhere the grid tells.
    pub batches: u32,
    /// 0, which kernels rely on and their compiler is not to know.
    pub reserved: u32,
    /// Factors of the sums, for the kernels that take them: those of 8-bit floats. Others do not look at them.
    pub scales: Scales<S>,
}

/// Factors of the sums in memory: one for each row of A times one for each column of B. 8-bit floats have a narrow range, and are
/// kept divided by these.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Scales<S: Element> {
    /// Of A; all are 1 where the address is 0.
    pub a: Global<S>,
    /// Of B, likewise.
    pub b: Global<S>,
    /// Between A's factors along M: 1, or 0 where all rows have the same.
    pub a_m: i64,
    /// Between B's factors along N, likewise.
    pub b_n: i64,
    /// Between those of A's batches; 0 where all have the same.
    pub batch_a: i64,
    /// Between those of B's batches, likewise.
    pub batch_b: i64,
}

impl<S: Element> Scales<S> {
    /// No factors.
    pub const NONE: Self = Self::new((Global::from_address(0), 0, 0), (Global::from_address(0), 0, 0));

    /// Those of A and of B: where they are, and the distances along M or N and between batches.
    #[must_use]
    pub const fn new(
        (a, a_m, batch_a): (Global<S>, i64, i64),
        (b, b_n, batch_b): (Global<S>, i64, i64),
    ) -> Self {
        Self { a, b, a_m, b_n, batch_a, batch_b }
    }
}

impl<T: Element, O: Element, S: Scalar> Arguments<T, O, S> {
    /// One plain product `c = a * b`: extents (M, N, K), leading dimensions of `a`, `b` and `c`.
    #[must_use]
    pub fn product(
        (a, b, c): (Global<T>, Global<T>, GlobalMut<O>),
        (m, n, k): (u32, u32, u32),
        (lda, ldb, ldc): (i64, i64, i64),
    ) -> Self {
        Self {
            a,
            b,
            c,
            bias: Global::from_address(0),
            lda,
            ldb,
            ldc,
            batch_a: 0,
            batch_b: 0,
            batch_c: 0,
            split_c: 0,
            bias_m: 0,
            bias_n: 0,
            alpha: S::ONE,
            beta: S::ZERO,
            m,
            n,
            k,
            splits: 1,
            k_chunk: k,
            activation: Activation::None as u32,
            wide: 0,
            tensor_c: 0,
            batches: 1,
            reserved: 0,
            scales: Scales::NONE,
        }
    }
}

/// The activation of the epilogue. Far below zero GELU and SiLU underflow gradually to -0, which is also
/// their value at minus infinity. NaN stays NaN.
///
/// SiLU is within 12 units in the last place of the type that it is computed in. GELU raises e to the
/// power `t`, a cubic of x (about `0.07 x^3` far below zero), and is within `4 |t| + 12` units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Activation {
    /// Nothing.
    #[default]
    None = 0,
    /// `max(x, 0)`.
    Relu = 1,
    /// `x * sigmoid(1.5957691 * (x + 0.044715 * x^3))`, the form of GELU by a hyperbolic tangent (Hendrycks and Gimpel,
    /// "Gaussian Error Linear Units", section 2).
    Gelu = 2,
    /// `x * sigmoid(x)`, also called swish.
    Silu = 3,
}
