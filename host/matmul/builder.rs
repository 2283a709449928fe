//! The call: what is multiplied, and what becomes of the sums.

use super::element::{Float8, Operand, Output, Precision};
use super::explanation::Explanation;
use super::factor::Factor as _;
use super::plan::Forced;
use super::problem::{Batch, BiasAlong, Request};
use super::run;
#[cfg(feature = "tune")]
use super::tuning::{Problem, Tuning};
use crate::device::Device;
use crate::kernels::mma::{Activation, Scalar};
use crate::matrix::{Matrix, MatrixMut};
use crate::memory::BufferSlice;
use crate::stream::Stream;
use crate::{Error, Result};
use moye_device::memory::Element;

/// A matrix product: `c = activation(alpha * a * b + beta * c + bias)`, 8-bit floats times their
/// scales ([`Matmul::scale_a`]).
///
/// Matrices may have any strides, so any may be transposed; those that no kernel can read where
/// they lie are rearranged first, in memory that the call takes from the device and gives back. The
/// kernel is chosen from the shapes and the device.
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
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    alpha: T::Scalar,
    beta: T::Scalar,
    bias: Option<(BufferSlice<'a, U>, BiasAlong)>,
    /// Of A's rows and B's columns.
    scales: [Option<BufferSlice<'a, T::Scalar>>; 2],
    activation: Activation,
    precision: Precision,
    batch: Option<Batch>,
    forced: Forced,
    #[cfg(feature = "tune")]
    tuning: Option<&'a Tuning>,
}

impl<'a, T: Operand, U: Output<T>> Matmul<'a, T, U> {
    /// The product of `a`, an M x K matrix, and `b`, a K x N one.
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
            batch: None,
            forced: Forced::default(),
            #[cfg(feature = "tune")]
            tuning: None,
        }
    }

    /// Takes `a` transposed: K x M as it lies.
    pub fn transpose_a(self) -> Self {
        Self { a: self.a.t(), ..self }
    }

    /// Takes `b` transposed: N x K as it lies.
    pub fn transpose_b(self) -> Self {
        Self { b: self.b.t(), ..self }
    }

    /// The factor of the product; 1 by default.
    ///
    /// With 0 or -0 the product is left out, as in BLAS: neither `a` and `b` nor their scales are
    /// read, so that NaN and infinities in them do not reach `c`, which becomes
    /// `activation(beta * c + bias)`. K of 0 does the same, whatever `alpha` is.
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

    /// The factor of what is in `c` before; 0 by default, and `c` is not read then.
    pub fn beta(self, beta: T::Scalar) -> Self {
        Self { beta, ..self }
    }

    /// [`Matmul::alpha`] for a number from outside the program: a command line, a file, Python.
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
    /// [`Error::Factor`] where [`Operand::Scalar`] cannot represent it: a finite number that would
    /// become infinite, a number other than 0 that would become 0, or, for integers, any but a
    /// whole number of 32 bits.
    pub fn try_alpha(self, alpha: f64) -> Result<Self> {
        Ok(self.alpha(T::Scalar::checked("alpha", alpha, T::NAME)?))
    }

    /// [`Matmul::beta`] for a number from outside the program.
    ///
    /// # Errors
    /// As for [`Matmul::try_alpha`].
    pub fn try_beta(self, beta: f64) -> Result<Self> {
        Ok(self.beta(T::Scalar::checked("beta", beta, T::NAME)?))
    }

    /// Adds a number for each column of `c`, as the bias of a linear layer is.
    pub fn bias(self, bias: impl Into<BufferSlice<'a, U>>) -> Self {
        Self { bias: Some((bias.into(), BiasAlong::Columns)), ..self }
    }

    /// Adds a number for each row of `c`.
    pub fn bias_rows(self, bias: impl Into<BufferSlice<'a, U>>) -> Self {
        Self { bias: Some((bias.into(), BiasAlong::Rows)), ..self }
    }

    /// `max(x, 0)` last.
    pub fn relu(self) -> Self {
        self.activation(Activation::Relu)
    }

    /// GELU last, in its form by a hyperbolic tangent: see [`Activation::Gelu`].
    pub fn gelu(self) -> Self {
        self.activation(Activation::Gelu)
    }

    /// `x * sigmoid(x)` last.
    pub fn silu(self) -> Self {
        self.activation(Activation::Silu)
    }

    /// What the result goes through last.
    pub fn activation(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    /// `count` products instead of one: the matrices given are the first, and the next of `a`, `b`
    /// and `c` follow after `strides` elements. A stride of 0 in `a` or `b` takes the same matrix
    /// every time. Those of `c` follow each other, or lie between its rows or columns, as in (M,
    /// batches, N), and share no element.
    pub fn batch(self, count: usize, strides: [usize; 3]) -> Self {
        Self { batch: Some(Batch { count, strides }), ..self }
    }

    /// Takes kernels with this tile of C alone; [`Matmul::tiles`] tells which there are.
    pub fn tile(self, m: u32, n: u32) -> Self {
        Self { forced: Forced { tile: Some((m, n)), ..self.forced }, ..self }
    }

    /// Takes this kernel alone; [`Matmul::kernels`] tells which there are. Operands that it cannot
    /// read as they lie are rearranged first, if it wants K contiguous in both, and refused
    /// otherwise.
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
        Self { forced: Forced { kernel: Some(name), ..self.forced }, ..self }
    }

    /// Cuts K into up to so many parts, which are added up last, instead of as many as seem best.
    /// Kernels that know one number of parts alone (those of small tiles by `wgmma` on Hopper: 1,
    /// or 2 where a cluster's blocks have a part each) are taken where it is that, or where a tile
    /// is asked for that has no others (64 x 128).
    pub fn split_k(self, splits: u32) -> Self {
        Self { forced: Forced { splits: Some(splits), ..self.forced }, ..self }
    }

    /// Takes the tile and the parts of K that were measured to be the fastest for this problem on
    /// this device, where there is such a choice and [`Matmul::tile`] and [`Matmul::split_k`] force
    /// none. A choice of a tile that no kernel has any more counts as none.
    #[cfg(feature = "tune")]
    pub fn tuned(self, tuning: &'a Tuning) -> Self {
        Self { tuning: Some(tuning), ..self }
    }

    /// What a [`Tuning`] knows this product by, with its result in `c`.
    #[cfg(feature = "tune")]
    pub fn problem(&self, c: &MatrixMut<'_, U>) -> Problem {
        let batches = self.batch.map_or(1, |batch| batch.count);
        Problem::new::<T, U>([self.a.shape(), self.b.shape(), c.shape()], batches, self.precision)
    }

    /// The tiles of C, M x N, of the kernels for these elements and this way of summing that a
    /// device can run.
    pub fn tiles(&self, device: &Device) -> Vec<(u32, u32)> {
        super::element::tiles::<T>(self.precision, super::hopper::is_there(device))
    }

    /// The names of the kernels for these elements and this way of summing that a device can run.
    pub fn kernels(&self, device: &Device) -> Vec<&'static str> {
        super::element::kernels::<T>(self.precision, super::hopper::is_there(device))
    }

    /// Computes it on the default stream of a device.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] where shapes, the bias, scales or the batches do not fit,
    /// [`Error::MatrixTooLarge`] where M, N or K is over 2,147,483,391 (2^31 - 257),
    /// [`Error::Unsupported`] for a GELU or SiLU of integers, a tile or kernel that there is not,
    /// and 8-bit floats on another GPU than Hopper, [`Error::WrongDevice`], [`Error::OutOfMemory`],
    /// and those of [`Device::launch`].
    pub fn run(&self, device: &Device, c: &mut MatrixMut<'_, U>) -> Result<()> {
        // SAFETY: as for `matmul`: the default stream has its work in order.
        unsafe { self.run_on(&device.default_stream(), c) }
    }

    /// As [`Matmul::run`], on a stream.
    ///
    /// # Errors
    /// As for [`Matmul::run`].
    ///
    /// # Safety
    /// As for [`matmul_on`](crate::matmul_on).
    pub unsafe fn run_on(&self, stream: &Stream, c: &mut MatrixMut<'_, U>) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { run::run(&self.request(stream.device(), c)?, stream, c) }
    }

    /// The name of the kernel that would multiply, in how many parts of K, and what is rearranged
    /// before.
    ///
    /// # Errors
    /// As for [`Matmul::run`], as far as they do not need the launch.
    pub fn explain(&self, device: &Device, c: &mut MatrixMut<'_, U>) -> Result<Explanation> {
        run::explain(&self.request(device, c)?, device, c)
    }

    /// What a tuning has measured for this product, unless the caller forces something.
    #[cfg(feature = "tune")]
    fn measured(&self, device: &Device, c: &MatrixMut<'_, U>) -> Option<Forced> {
        let tuning = self.tuning.filter(|_| self.forced == Forced::default())?;
        let choice = tuning.get(device, &self.problem(c))?;
        Some(Forced { tile: Some(choice.tile), splits: Some(choice.splits), kernel: None })
    }

    #[cfg(not(feature = "tune"))]
    fn measured(&self, _: &Device, _: &MatrixMut<'_, U>) -> Option<Forced> {
        None
    }

    fn request(&self, device: &Device, c: &MatrixMut<'_, U>) -> Result<Request<'_, 'a, T, U>> {
        if !T::SMOOTH && matches!(self.activation, Activation::Gelu | Activation::Silu) {
            let detail = format!(
                "{:?} of integers has no meaning; take `relu`, or convert the sums to floats first",
                self.activation
            );
            return Err(Error::Unsupported { operation: "matmul", detail });
        }
        Ok(Request {
            a: &self.a,
            b: &self.b,
            alpha: self.alpha,
            beta: self.beta,
            bias: self.bias.as_ref(),
            scales: self.scales.each_ref().map(Option::as_ref),
            activation: self.activation,
            precision: self.precision,
            batch: self.batch.unwrap_or(Batch { count: 1, strides: [0; 3] }),
            forced: self.forced,
            measured: self.measured(device, c),
        })
    }
}

impl<'a, T: Float8, U: Output<T>> Matmul<'a, T, U> {
    /// Multiplies the sums by factors of `a` that lie in the device's memory, so that who quantised
    /// it need not tell the host: a single one, or one for each row of `a` (as it is multiplied),
    /// or one for each row of each batch. An element of the product is
    /// `activation(alpha * scale_a[i] * scale_b[j] * sum + beta * c + bias)`.
    ///
    /// With an `alpha` of 0 neither the scales nor the matrices are read.
    ///
    /// A row divided by its factor before it is rounded to 8 bits makes use of all of them:
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
    /// Other elements have none:
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

    /// As [`Matmul::scale_a`], for `b`: a single factor, or one for each column of `b`, or one for
    /// each column of each batch.
    pub fn scale_b(self, scale: impl Into<BufferSlice<'a, f32>>) -> Self {
        let [a, _] = self.scales;
        Self { scales: [a, Some(scale.into())], ..self }
    }
}

impl<U: Output<f32>> Matmul<'_, f32, U> {
    /// Takes tensor cores, which look at 10 bits of each fraction: several times as fast, and as
    /// exact as f16.
    pub fn tf32(self) -> Self {
        Self { precision: Precision::Tf32, ..self }
    }
}

#[cfg(feature = "matmul-f16")]
impl<U: Output<half::f16>> Matmul<'_, half::f16, U> {
    /// Sums in f16 too: faster on some chips, and it loses digits.
    pub fn f16_sums(self) -> Self {
        Self { precision: Precision::F16Sums, ..self }
    }
}
