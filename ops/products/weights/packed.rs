//! Packed weights that own their memory, and the product's builder.

use super::kernels::WeightKernels;
use super::sizes::{Codes, Sizes, source_sizes};
use super::{LINEAR_PACKED, LINEAR_QUANTIZED_A8, PACK_WEIGHTS, UNPACK_WEIGHTS};
use half::f16;
use moye_device::number::F8E4M3;
use moye_runtime::operation::{Array, ArrayType, Dtype, Options, TypedCall, Value, runs};
use moye_runtime::{Buffer, Element, Matrix, MatrixMut, Result};

/// Quantised weights in a device's memory, in the order of the kernels.
#[derive(Debug)]
pub struct PackedWeights {
    codes: Buffer<u8>,
    factors: Buffer<f16>,
    sizes: Sizes,
}

impl PackedWeights {
    /// Packs a tensor of a GGUF file: `form` is "q4_0", "q4_1", "q8_0", "q4_k", "q5_k" or "q6_k",
    /// and `blocks` has the bytes of a row of W in each row.
    ///
    /// ```
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye::half::f16;
    /// use moye_products::weights::{LinearQuantized, PackedWeights};
    ///
    /// // 16 rows of a block of Q8_0: the scale 0.5, then 32 bytes.
    /// let row = |row| [vec![0x00, 0x38], vec![row; 32]].concat();
    /// let blocks: Vec<u8> = (0..16).flat_map(row).collect();
    /// let device = Device::sim();
    /// let blocks = device.upload(&blocks)?;
    /// let weights = PackedWeights::blocks("q8_0", &Matrix::row_major(&blocks, 16, 34)?)?;
    /// let x = device.upload(&[f16::ONE; 32])?;
    /// let mut y = device.alloc_uninit::<f16>(16)?;
    /// LinearQuantized::new(Matrix::row_major(&x, 1, 32)?, &weights)
    ///     .run(&device, &mut MatrixMut::row_major(&mut y, 1, 16)?)?;
    /// assert_eq!(y.download()?[3].to_f32(), 3.0 * 0.5 * 32.0);
    /// # Ok::<(), moye::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`moye_runtime::Error::ShapeMismatch`] if rows are not whole blocks,
    /// [`moye_runtime::Error::Unsupported`] if there is no such form, and the errors of
    /// [`moye_runtime::Device::launch`].
    pub fn blocks(form: &str, blocks: &Matrix<'_, u8>) -> Result<Self> {
        Self::pack::<u8, f16, f16>(form, blocks, None, None)
    }

    /// Packs two codes of 0 to 15 a byte, the first in its lower half: `(n, k / 2)`, with `scales`
    /// and `minima` `(n, groups)`. Without minima the codes mean -8 to 7. Scales and minima are
    /// f16, or bf16 or f32 that are rounded to f16, here and below: beyond 65,504 they become
    /// infinite, and at most 2^-25 they become 0.
    ///
    /// # Errors
    /// Same as [`blocks`](Self::blocks).
    pub fn nibbles<S: Element>(
        codes: &Matrix<'_, u8>,
        scales: &Matrix<'_, S>,
        minima: Option<&Matrix<'_, S>>,
    ) -> Result<Self> {
        Self::pack("nibbles", codes, Some(scales), minima)
    }

    /// Packs signed bytes `(n, k)` as [`nibbles`](Self::nibbles), from -128 to 127 without minima.
    /// A packed minimum is that of byte -128: `minimum - 128 scale`, in f16 too.
    ///
    /// # Errors
    /// Same as [`blocks`](Self::blocks).
    pub fn of_bytes<S: Element>(
        codes: &Matrix<'_, i8>,
        scales: &Matrix<'_, S>,
        minima: Option<&Matrix<'_, S>>,
    ) -> Result<Self> {
        Self::pack("bytes", codes, Some(scales), minima)
    }

    /// Packs e4m3 `(n, k)` with `scales` `(n, groups)`. A NaN makes the weights of its group NaN.
    ///
    /// # Errors
    /// Same as [`blocks`](Self::blocks).
    pub fn e4m3<S: Element>(codes: &Matrix<'_, F8E4M3>, scales: &Matrix<'_, S>) -> Result<Self> {
        Self::pack::<_, S, S>("e4m3", codes, Some(scales), None)
    }

    /// Packs `qweight` `(k / 8, n)`, `scales` `(groups, n)` and `qzeros` `(groups, n / 8)` of GPTQ,
    /// whose groups are of consecutive rows.
    ///
    /// # Errors
    /// Same as [`blocks`](Self::blocks).
    pub fn gptq<S: Element>(
        words: &Matrix<'_, i32>,
        scales: &Matrix<'_, S>,
        zeros: &Matrix<'_, i32>,
    ) -> Result<Self> {
        Self::pack("gptq", words, Some(scales), Some(zeros))
    }

    /// Packs `qweight` `(k, n / 8)`, `scales` `(groups, n)` and `qzeros` `(groups, n / 8)` of AWQ.
    ///
    /// # Errors
    /// Same as [`blocks`](Self::blocks).
    pub fn awq<S: Element>(
        words: &Matrix<'_, i32>,
        scales: &Matrix<'_, S>,
        zeros: &Matrix<'_, i32>,
    ) -> Result<Self> {
        Self::pack("awq", words, Some(scales), Some(zeros))
    }

    fn pack<W: Element, S: Element, O: Element>(
        form: &str,
        weights: &Matrix<'_, W>,
        scales: Option<&Matrix<'_, S>>,
        others: Option<&Matrix<'_, O>>,
    ) -> Result<Self> {
        let (name, device) = (PACK_WEIGHTS.name, weights.device());
        let mut options = Options::of(&PACK_WEIGHTS);
        options.choose(name, "form", form)?;
        let types = [
            Some(Array::of(name, weights)?.ty()),
            scales.map(|scales| Array::of(name, scales)).transpose()?.map(|array| array.ty()),
            others.map(|others| Array::of(name, others)).transpose()?.map(|array| array.ty()),
        ];
        let sizes = source_sizes(&types, &options)?.1;
        let count = |ty: &ArrayType| ty.shape.iter().product::<usize>();
        let [of_codes, of_factors] = sizes.packed();
        let (codes, factors) =
            (device.alloc_uninit(count(&of_codes))?, device.alloc_uninit(count(&of_factors))?);
        let packed = Self { codes, factors, sizes };
        let stream = device.default_stream();
        let call = TypedCall::new(&PACK_WEIGHTS, &stream)
            .choose("form", form)?
            .read(weights)?
            .read(scales)?
            .read(others)?;
        // SAFETY: the arrays are on the device, and no other work uses the packed ones.
        unsafe { packed.operands(call)?.run()? };
        // Products run on any stream, and the caller may free the source.
        stream.synchronize()?;
        Ok(packed)
    }

    /// Adds codes and factors to a call.
    fn operands<'a>(&self, call: TypedCall<'a>) -> Result<TypedCall<'a>> {
        let [codes, factors] = self.sizes.packed();
        let device = self.codes.device();
        call.with(Some((device, Array::row_major(&codes, self.codes.address()))))?
            .with(Some((device, Array::row_major(&factors, self.factors.address()))))
    }

    /// The options that describe the weights.
    fn describe<'a>(&self, call: TypedCall<'a>) -> Result<TypedCall<'a>> {
        let offset = self.sizes.offset.unwrap_or(0);
        call.option("bits", Value::Int(self.sizes.codes.bits() as i64))?
            .option("e4m3", Value::Bool(self.sizes.codes == Codes::E4m3))?
            .option("rows", Value::Int(self.sizes.n as i64))?
            .option("offset", Value::Int(offset.into()))
    }

    /// Rows of W: the elements of a row of the product.
    pub const fn rows(&self) -> usize {
        self.sizes.n
    }

    /// Elements of a row of W, and of x.
    pub const fn columns(&self) -> usize {
        self.sizes.k
    }

    /// Bytes of codes and factors: what a product reads.
    pub fn bytes(&self) -> usize {
        self.codes.len() + 2 * self.factors.len()
    }

    runs! {
        /// Writes the weights as f16 or bf16 on the default stream of a device: `out` is row-major
        /// `(rows, columns)` without gaps.
        fn unpack, unpack_on, explain_unpack<T: WeightKernels>(
            self, stream, out: &mut MatrixMut<'_, T>
        ) {
            let dtype = Dtype::of::<T>().expect("f16 and bf16 have a Dtype");
            let call = self.describe(TypedCall::new(&UNPACK_WEIGHTS, stream))?;
            let call = call
                .option("columns", Value::Int(self.sizes.k as i64))?
                .option("dtype", Value::Dtype(dtype))?;
            self.operands(call)?.write(out)?
        }
    }
}

/// The product `y = x W^T` by quantised weights.
#[derive(Clone, Debug)]
pub struct LinearQuantized<'a, T: WeightKernels> {
    x: Matrix<'a, T>,
    weights: &'a PackedWeights,
    residual: Option<Matrix<'a, T>>,
    norm: Option<(Matrix<'a, T>, f32)>,
    gated: bool,
}

impl<'a, T: WeightKernels> LinearQuantized<'a, T> {
    /// The product of each row of `x` with each row of `weights`.
    pub fn new(x: Matrix<'a, T>, weights: &'a PackedWeights) -> Self {
        Self { x, weights, residual: None, norm: None, gated: false }
    }

    /// Adds a matrix of the shape of `y` to the product.
    #[must_use]
    pub fn residual(self, residual: Matrix<'a, T>) -> Self {
        Self { residual: Some(residual), ..self }
    }

    /// Multiplies the RMSNorm of each row of x: `x / sqrt(mean(x^2) + eps) * weight`, with a row of
    /// weights, one for each element of a row of x. Each block recomputes the norm, which pays
    /// off if x has few rows.
    #[must_use]
    pub fn rms_norm(self, weight: Matrix<'a, T>, eps: f32) -> Self {
        Self { norm: Some((weight, eps)), ..self }
    }

    /// Treats the rows of W as alternately eight gates and eight ups: `y = silu(gate) * up`, with
    /// half as many columns.
    #[must_use]
    pub fn gated(self) -> Self {
        Self { gated: true, ..self }
    }

    runs! {
        /// Computes it on the default stream of a device.
        fn run, run_on, explain(self, stream, y: &mut MatrixMut<'_, T>) {
            let call = self.weights.describe(TypedCall::new(&LINEAR_PACKED, stream))?;
            let mut call = call.option("gated", Value::Bool(self.gated))?.read(&self.x)?;
            if let Some((_, eps)) = self.norm {
                call = call.option("eps", Value::Float(eps.into()))?;
            }
            let norm = self.norm.as_ref().map(|(weight, _)| weight);
            self.weights.operands(call)?.read(self.residual.as_ref())?.read_row(norm)?.write(y)?
        }
    }
}

/// The product `y = (scale x) W^T` of activations of 8 bits, i8 or e4m3, by quantised weights. Each
/// activation times the scale of its row is rounded once to the type of `y`, f16 or bf16.
///
/// ```
/// use moye::half::f16;
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_products::weights::{LinearQuantized8, PackedWeights};
///
/// // 16 rows of a block of Q8_0: the scale 0.5, then 32 bytes.
/// let row = |row| [vec![0x00, 0x38], vec![row; 32]].concat();
/// let device = Device::sim();
/// let blocks = device.upload(&Vec::from_iter((0..16).flat_map(row)))?;
/// let weights = PackedWeights::blocks("q8_0", &Matrix::row_major(&blocks, 16, 34)?)?;
/// let (x, scales) = (device.upload(&[-2i8; 32])?, device.upload(&[0.25f32])?);
/// let mut y = device.alloc_uninit::<f16>(16)?;
/// LinearQuantized8::new(Matrix::row_major(&x, 1, 32)?, Matrix::row_major(&scales, 1, 1)?, &weights)
///     .run(&device, &mut MatrixMut::row_major(&mut y, 1, 16)?)?;
/// assert_eq!(y.download()?[3].to_f32(), -0.5 * 3.0 * 0.5 * 32.0);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LinearQuantized8<'a, X: Element> {
    x: Matrix<'a, X>,
    scales: Matrix<'a, f32>,
    weights: &'a PackedWeights,
}

impl<'a, X: Element> LinearQuantized8<'a, X> {
    /// The product of each row of `x` with each row of `weights`; `scales`, a row, has one for each
    /// row of `x`.
    pub fn new(x: Matrix<'a, X>, scales: Matrix<'a, f32>, weights: &'a PackedWeights) -> Self {
        Self { x, scales, weights }
    }

    runs! {
        /// Computes it on the default stream of a device.
        fn run, run_on, explain<T: WeightKernels>(self, stream, y: &mut MatrixMut<'_, T>) {
            let dtype = Dtype::of::<T>().expect("f16 and bf16 have a Dtype");
            let call = self.weights.describe(TypedCall::new(&LINEAR_QUANTIZED_A8, stream))?;
            let call = call.option("dtype", Value::Dtype(dtype))?.read(&self.x)?.read_row(&self.scales)?;
            self.weights.operands(call)?.write(y)?
        }
    }
}
