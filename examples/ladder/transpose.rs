//! The ladder, step 1: a transpose in shared memory, and why its columns are padded
//! (`device/kernels/ladder/transpose.rs`).

mod support;

use moye::kernels::transpose;
use moye::layout::{ComposedLayout, layout};
use moye::{Device, Grid};
use moye_device::analysis::shared_access;
use support::Matrix;

fn main() -> moye::Result<()> {
    // The tile is written by columns and read by rows. With columns of 32 elements a row is in one
    // bank, with columns of 33 it is not.
    for tile in [layout!((32, 32):(32, 1)), layout!((32, 32):(33, 1))] {
        let access = shared_access(ComposedLayout::plain(tile), 32, 1);
        println!("a warp along a row, {tile}: {} words in a bank", access.conflict_degree());
    }

    let device = Device::open()?;
    let matrix = Matrix::random(&device);
    let (m, n, ld_src, ld_dst) = (matrix.m, matrix.n, i64::from(matrix.m), i64::from(matrix.n));
    let src = device.upload(&matrix.elements)?;
    // An element that the kernel omits stays NaN.
    let mut dst = device.upload(&vec![f32::NAN; matrix.elements.len()])?;
    // One block of 256 threads for each 32 x 32 tile of the source.
    let grid = Grid::new((m.div_ceil(32), n.div_ceil(32)), 256);
    matrix.time(&device, transpose.name(), || {
        // SAFETY: both buffers have m * n elements, with these strides of column-major matrices.
        unsafe { device.launch(&transpose, grid, (&src, &mut dst, m, n, 1, ld_src, 1, ld_dst)) }
    })?;
    // Column i of the result is row i of the source.
    let (result, m, n) = (dst.download()?, m as usize, n as usize);
    let rows = (0..m).flat_map(|i| (0..n).map(move |j| i + j * m));
    assert!(rows.map(|at| matrix.elements[at]).eq(result), "not the transposed matrix");
    Ok(())
}
