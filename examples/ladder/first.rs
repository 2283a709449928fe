//! The ladder, step 1: what a block and a thread have of a matrix, in a copy, a transpose and a product
//! (`device/kernels/copy.rs`, `transpose.rs` and `matmul.rs`).

mod support;

use moye::kernels::{copy, copy_async, matmul_f32_nt, transpose};
use moye::layout::layout;
use moye::{Device, Grid, Result};
use moye_device::analysis::shared_access;
use moye_device::layout::ComposedLayout;
use support::{Fast, Problem, run_by};

fn main() -> Result<()> {
    // The tile of a transpose is written by columns and read by rows. A column of 32 puts a row into one bank, one of 33 does not.
    for tile in [layout!((32, 32):(32, 1)), layout!((32, 32):(33, 1))] {
        let access = shared_access(ComposedLayout::plain(tile), 32, 1);
        println!("a warp along a row, {tile}: {} words in a bank", access.conflict_degree());
    }

    moved()?;

    run_by(matmul_f32_nt.name(), Fast::Mn, Fast::Mn, |device, problem: &mut Problem<f32>| {
        let ((m, n, k), (lda, ldb)) = (problem.shape, problem.leading);
        // A block of 256 threads for each tile of 128 x 128. This kernel takes any strides: two for each matrix.
        let grid = Grid::new((m.div_ceil(128) as u32, n.div_ceil(128) as u32), 256);
        let (a, b, c) = (&problem.a, &problem.b, &mut problem.c);
        let arguments = (a, b, c, m as u32, n as u32, k as u32, 1, lda, 1, ldb, 1, m as i64);
        // SAFETY: the buffers hold the matrices with these strides.
        unsafe { device.launch(&matmul_f32_nt, grid, arguments) }
    })
}

/// Copies and transposes a column-major matrix, checks each and prints its speed.
fn moved() -> Result<()> {
    let device = Device::open()?;
    // Nothing is a multiple of a tile.
    let (m, n): (usize, usize) = if device.is_gpu() { (8190, 8194) } else { (150, 70) };
    let elements: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
    let src = device.upload(&elements)?;
    let grid = Grid::new((m.div_ceil(32) as u32, n.div_ceil(32) as u32), 256);
    for (kernel, transposes) in [(copy, false), (copy_async, false), (transpose, true)] {
        let mut dst = device.alloc_uninit::<f32>(m * n)?;
        dst.fill_bytes(0xFF)?;
        let leading = if transposes { n } else { m } as i64;
        let mut launch = || {
            let arguments = (&src, &mut dst, m as u32, n as u32, 1, m as i64, 1, leading);
            // SAFETY: both buffers hold m * n elements, and these are the strides of column-major matrices.
            unsafe { device.launch(&kernel, grid, arguments) }
        };
        launch()?; // The first launch also compiles the PTX for this GPU.
        let time = device.time(|_| launch())?;
        let after = dst.download()?;
        for j in 0..n {
            for i in 0..m {
                let at = if transposes { j + i * n } else { i + j * m };
                assert_eq!(after[at], elements[i + j * m], "{}: element ({i}, {j})", kernel.name());
            }
        }
        let bytes = 2 * m * n * size_of::<f32>();
        println!(
            "{}: {m} x {n}, {time:?}, {:.3} GB/s on {}",
            kernel.name(),
            bytes as f64 / time.as_secs_f64() / 1e9,
            device.name()
        );
    }
    Ok(())
}
