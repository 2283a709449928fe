//! `moye profile`: the work of an operation of this program on a GPU, counted by the simulator.

use super::report as terminal;
use crate::commands::dtype::{CheckedElement, Stored};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use half::{bf16, f16};
use moye::number::{F8E4M3, F8E5M2};
use moye::profile::{Card, Profile as Counted};
use moye::{Arch, Device, Matmul, Matrix, MatrixMut, Output as ResultOf, Precision, SHIPPED_PTX};
use moye_bench::{Majors, Size};
use moye_build::PtxFile;
use moye_build::report::{Ptxas, Report};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The default size: it takes seconds even without optimisation.
const SIZE: Size = Size { m: 256, n: 256, k: 64 };

/// The operation to profile.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    /// A product of matrices
    Matmul,
    /// A copy of a matrix
    Copy,
    /// A transpose
    Transpose,
    /// Attention
    Attention,
}

/// An element type of operands, with a precision of the accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Type {
    /// float32 by fused multiply-adds
    F32,
    /// float32 on tensor cores in tf32
    Tf32,
    /// float16 with float32 accumulators
    F16,
    /// float16 with float16 accumulators
    F16Accumulators,
    /// bfloat16
    Bf16,
    /// float64
    F64,
    /// int8 with int32 accumulators
    I8,
    /// float8_e4m3fn to bfloat16: on Hopper only
    E4m3,
    /// float8_e5m2 to bfloat16: on Hopper only
    E5m2,
}

impl Type {
    /// Its name on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

#[derive(Args)]
pub struct Profile {
    /// Operation to run.
    #[arg(value_enum, value_name = "OPERATION")]
    operation: Operation,
    /// Size, `N` or `MxNxK`. Copies and transposes take an M x N matrix, attention takes M queries
    /// and N keys of K columns (default: 256x256x64, for attention 128x128x64).
    #[arg(value_name = "SIZE")]
    size: Option<Size>,
    /// Element type of the operands (default: f32, for attention f16). Copies and transposes have
    /// f32, attention has f16, bf16 or e4m3.
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    of: Option<Type>,
    /// Majors of A and B, as in BLAS: `tn`, `nt`, `nn` or `tt` (t: K of A, N of B is contiguous).
    #[arg(long, default_value = "tn", value_name = "ORDER")]
    majors: Majors,
    /// Tile of the product that a block computes, such as 64x64 (default: chosen by the heuristic).
    #[arg(long, value_name = "MxN", value_parser = super::matmul::tile)]
    tile: Option<(u32, u32)>,
    /// Number of split-K slices (default: chosen by the heuristic).
    #[arg(long, value_name = "SLICES", value_parser = clap::value_parser!(u32).range(1..))]
    split_k: Option<u32>,
    /// Card for which kernels, occupancy and roofline are chosen: H100, H200, A100 or RTX 4090.
    #[arg(long, default_value = "H100", value_name = "CARD")]
    card: String,
    /// Print JSON.
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Write an HTML page, the source with its figures, to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Profile {
    pub fn run(self) -> Result<()> {
        let Some(card) = Card::named(&self.card) else {
            let names: Vec<_> = Card::all().iter().map(|card| card.name).collect();
            bail!("`{}` is not one of the cards {}", self.card, names.join(", "));
        };
        if self.operation != Operation::Matmul && (self.tile.is_some() || self.split_k.is_some()) {
            bail!("--tile and --split-k are for products; leave them out for other operations");
        }
        if let (Operation::Copy | Operation::Transpose, Some(other)) = (self.operation, self.of)
            && other != Type::F32
        {
            bail!("copies and transposes are of f32, not of {}", other.name());
        }
        let device = Device::sim_of(&card);
        let mut profile = match self.operation {
            Operation::Matmul => self.product(&device)?,
            Operation::Copy => self.movement(&device, moye::copy, false)?,
            Operation::Transpose => self.movement(&device, moye::transpose, true)?,
            Operation::Attention => match self.of.unwrap_or(Type::F16) {
                Type::F16 => self.attention::<f16>(&device)?,
                Type::Bf16 => self.attention::<bf16>(&device)?,
                Type::E4m3 => self.attention::<F8E4M3>(&device)?,
                other => bail!("attention is of f16, bf16 or e4m3, not of {}", other.name()),
            },
        };
        set_registers(&mut profile, device.arch())?;
        add_sources(&mut profile);
        if let Some(path) = &self.html {
            return fs::write(path, profile.to_html(Some(&card)))
                .with_context(|| format!("cannot write {}", path.display()));
        }
        terminal::print(&if self.json { profile.to_json(Some(&card)) } else { profile.to_text(Some(&card)) });
        Ok(())
    }

    fn size(&self) -> Size {
        self.size.unwrap_or(SIZE)
    }

    /// The profile of a copy or a transpose, f32 and row-major.
    fn movement(
        &self,
        device: &Device,
        run: impl FnOnce(&Device, &Matrix<'_, f32>, &mut MatrixMut<'_, f32>) -> moye::Result<()>,
        transposes: bool,
    ) -> Result<Counted> {
        let Size { m, n, .. } = self.size();
        let elements = elements(m, n)?;
        let source = device.alloc_zeroed::<f32>(elements)?;
        let mut target = device.alloc_uninit::<f32>(elements)?;
        let source = Matrix::row_major(&source, m, n)?;
        let (rows, columns) = if transposes { (n, m) } else { (m, n) };
        let mut target = MatrixMut::row_major(&mut target, rows, columns)?;
        Ok(device.profile(|| run(device, &source, &mut target))?)
    }

    /// The profile of attention of one head: M queries and N keys of K columns each, by default
    /// 128, 128 and 64.
    fn attention<T: moye::AttentionElement + CheckedElement>(&self, device: &Device) -> Result<Counted> {
        let Size { m, n, k } = self.size.unwrap_or(Size { m: 128, n: 128, k: 64 });
        let mut random = fastrand::Rng::with_seed(0);
        let mut draw = |count: usize| (0..count).map(|_| T::draw(&mut random)).collect::<Vec<T>>();
        let q = device.upload(&draw(elements(m, k)?))?;
        let keys = device.upload(&draw(elements(n, k)?))?;
        let values = device.upload(&draw(elements(n, k)?))?;
        let mut o = device.alloc_uninit::<T::Output>(elements(m, k)?)?;
        let call = moye::Attention::new(
            moye::Heads::head_first(&q, [1, 1, m, k])?,
            moye::Heads::head_first(&keys, [1, 1, n, k])?,
            moye::Heads::head_first(&values, [1, 1, n, k])?,
        );
        let mut o = moye::HeadsMut::head_first(&mut o, [1, 1, m, k])?;
        Ok(device.profile(|| call.run(device, &mut o))?)
    }

    fn product(&self, device: &Device) -> Result<Counted> {
        match self.of.unwrap_or(Type::F32) {
            Type::F32 => self.product_of::<f32, f32>(device, Precision::Full),
            Type::Tf32 => self.product_of::<f32, f32>(device, Precision::Tf32),
            Type::F16 => self.product_of::<f16, f16>(device, Precision::Full),
            Type::F16Accumulators => self.product_of::<f16, f16>(device, Precision::F16Accumulators),
            Type::Bf16 => self.product_of::<bf16, bf16>(device, Precision::Full),
            Type::F64 => self.product_of::<f64, f64>(device, Precision::Full),
            Type::I8 => self.product_of::<i8, i32>(device, Precision::Full),
            Type::E4m3 => self.product_of::<F8E4M3, bf16>(device, Precision::Full),
            Type::E5m2 => self.product_of::<F8E5M2, bf16>(device, Precision::Full),
        }
    }

    /// The profile of a product of random matrices; C is column-major, as in `moye bench`.
    fn product_of<T: CheckedElement, U: ResultOf<T> + Stored>(
        &self,
        device: &Device,
        precision: Precision,
    ) -> Result<Counted> {
        let Size { m, n, k } = self.size();
        let mut random = fastrand::Rng::with_seed(0);
        let mut draw = |count: usize| (0..count).map(|_| T::draw(&mut random)).collect::<Vec<T>>();
        let a = device.upload(&draw(elements(m, k)?))?;
        let b = device.upload(&draw(elements(k, n)?))?;
        let mut c = device.alloc_uninit::<U>(elements(m, n)?)?;
        let a = if self.majors.a { Matrix::row_major(&a, m, k) } else { Matrix::col_major(&a, m, k) }?;
        let b = if self.majors.b { Matrix::row_major(&b, k, n) } else { Matrix::col_major(&b, k, n) }?;
        let mut call = T::precise(Matmul::<T, U>::new(a, b), precision)?;
        if let Some((tile_m, tile_n)) = self.tile {
            call = call.tile(tile_m, tile_n);
        }
        if let Some(slices) = self.split_k {
            call = call.split_k(slices);
        }
        let mut c = MatrixMut::col_major(&mut c, m, n)?;
        Ok(device.profile(|| call.run(device, &mut c))?)
    }
}

/// The number of elements of a matrix, if it can be represented.
fn elements(rows: usize, columns: usize) -> Result<usize> {
    rows.checked_mul(columns)
        .with_context(|| format!("a {rows}x{columns} matrix is larger than any memory; use a smaller size"))
}

/// Adds the registers of the kernels on an architecture, if `ptxas` is available.
fn set_registers(profile: &mut Counted, arch: Arch) -> Result<()> {
    let Some(ptxas) = Ptxas::find() else { return Ok(()) };
    let mut names: Vec<String> = profile.kernels.iter().map(|kernel| kernel.kernel.clone()).collect();
    let best = SHIPPED_PTX.iter().filter_map(|ptx| ptx.image_for(arch));
    let all = SHIPPED_PTX.iter().flat_map(|ptx| ptx.images().iter().copied());
    for (arch, text) in best.chain(all) {
        let file = PtxFile { arch: arch.parse()?, path: PathBuf::new(), text: text.to_owned() };
        let report = Report::of_kernels(&file, Some(&ptxas), |name| names.iter().any(|other| other == name))?;
        for kernel in report.kernels {
            if let Some(usage) = kernel.usage {
                profile.set_registers(&kernel.ptx.name, usage.registers as u64);
                names.retain(|name| *name != kernel.ptx.name);
            }
        }
        if names.is_empty() {
            break;
        }
    }
    Ok(())
}

/// Sources of the kernels by their names in a profile, embedded in the build because the program
/// may run where they are missing.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Adds the source lines of a profile.
fn add_sources(profile: &mut Counted) {
    let lines = profile.kernels.iter().flat_map(|kernel| kernel.lines.keys());
    let files: BTreeSet<String> = lines.map(|(file, _)| file.clone()).collect();
    for (file, text) in SOURCES.iter().filter(|(file, _)| files.contains(*file)) {
        profile.add_source(file, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::dtype::Dtype;

    #[test]
    fn each_operand_type_of_products_is_one_of_a_profile() {
        for dtype in Dtype::value_variants() {
            if let Some(name) = dtype.to_possible_value() {
                assert!(Type::from_str(name.get_name(), false).is_ok(), "{}", name.get_name());
            }
        }
    }
}
