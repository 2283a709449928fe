//! A matrix product for `moye matmul`: computed on a device, timed, and compared with float64.

use super::reference::{Comparison, compare};
use super::report::Report;
use super::{progress, transfer};
use crate::commands::dtype::{CheckedElement, Stored};
use anyhow::{Result, bail};
use moye::kernels::mma::Activation;
use moye::{Buffer, Device, Matmul, Matrix, MatrixMut, Output, Precision};
use moye_bench::activation::activated;
use ndarray::{Array2, ArrayView2, CowArray, Ix1, Ix2};

/// The number of timed runs on a GPU.
const RUNS: usize = 10;

/// The product and its options.
pub struct Product<'a, 'f, T: CheckedElement, U: Stored> {
    pub a: ArrayView2<'a, T>,
    pub b: ArrayView2<'a, T>,
    pub finish: Finish<'f, T, U>,
    pub how: How,
}

/// The requested precision, tile and split.
#[derive(Clone, Copy)]
pub struct How {
    pub precision: Precision,
    pub tile: Option<(u32, u32)>,
    pub split_k: Option<u32>,
}

/// The epilogue. Factors are float64 for the reference, and also in the device's type.
pub struct Finish<'a, T: CheckedElement, U: Stored> {
    pub alpha: (f64, T::Scalar),
    pub beta: (f64, T::Scalar),
    /// The matrix that is added, times `beta`.
    pub c: Option<CowArray<'a, U, Ix2>>,
    /// Scales of A's rows and B's columns: one for all, or one for each.
    pub scales: [Option<CowArray<'a, f32, Ix1>>; 2],
    /// The bias, and whether it has an element for each row rather than for each column.
    pub bias: Option<(CowArray<'a, U, Ix1>, bool)>,
    pub activation: Activation,
}

impl<T: CheckedElement, U: Stored> Finish<'_, T, U> {
    /// An element of the result in float64, from the accumulated sum, which exists unless K is 0.
    /// Operands with a factor of 0 are ignored, whatever their values.
    fn expected(&self, row: usize, col: usize, sum: Option<f64>) -> f64 {
        if T::DTYPE.is_whole() {
            return self.expected_whole(row, col, sum.unwrap_or(0.0));
        }
        let scale = |scale: &Option<CowArray<'_, f32, Ix1>>, at: usize| match scale {
            Some(scale) => f64::from(scale[if scale.len() == 1 { 0 } else { at }]),
            None => 1.0,
        };
        let mut value = match sum {
            Some(sum) if self.alpha.0 != 0.0 => {
                self.alpha.0 * scale(&self.scales[0], row) * scale(&self.scales[1], col) * sum
            }
            _ => 0.0,
        };
        if let Some(c) = &self.c
            && self.beta.0 != 0.0
        {
            value += self.beta.0 * c[(row, col)].to_f64();
        }
        value += self.bias(row, col);
        activated(self.activation, value)
    }

    /// An element of an integer result, which wraps around.
    fn expected_whole(&self, row: usize, col: usize, sum: f64) -> f64 {
        // Sums of products of 8-bit integers are exact in float64; arithmetic modulo 2^64 is exact
        // modulo 2^32.
        let mut value = (self.alpha.0 as i64).wrapping_mul(sum as i64);
        if let Some(c) = &self.c {
            value = value.wrapping_add((self.beta.0 as i64).wrapping_mul(c[(row, col)].to_f64() as i64));
        }
        value = value.wrapping_add(self.bias(row, col) as i64);
        activated(self.activation, f64::from(value as i32))
    }

    fn bias(&self, row: usize, col: usize) -> f64 {
        let along = |(bias, along_rows): &(CowArray<'_, U, Ix1>, bool)| {
            bias[if *along_rows { row } else { col }].to_f64()
        };
        self.bias.as_ref().map_or(0.0, along)
    }
}

/// Multiplies on the device, and prints the plan, the time and the error.
pub fn multiply<T: CheckedElement, U: Output<T> + Stored + Default>(
    report: &mut Report,
    device: &Device,
    product: &Product<'_, '_, T, U>,
) -> Result<(Array2<U>, Comparison)> {
    let Product { a, b, finish, how } = product;
    let (m, n, k) = (a.nrows(), b.ncols(), a.ncols());
    let Some(elements) = m.checked_mul(n) else { bail!("a {m}x{n} product is larger than any memory") };
    let (a_data, b_data) = (upload(device, *a)?, upload(device, *b)?);
    let before = finish.c.as_ref().map(|c| c.as_standard_layout());
    let mut c_data = device.alloc_uninit::<U>(elements)?;
    let bias = finish
        .bias
        .as_ref()
        .map(|(bias, rows)| Ok::<_, anyhow::Error>((device.upload(&bias.to_vec())?, *rows)));
    let bias = bias.transpose()?;

    let upload_scale =
        |of: usize| finish.scales[of].as_ref().map(|scale| device.upload(&scale.to_vec())).transpose();
    let scales = [upload_scale(0)?, upload_scale(1)?];

    let mut call = Matmul::<T, U>::new(view(&a_data, *a)?, view(&b_data, *b)?)
        .alpha(finish.alpha.1)
        .activation(finish.activation);
    call = T::scaled(T::precise(call, how.precision)?, scales.each_ref().map(Option::as_ref))?;
    if finish.c.is_some() {
        call = call.beta(finish.beta.1);
    }
    call = match &bias {
        Some((bias, true)) => call.bias_rows(bias),
        Some((bias, false)) => call.bias(bias),
        None => call,
    };
    if let Some((tile_m, tile_n)) = how.tile {
        call = call.tile(tile_m, tile_n);
    }
    if let Some(parts) = how.split_k {
        call = call.split_k(parts);
    }

    let plan = call.explain(device, &mut MatrixMut::row_major(&mut c_data, m, n)?)?;
    report.line("kernel", format_args!("{plan}"));
    let types =
        if T::DTYPE == U::DTYPE { T::DTYPE.to_string() } else { format!("{} to {}", T::DTYPE, U::DTYPE) };
    report.line("problem", format_args!("{m} x {n} x {k} (M x N x K), {types}"));

    let restore = |c_data: &mut Buffer<U>| match &before {
        Some(before) => c_data.upload_from(before.as_slice().expect("it is in standard layout")),
        None => Ok(()),
    };
    restore(&mut c_data)?;
    let once = |c_data: &mut Buffer<U>| {
        let mut c = MatrixMut::row_major(c_data, m, n)?;
        device.time(|_| call.run(device, &mut c))
    };
    let (time, runs) = if device.is_gpu() {
        // The first launch loads the kernels.
        let loading = progress::loading(device);
        let each = once(&mut c_data);
        loading.finish_and_clear();
        let bar = progress::launches(RUNS, each?);
        let mut times =
            (0..RUNS).map(|_| once(&mut c_data).inspect(|_| bar.inc(1))).collect::<Result<Vec<_>, _>>()?;
        bar.finish_and_clear();
        times.sort();
        if before.is_some() {
            // Each run accumulated into the previous result.
            restore(&mut c_data)?;
            once(&mut c_data)?;
        }
        (times[RUNS / 2], format!(", median of {RUNS}"))
    } else {
        let bar = progress::blocks(device);
        let time = once(&mut c_data)?;
        bar.finish_and_clear();
        (time, String::new())
    };
    let c = Array2::from_shape_vec((m, n), transfer::download(&c_data)?)?;

    let operations = 2.0 * m as f64 * n as f64 * k as f64;
    let seconds = time.as_secs_f64();
    report.line("time", format_args!("{:.3} ms{runs}", seconds * 1e3));
    let unit = if T::DTYPE.is_whole() { "TOP/s" } else { "TFLOP/s" };
    match operations / seconds / 1e12 {
        speed if speed >= 0.1 => report.line("speed", format_args!("{speed:.2} {unit}")),
        speed if speed.is_finite() => report.line("speed", format_args!("{speed:.1e} {unit}")),
        _ => {}
    }
    let tolerance = T::tolerance(how.precision, U::DTYPE);
    let comparison = compare(*a, *b, c.view(), tolerance, |row, col, sum| {
        finish.expected(row, col, (k > 0).then_some(sum))
    });
    let rows = match comparison {
        Comparison { rows, of, .. } if rows < of => format!(" ({rows} of {of} rows compared)"),
        _ => String::new(),
    };
    let error = comparison.relative_error;
    let apart = match comparison.apart {
        0 => String::new(),
        apart => format!(", except for {apart} infinities or NaNs on one side only"),
    };
    report.line("error", format_args!("{error:.1e} relative to a float64 reference{rows}{apart}"));
    Ok((c, comparison))
}

/// Uploads the elements in memory order.
fn upload<T: Stored>(device: &Device, matrix: ArrayView2<'_, T>) -> Result<Buffer<T>> {
    let elements = matrix.to_slice_memory_order().expect("a .npy file is contiguous in C or Fortran order");
    transfer::upload(device, elements)
}

/// A view of the uploaded matrix.
fn view<'a, T: Stored>(data: &'a Buffer<T>, matrix: ArrayView2<'_, T>) -> Result<Matrix<'a, T>> {
    let (rows, cols) = matrix.dim();
    let view = if matrix.is_standard_layout() {
        Matrix::row_major(data, rows, cols)
    } else {
        Matrix::col_major(data, rows, cols)
    };
    Ok(view?)
}
