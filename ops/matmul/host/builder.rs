//! The builder of a product: its operands, its epilogue and the caller's choices.

use super::descriptor::{Batch, BiasAlong, Preference};
use super::element::{Factor as _, Float8, Operand, Output, Precision};
use super::launch;
use super::plan::Explanation;
use super::{tma, variants};
use crate::kernels::mma::{Activation, Scalar};
use moye_device::memory::Element;
use moye_runtime::{BufferSlice, Device, Matrix, MatrixMut, Result, Stream};

/// A matrix product: `c = activation(alpha * a * b + beta * c + bias)`; for 8-bit floats also times
/// the scales ([`Matmul::scale_a`]).
///
/// Matrices may have any strides, so transposed ones need no copy. An operand whose layout no
/// kernel reads is first rearranged into a workspace. The kernel is chosen by the shapes and the
/// device.
///
/// Scales of blocks, groups of rows and quantised weights are operations of `moye-products`.
///
/// ```
/// use moye::{Device, Matmul, Matrix, MatrixMut};
/// let device = Device::sim();
/// let a = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
/// let b = device.upload(&[5.0f32, -6.0])?;
/// let bias = device.upload(&[2.0f32])?;
/// let mut c = device.alloc_uninit::<f32>(2)?;
/// let (a, b) = (Matrix::row_major(&a, 2, 2)?, Matrix::row_major(&b, 2, 1)?);
/// Matmul::new(a, b)
///     .transpose_a() // 1 3 / 2 4
///     .alpha(2.0)
///     .bias(&bias)
///     .relu()
///     .run(&device, &mut MatrixMut::row_major(&mut c, 2, 1)?)?;
/// // 2 * (5 - 18) + 2 is below 0, and so is 2 * (10 - 24) + 2.
/// assert_eq!(c.download()?, [0.0, 0.0]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is computed before `run`"]
pub struct Matmul<'a, T: Operand, U: Element = T> {
    pub(super) a: Matrix<'a, T>,
    pub(super) b: Matrix<'a, T>,
    pub(super) alpha: T::Scalar,
    pub(super) beta: T::Scalar,
    pub(super) bias: Option<(BufferSlice<'a, U>, BiasAlong)>,
    /// The scales of A's rows and of B's columns.
    pub(super) scales: [Option<BufferSlice<'a, T::Scalar>>; 2],
    pub(super) activation: Activation,
    pub(super) precision: Precision,
    pub(super) batch: Batch,
    pub(super) preference: Preference,
}

impl<'a, T: Operand, U: Output<T>> Matmul<'a, T, U> {
    /// The product of the M x K matrix `a` and the K x N matrix `b`.
    pub fn new(a: Matrix<'a, T>, b: Matrix<'a, T>) -> Self {
        Self {
            a,
            b,
            alpha: T::Scalar::ONE,
            beta: moye_device::arch::Fma::ZERO,
            bias: None,
            scales: [None, None],
            activation: Activation::None,
            precision: Precision::Full,
            batch: Batch { count: 1, strides: [0; 3] },
            preference: Preference::default(),
        }
    }

    /// Uses `a` transposed: in memory it is K x M.
    pub fn transpose_a(self) -> Self {
        Self { a: self.a.t(), ..self }
    }

    /// Uses `b` transposed: in memory it is N x K.
    pub fn transpose_b(self) -> Self {
        Self { b: self.b.t(), ..self }
    }

    /// The factor of the product; 1 by default.
    /// As in BLAS, 0 or -0 drops the product: `a`, `b` and their scales are not read, so that their
    /// NaN and infinities do not reach `c`, which becomes `activation(beta * c + bias)`. K = 0 has
    /// the same effect for every `alpha`.
    ///
    /// ```
    /// use moye::{Device, Matmul, Matrix, MatrixMut};
    /// let device = Device::sim();
    /// let a = device.upload(&[f32::NAN, f32::INFINITY])?;
    /// let mut c = device.upload(&[5.0f32])?;
    /// Matmul::new(Matrix::row_major(&a, 1, 2)?, Matrix::row_major(&a, 2, 1)?)
    ///     .alpha(0.0)
    ///     .beta(2.0)
    ///     .run(&device, &mut MatrixMut::row_major(&mut c, 1, 1)?)?;
    /// assert_eq!(c.download()?, [10.0]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    pub fn alpha(self, alpha: T::Scalar) -> Self {
        Self { alpha, ..self }
    }

    /// The factor of the previous `c`; 0 by default, and then `c` is not read.
    pub fn beta(self, beta: T::Scalar) -> Self {
        Self { beta, ..self }
    }

    /// [`Matmul::alpha`] for a value from outside the program: a command line, a file, Python.
    ///
    /// ```
    /// use moye::{Device, Matmul, Matrix};
    /// let data = Device::sim().upload(&[1.0f32; 4])?;
    /// let product = || Ok::<_, moye::Error>(Matmul::<f32>::new(Matrix::row_major(&data, 2, 2)?, Matrix::row_major(&data, 2, 2)?));
    /// product()?.try_alpha(0.1)?.try_beta(-2.0)?;
    /// let error = product()?.try_alpha(1e39).unwrap_err().to_string();
    /// assert!(error.starts_with("alpha is 1e39, and products of f32 take a float of 32 bits"), "{error}");
    /// # Ok::<(), moye::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Factor`] if [`Operand::Scalar`] cannot represent it: a finite value that would
    /// become infinite, a nonzero value that would become 0, or, for integers, anything but a
    /// 32-bit integer.
    pub fn try_alpha(self, alpha: f64) -> Result<Self> {
        Ok(self.alpha(T::Scalar::checked("alpha", alpha, T::NAME)?))
    }

    /// [`Matmul::beta`] for a value from outside the program.
    ///
    /// # Errors
    /// Same as [`Matmul::try_alpha`].
    pub fn try_beta(self, beta: f64) -> Result<Self> {
        Ok(self.beta(T::Scalar::checked("beta", beta, T::NAME)?))
    }

    /// Adds one element for each column of `c`, as the bias of a linear layer.
    pub fn bias(self, bias: impl Into<BufferSlice<'a, U>>) -> Self {
        Self { bias: Some((bias.into(), BiasAlong::Columns)), ..self }
    }

    /// Adds one element for each row of `c`.
    pub fn bias_rows(self, bias: impl Into<BufferSlice<'a, U>>) -> Self {
        Self { bias: Some((bias.into(), BiasAlong::Rows)), ..self }
    }

    /// Applies ReLU, `max(x, 0)`, to the result.
    pub fn relu(self) -> Self {
        self.activation(Activation::Relu)
    }

    /// Applies GELU to the result, `x / 2 * (1 + erf(x / sqrt(2)))`: see [`Activation::Gelu`].
    pub fn gelu(self) -> Self {
        self.activation(Activation::Gelu)
    }

    /// Applies GELU in its tanh approximation to the result, as cuBLASLt's epilogue does: see
    /// [`Activation::GeluTanh`].
    pub fn gelu_tanh(self) -> Self {
        self.activation(Activation::GeluTanh)
    }

    /// Applies SiLU, `x * sigmoid(x)`, to the result.
    pub fn silu(self) -> Self {
        self.activation(Activation::Silu)
    }

    /// The activation applied to the result.
    pub fn activation(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    /// Computes a batch of `count` products. The given matrices are the first; the next `a`, `b`
    /// and `c` follow after `strides` elements. A stride of 0 in `a` or `b` reuses the matrix.
    /// Batches of `c` must not overlap: they follow each other, or are interleaved with its rows or
    /// columns, as in (M, batches, N).
    pub fn batch(self, count: usize, strides: [usize; 3]) -> Self {
        Self { batch: Batch { count, strides }, ..self }
    }

    /// Restricts the choice to kernels with this tile of C; [`Matmul::tiles`] lists the tiles.
    pub fn tile(self, m: u32, n: u32) -> Self {
        Self { preference: Preference { tile: Some((m, n)), ..self.preference }, ..self }
    }

    /// Uses this kernel; [`Matmul::kernels`] lists the names. Operands in another layout are
    /// rearranged first if the kernel reads both with K contiguous, and are refused otherwise.
    ///
    /// ```
    /// use moye::{Device, Matmul, Matrix, MatrixMut};
    /// let device = Device::sim();
    /// let data = device.upload(&[half::f16::ONE; 64 * 64])?;
    /// let (a, b) = (Matrix::row_major(&data, 64, 64)?, Matrix::col_major(&data, 64, 64)?);
    /// let mut c = device.alloc_uninit::<half::f16>(64 * 64)?;
    /// let mut c = MatrixMut::row_major(&mut c, 64, 64)?;
    /// let product = Matmul::new(a, b).kernel("matmul_f16_tn_64x64");
    /// assert_eq!(product.explain(&device, &mut c)?.kernel, Some("matmul_f16_tn_64x64"));
    /// let error = product.kernel("matmul_f8").run(&device, &mut c).unwrap_err().to_string();
    /// assert!(error.contains("there are wgmma_f16_tn, "), "{error}");
    /// # Ok::<(), moye::Error>(())
    /// ```
    pub fn kernel(self, name: &'static str) -> Self {
        Self { preference: Preference { kernel: Some(name), ..self.preference }, ..self }
    }

    /// Sets the maximum number of split-K slices (default: chosen by the estimated time). The small
    /// `wgmma` tiles on Hopper support one number only: 1, or 2 if the blocks of a cluster split K.
    /// They are used if that number fits, or if the requested tile has no other kernel (64 x 128).
    pub fn split_k(self, splits: u32) -> Self {
        Self { preference: Preference { slices: Some(splits), ..self.preference }, ..self }
    }

    /// The tiles of C, M x N, of the device's kernels for these elements and this precision.
    pub fn tiles(&self, device: &Device) -> Vec<(u32, u32)> {
        variants::tiles::<T>(self.precision, tma::is_there(device))
    }

    /// The names of the device's kernels for these elements and this precision.
    pub fn kernels(&self, device: &Device) -> Vec<&'static str> {
        variants::kernels::<T>(self.precision, tma::is_there(device))
    }

    /// Computes the product on the default stream of a device.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if shapes, the bias, scales or the batches do not match;
    /// [`Error::MatrixTooLarge`] if M, N or K exceeds 2,147,483,391 (2^31 - 257);
    /// [`Error::Unsupported`] for GELU or SiLU of integers, an unknown tile or kernel, and 8-bit
    /// floats on a GPU other than Hopper; [`Error::WrongDevice`], [`Error::OutOfMemory`], and the
    /// errors of [`Device::launch`].
    pub fn run(&self, device: &Device, c: &mut MatrixMut<'_, U>) -> Result<()> {
        // SAFETY: the default stream runs its work in order, and the borrows last for the call.
        unsafe { self.run_on(&device.default_stream(), c) }
    }

    /// [`Matmul::run`] on a stream.
    ///
    /// # Errors
    /// Same as [`Matmul::run`].
    ///
    /// # Safety
    /// Same contract as [`matmul_on`](crate::matmul_on).
    pub unsafe fn run_on(&self, stream: &Stream, c: &mut MatrixMut<'_, U>) -> Result<()> {
        // SAFETY: no other stream writes the operands, or uses `c`, until the product is complete.
        unsafe { launch::run(self, stream, c) }
    }

    /// The plan of the product: the kernel, the split-K slices, and which operands are rearranged.
    ///
    /// # Errors
    /// Same as [`Matmul::run`], except for the errors of the launch itself.
    pub fn explain(&self, device: &Device, c: &mut MatrixMut<'_, U>) -> Result<Explanation> {
        launch::explain(self, device, c)
    }
}

impl<'a, T: Float8, U: Output<T>> Matmul<'a, T, U> {
    /// Multiplies the product by scales of `a` in device memory, so that a quantisation kernel need
    /// not pass them through the host: one for all of `a`, one for each of its rows (of the matrix
    /// as multiplied), or one for each row of each batch. An element of the result is
    /// `activation(alpha * scale_a[i] * scale_b[j] * sum + beta * c + bias)`.
    ///
    /// With an `alpha` of 0 neither the scales nor the matrices are read.
    ///
    /// Rows that are divided by their scales before rounding use the full range of 8 bits:
    ///
    /// ```
    /// use half::bf16;
    /// use moye::number::F8E4M3;
    /// use moye::{Device, Matmul, Matrix, MatrixMut};
    /// let device = Device::sim();
    /// // Rows of 4096s and of 1/64s, the largest of each as 448, which is as far as e4m3 goes.
    /// let a = device.upload(&[F8E4M3::MAX; 2 * 16])?;
    /// let scale_a = device.upload(&[4096.0f32 / 448.0, 1.0 / 64.0 / 448.0])?;
    /// let b = device.upload(&[F8E4M3::from_f32(2.0); 16])?;
    /// let scale_b = device.upload(&[0.5f32])?;
    /// let mut c = device.alloc_uninit::<bf16>(2)?;
    /// Matmul::new(Matrix::row_major(&a, 2, 16)?, Matrix::col_major(&b, 16, 1)?)
    ///     .scale_a(&scale_a)
    ///     .scale_b(&scale_b)
    ///     .run(&device, &mut MatrixMut::row_major(&mut c, 2, 1)?)?;
    /// assert_eq!(c.download()?, [16.0 * 4096.0, 16.0 / 64.0].map(bf16::from_f32));
    /// # Ok::<(), moye::Error>(())
    /// ```
    ///
    /// Other element types have no scales:
    ///
    /// ```compile_fail
    /// # fn product(matmul: moye::Matmul<'_, f32>, scale: &moye::Buffer<f32>) {
    /// matmul.scale_a(scale); // `alpha` is the factor of these
    /// # }
    /// ```
    pub fn scale_a(self, scale: impl Into<BufferSlice<'a, f32>>) -> Self {
        let [_, b] = self.scales;
        Self { scales: [Some(scale.into()), b], ..self }
    }

    /// [`Matmul::scale_a`] for `b`: one scale, one for each column of `b`, or one for each column
    /// of each batch.
    pub fn scale_b(self, scale: impl Into<BufferSlice<'a, f32>>) -> Self {
        let [a, _] = self.scales;
        Self { scales: [a, Some(scale.into())], ..self }
    }
}

#[cfg(feature = "f32")]
impl<U: Output<f32>> Matmul<'_, f32, U> {
    /// Computes on tensor cores in tf32: several times as fast, with the accuracy of f16.
    ///
    /// Tensor cores read 10 bits of each operand's fraction and drop the other 13, as in cuBLAS.
    /// Dropping bits makes a magnitude smaller, so products of positive values are about 6.5e-4
    /// too small, all in one direction. If that matters, round the operands to 10 bits first.
    pub fn tf32(self) -> Self {
        Self { precision: Precision::Tf32, ..self }
    }
}

#[cfg(feature = "f16")]
impl<U: Output<half::f16>> Matmul<'_, half::f16, U> {
    /// Uses f16 accumulators: faster on some GPUs, and less accurate.
    pub fn f16_accumulators(self) -> Self {
        Self { precision: Precision::F16Accumulators, ..self }
    }
}
