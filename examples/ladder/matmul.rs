//! The ladder, step 1: the first product (`device/kernels/ladder/matmul.rs`).

mod support;

use moye::Grid;
use moye::kernels::matmul_f32_nt;
use support::{Fast, Problem, run_by};

fn main() -> moye::Result<()> {
    run_by(matmul_f32_nt.name(), Fast::Mn, Fast::Mn, |device, problem: &mut Problem<f32>| {
        let ((m, n, k), (lda, ldb)) = (problem.shape, problem.leading);
        // A block of 256 threads for each tile of 128 x 128. This kernel takes any strides: two for
        // each matrix.
        let grid = Grid::new((m.div_ceil(128) as u32, n.div_ceil(128) as u32), 256);
        let (a, b, c) = (&problem.a, &problem.b, &mut problem.c);
        let arguments = (a, b, c, m as u32, n as u32, k as u32, 1, lda, 1, ldb, 1, m as i64);
        // SAFETY: the buffers hold the matrices with these strides.
        unsafe { device.launch(&matmul_f32_nt, grid, arguments) }
    })
}
