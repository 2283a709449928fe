//! `moye matmul`: products of files, and of random matrices, each compared with float64.
//!
//! `moye run matmul` is built from the declaration `MATMUL`. This command also draws matrices,
//! measures the error of each product, and takes tuned plans.

use super::DeviceArgument;
use super::input::NpyFile;
use super::number::number;
use super::output::Output;
use super::product::{Finish, How, Product, multiply};
use super::report::Report;
use crate::commands::dtype::{CheckedElement, Dtype, PRODUCTS, Stored};
use anyhow::{Result, bail};
use clap::Args;
use half::{bf16, f16};
use moye::kernels::mma::Activation;
use moye::number::{F8E4M3, F8E5M2};
use moye::operation::Plans;
use moye::{Device, Output as ResultOf, Precision};
use moye_bench::activation::Function;
use ndarray::{Array2, CowArray, Ix1};
use std::path::{Path, PathBuf};

/// The default problem, M, N and K: that of CuTe's tutorial, on a GPU.
const ON_GPU: (usize, usize, usize) = (2048, 2048, 256);

/// The default problem on the simulator: it takes seconds even without optimisation.
const ON_SIMULATOR: (usize, usize, usize) = (256, 256, 64);

#[derive(Args)]
pub struct Matmul {
    /// Two .npy files with matrices of one type (float16, bfloat16, float32, float64, int8,
    /// float8_e4m3fn or float8_e5m2), in C or Fortran order; without them, random matrices are
    /// multiplied.
    #[arg(value_name = "A.npy", requires = "b")]
    a: Option<PathBuf>,
    #[arg(value_name = "B.npy")]
    b: Option<PathBuf>,
    /// Output file: of the matrices' type, int32 for int8, bfloat16 for 8-bit floats.
    #[arg(short, long, value_name = "OUT.npy")]
    output: Option<PathBuf>,
    /// Overwrite the output if it exists.
    #[arg(long)]
    force: bool,
    /// Element type of the matrices. It is needed for bfloat16 stored as uint16
    /// (`a.view('uint16')`), for float8_e4m3fn, which files store as bytes without a type, and for
    /// 8-bit floats stored as uint8; other types are in the file. Random matrices are float32 by
    /// default.
    #[arg(long, value_enum, value_name = "TYPE")]
    dtype: Option<Dtype>,
    /// Write the product of float16, bfloat16 or 8-bit floats as float32.
    #[arg(long)]
    f32_output: bool,
    /// The factor of the product. With 0 the matrices are not read.
    #[arg(long, default_value_t = 1.0, allow_hyphen_values = true, value_name = "NUMBER", value_parser = number)]
    alpha: f64,
    /// The factor of the matrix that `--c` names (default: 1).
    #[arg(long, requires = "c", allow_hyphen_values = true, value_name = "NUMBER", value_parser = number)]
    beta: Option<f64>,
    /// A .npy file with a matrix of the product's shape and type; `beta` times it is added.
    #[arg(long, requires = "a", value_name = "C.npy")]
    c: Option<PathBuf>,
    /// Bias by column: a .npy file with one element of the product's type for each column.
    #[arg(long, requires = "a", conflicts_with = "bias_rows", value_name = "BIAS.npy")]
    bias: Option<PathBuf>,
    /// Bias by row: a .npy file with one element of the product's type for each row.
    #[arg(long, requires = "a", value_name = "BIAS.npy")]
    bias_rows: Option<PathBuf>,
    /// Scales of A for 8-bit floats: a .npy file with float32, one scale for A or one for each row.
    #[arg(long, requires = "a", value_name = "SCALE.npy")]
    scale_a: Option<PathBuf>,
    /// Scales of B for 8-bit floats: one scale for B, or one for each column.
    #[arg(long, requires = "a", value_name = "SCALE.npy")]
    scale_b: Option<PathBuf>,
    /// Activation applied to the result.
    #[arg(long, value_enum, value_name = "FUNCTION")]
    activation: Option<Function>,
    /// Multiply float32 on tensor cores in tf32, which has 10 fraction bits.
    #[arg(long, conflicts_with = "f16_accumulators")]
    tf32: bool,
    /// Use float16 accumulators for float16.
    #[arg(long)]
    f16_accumulators: bool,
    /// Tile of the product that a block computes, such as 64x64 (default: chosen by the heuristic).
    #[arg(long, value_name = "MxN", value_parser = tile)]
    tile: Option<(u32, u32)>,
    /// Number of split-K slices (default: chosen by the heuristic).
    #[arg(long, value_name = "PARTS", value_parser = clap::value_parser!(u32).range(1..))]
    split_k: Option<u32>,
    /// Use the plan that `moye tune` has stored for this problem in this file, if it has one.
    #[arg(long, conflicts_with_all = ["tile", "split_k"], value_name = "FILE.json")]
    tuning: Option<PathBuf>,
    /// Seed of the random matrices.
    #[arg(long, default_value_t = 0, conflicts_with = "a")]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgument,
}

/// Parses `MxN`.
pub fn tile(text: &str) -> Result<(u32, u32), String> {
    let extents = text.split_once('x').and_then(|(m, n)| Some((m.parse().ok()?, n.parse().ok()?)));
    extents.ok_or_else(|| format!("`{text}` is not a tile: expected MxN without spaces, such as 64x64"))
}

/// Reads the file of this name, if a name is given.
fn npy(path: Option<&Path>) -> Result<Option<NpyFile>> {
    path.map(NpyFile::read).transpose()
}

/// The scales of an operand, called `of`, with this number of rows or columns, `what` (the mode
/// other than K).
fn scale<'f, T: CheckedElement>(
    file: Option<&'f NpyFile>,
    of: &NpyFile,
    extent: usize,
    what: &str,
) -> Result<Option<CowArray<'f, f32, Ix1>>> {
    let Some(file) = file else { return Ok(None) };
    if !T::DTYPE.is_float8() {
        let (name, dtype) = (of.name(), T::DTYPE);
        bail!(
            "--scale-a and --scale-b are for 8-bit floats, and {name} holds {dtype}; use --alpha for other types"
        );
    }
    let scale = file.vector::<f32>()?;
    if scale.len() != 1 && scale.len() != extent {
        let (name, len, of) = (file.name(), scale.len(), of.name());
        bail!("{name} has {len} elements, and {of} has {extent} {what}; give one scale, or one for each");
    }
    Ok(Some(scale))
}

impl Matmul {
    pub fn run(self) -> Result<()> {
        let output = self.output.as_deref().map(|path| Output::create(path, self.force)).transpose()?;
        let mut report = Output::report(output.as_ref());
        if let Some(file) = &self.tuning {
            Plans::load(file)?.apply();
        }
        let how = How {
            precision: match (self.tf32, self.f16_accumulators) {
                (true, _) => Precision::Tf32,
                (_, true) => Precision::F16Accumulators,
                _ => Precision::Full,
            },
            tile: self.tile,
            split_k: self.split_k,
        };
        let files = match (&self.a, &self.b) {
            (Some(a), Some(b)) => Some((NpyFile::read(a)?, NpyFile::read(b)?)),
            _ => None,
        };
        let files = files.as_ref().map(|(a, b)| (a, b));
        let dtype = match files {
            Some((a, b)) => self.common_type(a, b)?,
            None => self.dtype.unwrap_or(Dtype::F32),
        };
        match (dtype, self.f32_output) {
            (Dtype::F16, false) => self.typed::<f16, f16>(files, how, output, &mut report),
            (Dtype::F16, true) => self.typed::<f16, f32>(files, how, output, &mut report),
            (Dtype::Bf16, false) => self.typed::<bf16, bf16>(files, how, output, &mut report),
            (Dtype::Bf16, true) => self.typed::<bf16, f32>(files, how, output, &mut report),
            (Dtype::F32, _) => self.typed::<f32, f32>(files, how, output, &mut report),
            (Dtype::F64, false) => self.typed::<f64, f64>(files, how, output, &mut report),
            (Dtype::I8, false) => self.typed::<i8, i32>(files, how, output, &mut report),
            (Dtype::E4m3, false) => self.typed::<F8E4M3, bf16>(files, how, output, &mut report),
            (Dtype::E4m3, true) => self.typed::<F8E4M3, f32>(files, how, output, &mut report),
            (Dtype::E5m2, false) => self.typed::<F8E5M2, bf16>(files, how, output, &mut report),
            (Dtype::E5m2, true) => self.typed::<F8E5M2, f32>(files, how, output, &mut report),
            (Dtype::F64 | Dtype::I8, true) => {
                bail!(
                    "--f32-output is for float16, bfloat16 and 8-bit floats, and these matrices are {dtype}"
                )
            }
            (Dtype::I32 | Dtype::I64 | Dtype::U8, _) => unreachable!("no operands are {dtype}"),
        }
    }

    /// The common type of both files.
    fn common_type(&self, a: &NpyFile, b: &NpyFile) -> Result<Dtype> {
        let takes = format!("products take {PRODUCTS}");
        let types = [a.dtype(self.dtype, &takes)?, b.dtype(self.dtype, &takes)?];
        for (file, dtype) in [a, b].into_iter().zip(types) {
            let name = file.name();
            if matches!(dtype, Dtype::I32 | Dtype::I64 | Dtype::U8) {
                bail!("{name} holds {dtype}, and {takes}; {}", file.conversion(Dtype::F32)?);
            }
            if let Some(given) = self.dtype
                && dtype != given
            {
                bail!("{name} holds {dtype}, but --dtype is {given}; leave --dtype out, or convert the file");
            }
        }
        if types[0] != types[1] {
            // The wider of two float types represents the values of both.
            let target = if types.contains(&Dtype::F64) { Dtype::F64 } else { Dtype::F32 };
            let mut advice = String::new();
            for (file, _) in [a, b].into_iter().zip(types).filter(|&(_, dtype)| dtype != target) {
                advice += &format!("; {}: {}", file.name(), file.conversion(target)?);
            }
            let [a, b] = [a.name(), b.name()];
            bail!(
                "{a} holds {} and {b} holds {}; both must have one type, such as {target}{advice}",
                types[0],
                types[1]
            );
        }
        Ok(types[0])
    }

    fn typed<T: CheckedElement, U: ResultOf<T> + Stored + Default>(
        &self,
        files: Option<(&NpyFile, &NpyFile)>,
        how: How,
        output: Option<Output>,
        report: &mut Report,
    ) -> Result<()> {
        let alpha = (T::DTYPE.factor(self.alpha), T::factor("alpha", self.alpha)?);
        let beta = self.c.as_ref().map_or(0.0, |_| self.beta.unwrap_or(1.0));
        let mut finish = Finish {
            alpha,
            beta: (T::DTYPE.factor(beta), T::factor("beta", beta)?),
            c: None,
            bias: None,
            scales: [None, None],
            activation: self.activation(T::DTYPE)?,
        };
        let Some((a_file, b_file)) = files else {
            let device = self.device.open(report)?;
            return self.random::<T, U>(report, &device, finish, how, output);
        };
        let (a, b) = (a_file.matrix::<T>()?, b_file.matrix::<T>()?);
        if a.ncols() != b.nrows() {
            bail!(
                "{} is {}x{} and {} is {}x{}; the first must have as many columns as the second has rows",
                a_file.name(),
                a.nrows(),
                a.ncols(),
                b_file.name(),
                b.nrows(),
                b.ncols()
            );
        }
        let (m, n) = (a.nrows(), b.ncols());
        let c_file = npy(self.c.as_deref())?;
        if let Some(file) = &c_file {
            let c = file.matrix::<U>()?;
            if c.dim() != (m, n) {
                let (name, rows, cols) = (file.name(), c.nrows(), c.ncols());
                bail!("{name} is {rows}x{cols}, but the product is {m}x{n}; the shapes must be equal");
            }
            finish.c = Some(c);
        }
        let along = if self.bias_rows.is_some() { ("rows", m) } else { ("columns", n) };
        let bias_file = npy(self.bias.as_deref().or(self.bias_rows.as_deref()))?;
        if let Some(file) = &bias_file {
            let bias = file.vector::<U>()?;
            if bias.len() != along.1 {
                let (name, len, (axis, extent)) = (file.name(), bias.len(), along);
                bail!(
                    "{name} has {len} elements, but the product has {extent} {axis}; a bias has one element for each"
                );
            }
            finish.bias = Some((bias, self.bias_rows.is_some()));
        }
        let scale_files = [&self.scale_a, &self.scale_b].map(Option::as_deref);
        let scale_files = [npy(scale_files[0])?, npy(scale_files[1])?];
        finish.scales = [
            scale::<T>(scale_files[0].as_ref(), a_file, m, "rows")?,
            scale::<T>(scale_files[1].as_ref(), b_file, n, "columns")?,
        ];
        let device = self.device.open(report)?;
        let product = Product { a: a.view(), b: b.view(), finish, how };
        let (c, _) = multiply::<T, U>(report, &device, &product)?;
        output.map_or(Ok(()), |output| output.write_matrix(c.view()))
    }

    /// Multiplies random matrices and checks the product.
    fn random<T: CheckedElement, U: ResultOf<T> + Stored + Default>(
        &self,
        report: &mut Report,
        device: &Device,
        finish: Finish<'_, T, U>,
        how: How,
        output: Option<Output>,
    ) -> Result<()> {
        let (m, n, k) = if device.is_gpu() { ON_GPU } else { ON_SIMULATOR };
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut matrix = |rows, cols| Array2::from_shape_simple_fn((rows, cols), || T::draw(&mut random));
        let (a, b) = (matrix(m, k), matrix(k, n));
        let product = Product { a: a.view(), b: b.view(), finish, how };
        let (c, comparison) = multiply::<T, U>(report, device, &product)?;
        if comparison.apart > 0 {
            bail!(
                "the product is wrong: {} of its elements are infinite or NaN where the reference is not, or the reverse",
                comparison.apart
            );
        }
        if !comparison.is_right() {
            bail!(
                "the product is wrong: its relative error is {:.1e}, and rounding explains at most {:.0e}",
                comparison.relative_error,
                comparison.allowed
            );
        }
        output.map_or(Ok(()), |output| output.write_matrix(c.view()))
    }

    fn activation(&self, dtype: Dtype) -> Result<Activation> {
        match self.activation {
            Some(Function::Gelu | Function::GeluTanh | Function::Silu) if dtype.is_whole() => bail!(
                "--activation gelu, gelu_tanh and silu are for floats, and the product of {dtype} is int32; use relu, or convert the matrices"
            ),
            function => Ok(function.map_or(Activation::None, Activation::from)),
        }
    }
}
