//! The arguments of products on tensor cores: operands, strides, and the epilogue's parameters.

use super::scalar::Scalar;
use moye_device::kernel::KernelParam;
use moye_device::memory::{Element, Global, GlobalMut};

/// The arguments of a product `c = activation(alpha * a * b + beta * c + bias)`: elements `T`,
/// results `O`, and the epilogue's arithmetic in `S`.
///
/// Offsets, strides and leading dimensions are in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Arguments<T: Element, O: Element, S: Element> {
    /// `(M, K)`
    pub a: Global<T>,
    /// `(N, K)`
    pub b: Global<T>,
    /// `(M, N)`, N-contiguous. A `GlobalMut<S>` by a cast if `wide` is set.
    pub c: GlobalMut<O>,
    /// The bias, of `c`'s type; not read if its address is 0.
    pub bias: Global<O>,
    /// The leading dimension of `a`.
    pub lda: i64,
    /// The leading dimension of `b`.
    pub ldb: i64,
    /// The stride between the rows of `c`.
    pub ldc: i64,
    /// The batch stride of `a`; 0 if all batches use the same matrix.
    pub batch_a: i64,
    /// The batch stride of `b`.
    pub batch_b: i64,
    /// The batch stride of `c`.
    pub batch_c: i64,
    /// The stride between the slices of K in `c`.
    pub split_c: i64,
    /// The stride of `bias` along M: 1 for one element per row, 0 for one per column.
    pub bias_m: i64,
    /// The stride of `bias` along N.
    pub bias_n: i64,
    /// The factor of the product. The product kernels apply it even if it is 0, so that NaN and
    /// infinities of `a` and `b` reach `c`. `finish_*` with 0 splits skips the product: `Matmul`
    /// launches only that kernel if `alpha` or K is 0.
    pub alpha: S,
    /// The factor of the previous `c`, which is not read if this is 0.
    pub beta: S,
    /// The extents.
    pub m: u32,
    /// See `m`.
    pub n: u32,
    /// See `m`.
    pub k: u32,
    /// The number of split-K slices; the grid has batches times slices blocks along y.
    pub splits: u32,
    /// The extent along K of each slice except the last, a multiple of BLK_K.
    pub k_chunk: u32,
    /// The index of an [`Activation`].
    pub activation: u32,
    /// Whether `c` and `bias` have elements of `S`: 0 or 1.
    pub wide: u32,
    /// Whether a tensor map may write `c`, if the kernel has one: 0 or 1.
    pub tensor_c: u32,
    /// The number of batches, for persistent kernels; for other kernels the grid determines it.
    pub batches: u32,
    /// 0; the kernels rely on this value, which the compiler must not know.
    pub reserved: u32,
    /// The scales, for the kernels of 8-bit floats; other kernels ignore them.
    pub scales: Scales<S>,
}

/// Scales in memory: a result is multiplied by its row's scale of A and its column's scale of B.
/// 8-bit floats have a narrow range, and are stored divided by their scale.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Scales<S: Element> {
    /// The scales of A; all are 1 if the address is 0.
    pub a: Global<S>,
    /// The scales of B; all are 1 if the address is 0.
    pub b: Global<S>,
    /// The stride of A's scales along M: 1, or 0 for one scale for all rows.
    pub a_m: i64,
    /// The stride of B's scales along N: 1, or 0 for one scale for all columns.
    pub b_n: i64,
    /// The batch stride of A's scales; 0 if all batches use the same scales.
    pub batch_a: i64,
    /// The batch stride of B's scales; 0 if all batches use the same scales.
    pub batch_b: i64,
}

impl<S: Element> Scales<S> {
    /// No scales.
    pub const NONE: Self = Self {
        a: Global::from_address(0),
        b: Global::from_address(0),
        a_m: 0,
        b_n: 0,
        batch_a: 0,
        batch_b: 0,
    };
}

impl<T: Element, O: Element, S: Scalar> Arguments<T, O, S> {
    /// A plain product `c = a * b`: extents (M, N, K), leading dimensions of `a`, `b` and `c`.
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

/// The activation of the epilogue. Far below zero GELU and SiLU underflow gradually to -0, which is
/// also their value at minus infinity. NaN stays NaN.
///
/// SiLU is within 12 units in the last place of its type, and so is GELU of f64. GELU of f32
/// computes `e^t` with `t = x^2 / 2`, and its tanh form with a cubic `t` of x (about `0.07 x^3` far
/// below zero): they are within `4 |t| + 12` units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Activation {
    /// The identity.
    #[default]
    None = 0,
    /// `max(x, 0)`.
    Relu = 1,
    /// `x * sigmoid(1.5957691 * (x + 0.044715 * x^3))`, the tanh form of GELU (Hendrycks and
    /// Gimpel, "Gaussian Error Linear Units", section 2).
    GeluTanh = 2,
    /// `x * sigmoid(x)`, also called swish.
    Silu = 3,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`, the exact GELU.
    Gelu = 4,
}
