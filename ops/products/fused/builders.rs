//! Typed builders of the products.

use super::call::{QKV, RESIDUAL};
use super::{LINEAR_E4M3, LINEAR_QKV, LINEAR_RESIDUAL};
use moye_runtime::number::F8E4M3;
use moye_runtime::operation::{Array, TypedCall, Value, runs};
use moye_runtime::{Element, Error, Matrix, MatrixMut, Result};

/// A product with a residual, `c = a b^T + residual`, and the sums of squares of C's rows.
///
/// An RMSNorm between two products needs no kernel: the first writes the sums of squares, and the
/// second divides by the root of their mean; the norm's weights belong in its `b`.
///
/// ```
/// use moye::half::bf16;
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_products::fused::LinearResidual;
///
/// let device = Device::sim();
/// let of = |values: &[f32]| device.upload(&Vec::from_iter(values.iter().map(|&x| bf16::from_f32(x))));
/// let (a, b, x) = (of(&[1.0, 2.0])?, of(&[1.0, 1.0])?, of(&[4.0])?);
/// let (mut c, mut squares) = (of(&[0.0])?, device.upload(&[0.0f32])?);
/// let mut squares_of_c = MatrixMut::row_major(&mut squares, 1, 1)?;
/// let product = LinearResidual::new(Matrix::row_major(&a, 1, 2)?, Matrix::row_major(&b, 1, 2)?)
///     .residual(Matrix::row_major(&x, 1, 1)?);
/// let stream = device.default_stream();
/// let mut of_c = MatrixMut::row_major(&mut c, 1, 1)?;
/// // SAFETY: all work is on the default stream.
/// unsafe { product.run_on(&stream, &mut of_c, Some(&mut squares_of_c))? };
/// assert_eq!((c.download()?[0].to_f32(), squares.download()?[0]), (7.0, 49.0));
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is computed before `run`"]
pub struct LinearResidual<'a, T: Element> {
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    residual: Option<Matrix<'a, T>>,
    squares: Option<(Matrix<'a, f32>, f64)>,
}

impl<'a, T: Element> LinearResidual<'a, T> {
    /// The product of `a`, (m, k), and the transpose of `b`, (n, k).
    pub fn new(a: Matrix<'a, T>, b: Matrix<'a, T>) -> Self {
        Self { a, b, residual: None, squares: None }
    }

    /// Adds a matrix, (m, n).
    pub fn residual(self, residual: Matrix<'a, T>) -> Self {
        Self { residual: Some(residual), ..self }
    }

    /// Divides the rows of `a` by the root of their mean square. `squares` contains the sums of
    /// squares, (m, parts), as the previous product wrote them. `eps` is added to the mean.
    pub fn normalised(self, squares: Matrix<'a, f32>, eps: f64) -> Self {
        Self { squares: Some((squares, eps)), ..self }
    }

    runs! {
        /// Computes it on the default stream of a device of sm_90a, of f16 or bf16.
        fn run, run_on, explain(
            self, stream, c: &mut MatrixMut<'_, T>;
            /// `squares` receives a sum for each 128 columns of a row: (m, ceil(n / 128)),
            /// row-major.
            squares: Option<&mut MatrixMut<'_, f32>>
        ) {
            let wanted = self.b.rows().div_ceil(super::residual::PART as usize);
            if let Some(squares) = &squares
                && (squares.rows(), squares.cols()) != (self.a.rows(), wanted)
            {
                let (rows, columns) = (squares.rows(), squares.cols());
                let detail = format!(
                    "squares have shape [{rows}, {columns}], and must have [{}, {wanted}]",
                    self.a.rows()
                );
                return Err(Error::ShapeMismatch { operation: RESIDUAL, detail });
            }
            let eps = self.squares.as_ref().map_or(1e-6, |(_, eps)| *eps);
            TypedCall::new(&LINEAR_RESIDUAL, stream)
                .option("eps", Value::Float(eps))?
                .read(&self.a)?
                .read(&self.b)?
                .read(self.residual.as_ref())?
                .read(self.squares.as_ref().map(|(squares, _)| squares))?
                .write(c)?
                .write(squares)?
        }
    }
}

/// A product to e4m3, with a scale for each 1 x 128 elements: an operand of `block_scaled`.
///
/// ```
/// use moye::half::bf16;
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_products::fused::LinearE4m3;
///
/// let device = Device::sim();
/// let a = device.upload(&[bf16::ONE; 16])?;
/// // Eight rows: of 16, of 32 and so on.
/// let rows = |i| bf16::from_f32((1 << (i / 16)) as f32);
/// let b = device.upload(&Vec::from_iter((0..128).map(rows)))?;
/// let (mut c, mut scales) = (device.alloc_uninit(8)?, device.alloc_uninit(1)?);
/// LinearE4m3::new(Matrix::row_major(&a, 1, 16)?, Matrix::row_major(&b, 8, 16)?).run(
///     &device,
///     &mut MatrixMut::row_major(&mut c, 1, 8)?,
///     &mut MatrixMut::row_major(&mut scales, 1, 1)?,
/// )?;
/// // The greatest element of the row is 2048.
/// assert_eq!((scales.download()?[0], c.download()?[6].to_f32()), (2048.0 / 448.0, 224.0));
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is computed before `run`"]
pub struct LinearE4m3<'a, T: Element> {
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
}

impl<'a, T: Element> LinearE4m3<'a, T> {
    /// The product of `a`, (m, k), and the transpose of `b`, (n, k).
    pub fn new(a: Matrix<'a, T>, b: Matrix<'a, T>) -> Self {
        Self { a, b }
    }

    runs! {
        /// Computes it on the default stream of a device of sm_90a, of f16 or bf16: (m, n), and the
        /// scales, (m, ceil(n / 128)).
        fn run, run_on, explain(
            self, stream, c: &mut MatrixMut<'_, F8E4M3>, scales: &mut MatrixMut<'_, f32>
        ) {
            TypedCall::new(&LINEAR_E4M3, stream).read(&self.a)?.read(&self.b)?.write(c)?.write(scales)?
        }
    }
}

/// Queries, keys and values of one product `x w^T`: the rows of `w` are those of the queries'
/// heads, then of the keys' and the values'. Keys and values go to the slots of caches.
///
/// ```
/// use moye::half::bf16;
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_products::fused::LinearQkv;
///
/// let device = Device::sim();
/// // Two rows; a head of queries, of keys and of values, each of 32 columns.
/// let x = device.upload(&Vec::from_iter((0..32).map(|i| bf16::from_f32((1 + i / 16) as f32))))?;
/// let w = device.upload(&Vec::from_iter((0..96 * 16).map(|i| bf16::from_f32((i / 512) as f32))))?;
/// let slots_of_rows = device.upload(&[1, 0])?;
/// let zeros = || device.upload(&[bf16::ZERO; 64]);
/// let [mut q, mut k, mut v] = [zeros()?, zeros()?, zeros()?];
/// let [x, w] = [Matrix::row_major(&x, 2, 16)?, Matrix::row_major(&w, 96, 16)?];
/// LinearQkv::new(x, w, 1, 32, Matrix::row_major(&slots_of_rows, 1, 2)?).run(
///     &device,
///     &mut MatrixMut::row_major(&mut q, 2, 32)?,
///     [&mut MatrixMut::row_major(&mut k, 2, 32)?, &mut MatrixMut::row_major(&mut v, 2, 32)?],
/// )?;
/// // Row 0 of keys is in slot 1, row 1 of values in slot 0.
/// assert_eq!([q, k, v].map(|of| of.download().unwrap()[32].to_f32()), [0.0, 16.0, 32.0]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is computed before `run`"]
pub struct LinearQkv<'a, T: Element> {
    x: Matrix<'a, T>,
    w: Matrix<'a, T>,
    kv_heads: usize,
    size: usize,
    slots_of_rows: Matrix<'a, i32>,
    rotation: Option<(Matrix<'a, i32>, [Matrix<'a, f32>; 2])>,
    adjacent: bool,
    page: usize,
}

impl<'a, T: Element> LinearQkv<'a, T> {
    /// The product of `x`, (m, k), and the transpose of `w`, ((heads + 2 * kv_heads) * size, k).
    /// `slots_of_rows`, a row, has the slot of each row of `x`: below 0 for none.
    pub fn new(
        x: Matrix<'a, T>,
        w: Matrix<'a, T>,
        kv_heads: usize,
        size: usize,
        slots_of_rows: Matrix<'a, i32>,
    ) -> Self {
        Self { x, w, kv_heads, size, slots_of_rows, rotation: None, adjacent: false, page: 0 }
    }

    /// Rotates queries and keys by the cosines and sines, (positions, size / 2), of each row's
    /// position: `positions` is a row. Pairs are an element of each half of a head.
    pub fn rotated(self, positions: Matrix<'a, i32>, cos: Matrix<'a, f32>, sin: Matrix<'a, f32>) -> Self {
        Self { rotation: Some((positions, [cos, sin])), ..self }
    }

    /// Pairs are adjacent elements.
    pub fn interleaved(self) -> Self {
        Self { adjacent: true, ..self }
    }

    /// The caches have pages of this many tokens, in the layout of attention: (page, head,
    /// token), of `size` columns each. Slot `s` is token `s % page` of page `s / page`.
    pub fn pages(self, page: usize) -> Self {
        Self { page, ..self }
    }

    /// A cache as an array, (slots, head, column) or (page, token, head, column).
    fn cache(&self, cache: &mut MatrixMut<'_, T>) -> Result<Array> {
        let of = Array::of_mut(QKV, cache)?;
        let (rows, columns, kv, size, page) = (of.shape[0], of.shape[1], self.kv_heads, self.size, self.page);
        let (row, column) = (of.strides[0], of.strides[1]);
        let fits =
            if page > 0 { columns == size && rows % (kv * page).max(1) == 0 } else { columns == kv * size };
        if !fits {
            let detail = format!(
                "a cache has shape [{rows}, {columns}]; {kv} heads of {size} columns have {}",
                if page > 0 {
                    format!("[pages * {}, {size}]", kv * page)
                } else {
                    format!("[slots, {}]", kv * size)
                }
            );
            return Err(Error::ShapeMismatch { operation: QKV, detail });
        }
        let (shape, strides) = if page > 0 {
            let [of_head, of_page] = [page as i64 * row, (kv * page) as i64 * row];
            (vec![rows / (kv * page).max(1), page, kv, size], vec![of_page, row, of_head, column])
        } else {
            (vec![rows, kv, size], vec![row, size as i64 * column, column])
        };
        Ok(Array { shape, strides, ..of })
    }

    runs! {
        /// Computes it on the default stream of a device of sm_90a, of f16 or bf16: queries, (m,
        /// heads * size), and the rows' slots of the caches of keys and of values, (slots, kv_heads
        /// * size), or pages. No two rows have one slot.
        fn run, run_on, explain(
            self, stream, q: &mut MatrixMut<'_, T>, caches: [&mut MatrixMut<'_, T>; 2]
        ) {
            let [k, v] = caches;
            let (size, of_q) = (self.size, Array::of_mut(QKV, q)?);
            if size == 0 || of_q.shape[1] % size != 0 {
                let detail =
                    format!("q has {} columns, and must have whole heads of {size}", of_q.shape[1]);
                return Err(Error::ShapeMismatch { operation: QKV, detail });
            }
            let queries = Array {
                shape: vec![of_q.shape[0], of_q.shape[1] / size, size],
                strides: vec![of_q.strides[0], size as i64 * of_q.strides[1], of_q.strides[1]],
                ..of_q
            };
            let (keys, values) = (self.cache(k)?, self.cache(v)?);
            let slots = if self.page > 0 { keys.shape[0] * self.page } else { keys.shape[0] };
            let int = |value: usize| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
            let call = TypedCall::new(&LINEAR_QKV, stream)
                .option("size", int(size))?
                .option("kv_heads", int(self.kv_heads))?
                .option("slots", int(slots))?
                .option("page", int(self.page))?
                .option("interleaved", Value::Bool(self.adjacent))?
                .read(&self.x)?
                .read(&self.w)?
                .read_row(&self.slots_of_rows)?;
            let call = match &self.rotation {
                Some((positions, [cos, sin])) => call.read_row(positions)?.read(cos)?.read(sin)?,
                None => call.with(None)?.with(None)?.with(None)?,
            };
            call.with(Some((q.device(), queries)))?
                .with(Some((k.device(), keys)))?
                .with(Some((v.device(), values)))?
        }
    }
}
