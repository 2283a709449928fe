//! `moye matmul`

use super::input::NpyFile;
use super::output::Output;
use super::reference::{Comparison, compare};
use super::report::Report;
use super::{DeviceArgument, progress, transfer};
use anyhow::{Result, bail};
use clap::Args;
use moye::{Buffer, Device, Matrix, MatrixMut, matmul};
use ndarray::{Array2, ArrayView2};
use std::path::PathBuf;

/// The problem without files, M, N and K: that of CuTe's tutorial on a GPU.
const ON_GPU: (usize, usize, usize) = (2048, 2048, 256);

/// Likewise on the simulator: seconds also where the program was not optimised.
const ON_SIMULATOR: (usize, usize, usize) = (256, 256, 64);

/// The relative error that sums of random numbers of the sizes above stay well below.
const RANDOM_TOLERANCE: f64 = 1e-5;

/// Times measured on a GPU.
const RUNS: usize = 10;

#[derive(Args)]
pub struct Matmul {
    /// Two .npy files with float32 matrices, in C or Fortran order; without them, random matrices are multiplied.
    #[arg(value_name = "A.npy", requires = "b")]
    a: Option<PathBuf>,
    #[arg(value_name = "B.npy")]
    b: Option<PathBuf>,
    /// Where to write the product.
    #[arg(short, long, value_name = "C.npy")]
    output: Option<PathBuf>,
    /// Replace the output where it exists.
    #[arg(long)]
    force: bool,
    /// What the random matrices are made from.
    #[arg(long, default_value_t = 0, conflicts_with = "a")]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgument,
}

impl Matmul {
    pub fn run(self) -> Result<()> {
        let output = self.output.as_deref().map(|path| Output::create(path, self.force)).transpose()?;
        let mut report = Output::report(output.as_ref());
        if let (Some(a_path), Some(b_path)) = (&self.a, &self.b) {
            let (a, b) = (NpyFile::read(a_path)?, NpyFile::read(b_path)?);
            let (a, b) = (a.matrix()?, b.matrix()?);
            if a.ncols() != b.nrows() {
                bail!(
                    "{} is {}x{} and {} is {}x{}; the first must have as many columns as the second has rows",
                    a_path.display(),
                    a.nrows(),
                    a.ncols(),
                    b_path.display(),
                    b.nrows(),
                    b.ncols()
                );
            }
            let device = self.device.open(&mut report)?;
            let (c, _) = multiply(&mut report, &device, a.view(), b.view())?;
            return output.map_or(Ok(()), |output| output.write_matrix(c.view()));
        }
        let device = self.device.open(&mut report)?;
        let (m, n, k) = if device.is_gpu() { ON_GPU } else { ON_SIMULATOR };
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut matrix = |rows, cols| Array2::from_shape_simple_fn((rows, cols), || 2.0 * random.f32() - 1.0);
        let (a, b) = (matrix(m, k), matrix(k, n));
        let (c, comparison) = multiply(&mut report, &device, a.view(), b.view())?;
        if comparison.relative_error.is_nan() || comparison.relative_error > RANDOM_TOLERANCE {
            bail!(
                "the product is wrong: its relative error is {:.1e}, where {RANDOM_TOLERANCE:.0e} is the most that rounding makes",
                comparison.relative_error
            );
        }
        output.map_or(Ok(()), |output| output.write_matrix(c.view()))
    }
}

/// Multiplies on the device, and prints what was done and how well.
fn multiply(
    report: &mut Report,
    device: &Device,
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
) -> Result<(Array2<f32>, Comparison)> {
    let (m, n, k) = (a.nrows(), b.ncols(), a.ncols());
    let (a_data, b_data) = (upload(device, a)?, upload(device, b)?);
    let (a_matrix, b_matrix) = (view(&a_data, a)?, view(&b_data, b)?);
    let Some(elements) = m.checked_mul(n) else { bail!("a {m}x{n} product is larger than any memory") };
    let mut c_data = device.alloc_uninit::<f32>(elements)?;
    let mut c_matrix = MatrixMut::row_major(&mut c_data, m, n)?;
    let plan = moye::Matmul::new(a_matrix.clone(), b_matrix.clone()).explain(device, &mut c_matrix)?;
    report.line("kernel", plan.kernel.unwrap_or("none"));
    report.line("problem", format_args!("{m} x {n} x {k} (M x N x K), float32"));

    let mut once = || device.time(|_| matmul(device, &a_matrix, &b_matrix, &mut c_matrix));
    let (time, runs) = if device.is_gpu() {
        // The first launch loads the kernels.
        let bar = progress::launches(RUNS, once()?);
        let mut times = (0..RUNS).map(|_| once().inspect(|_| bar.inc(1))).collect::<Result<Vec<_>, _>>()?;
        bar.finish_and_clear();
        times.sort();
        (times[RUNS / 2], format!(", median of {RUNS}"))
    } else {
        let bar = progress::blocks(device);
        let time = once()?;
        bar.finish_and_clear();
        (time, String::new())
    };
    let c = Array2::from_shape_vec((m, n), transfer::download(&c_data)?)?;

    let operations = 2.0 * m as f64 * n as f64 * k as f64;
    let seconds = time.as_secs_f64();
    report.line("time", format_args!("{:.3} ms{runs}", seconds * 1e3));
    match operations / seconds / 1e12 {
        speed if speed >= 0.1 => report.line("speed", format_args!("{speed:.2} TFLOP/s")),
        speed if speed.is_finite() => report.line("speed", format_args!("{speed:.1e} TFLOP/s")),
        _ => {}
    }
    let comparison = compare(a, b, c.view());
    let rows = match comparison {
        Comparison { rows, of, .. } if rows < of => format!(" ({rows} of {of} rows compared)"),
        _ => String::new(),
    };
    let error = comparison.relative_error;
    report.line("error", format_args!("{error:.1e} relative to a float64 reference{rows}"));
    Ok((c, comparison))
}

/// The elements on the device, in the order that they have in memory.
fn upload(device: &Device, matrix: ArrayView2<'_, f32>) -> Result<Buffer<f32>> {
    let elements = matrix.to_slice_memory_order().expect("a .npy file is contiguous in C or Fortran order");
    transfer::upload(device, elements)
}

/// The uploaded matrix.
fn view<'a>(data: &'a Buffer<f32>, matrix: ArrayView2<'_, f32>) -> Result<Matrix<'a, f32>> {
    let (rows, cols) = matrix.dim();
    let view = if matrix.is_standard_layout() {
        Matrix::row_major(data, rows, cols)
    } else {
        Matrix::col_major(data, rows, cols)
    };
    Ok(view?)
}
