//! `moye transpose`

use super::input::NpyFile;
use super::output::Output;
use super::{DeviceArgument, progress, transfer};
use anyhow::Result;
use clap::Args;
use moye::{Matrix, MatrixMut, transpose};
use ndarray::Array2;
use std::path::PathBuf;

#[derive(Args)]
pub struct Transpose {
    /// A .npy file with a float32 matrix, in C or Fortran order.
    #[arg(value_name = "A.npy")]
    file: PathBuf,
    /// Output file for the transposed matrix.
    #[arg(short, long, value_name = "B.npy")]
    output: PathBuf,
    /// Overwrite the output if it exists.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    device: DeviceArgument,
}

impl Transpose {
    pub fn run(self) -> Result<()> {
        let output = Output::create(&self.output, self.force)?;
        let mut report = Output::report(Some(&output));
        let file = NpyFile::read(&self.file)?;
        let matrix = file.matrix::<f32>()?;
        let device = self.device.open(&mut report)?;
        let (rows, cols) = matrix.dim();
        let elements =
            matrix.as_slice_memory_order().expect("a .npy file is contiguous in C or Fortran order");
        let data = transfer::upload(&device, elements)?;
        let source = if matrix.is_standard_layout() {
            Matrix::row_major(&data, rows, cols)?
        } else {
            Matrix::col_major(&data, rows, cols)?
        };
        let mut result = device.alloc_uninit::<f32>(elements.len())?;
        let mut target = MatrixMut::row_major(&mut result, cols, rows)?;
        report.line("problem", format_args!("{rows} x {cols}, float32"));
        if device.is_gpu() {
            // The first launch loads the kernel.
            let loading = progress::loading(&device);
            let loaded = transpose(&device, &source, &mut target);
            loading.finish_and_clear();
            loaded?;
        }
        let bar = progress::blocks(&device);
        let time = device.time(|_| transpose(&device, &source, &mut target))?;
        bar.finish_and_clear();
        report.line("time", format_args!("{:.3} ms", time.as_secs_f64() * 1e3));
        output.write_matrix(Array2::from_shape_vec((cols, rows), transfer::download(&result)?)?.view())
    }
}
