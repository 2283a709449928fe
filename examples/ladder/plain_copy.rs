//! The ladder, step 1: a copy through shared memory (`device/kernels/ladder/plain_copy.rs`).

mod support;

use moye::kernels::ladder::ladder_plain_copy;
use moye::layout::{Tiler, layout, zipped_divide};
use moye::{Device, Grid};
use moye_device::layout::tuple;
use support::Matrix;

fn main() -> moye::Result<()> {
    // 32 x 8 threads divide a 32 x 32 tile: four elements each.
    let parts = zipped_divide(layout!((32, 32)), Tiler::shape(tuple!((32, 8))));
    println!("((THR_M, THR_N), (REST_M, REST_N)): {parts}");

    let device = Device::open()?;
    let matrix = Matrix::random(&device);
    let (m, n, leading) = (matrix.m, matrix.n, i64::from(matrix.m));
    let src = device.upload(&matrix.elements)?;
    // An element that the kernel omits stays NaN.
    let mut dst = device.upload(&vec![f32::NAN; matrix.elements.len()])?;
    // One block of 256 threads for each 32 x 32 tile.
    let grid = Grid::new((m.div_ceil(32), n.div_ceil(32)), 256);
    matrix.time(&device, ladder_plain_copy.name(), || {
        // SAFETY: both buffers have m * n elements, with these strides of a column-major matrix.
        unsafe { device.launch(&ladder_plain_copy, grid, (&src, &mut dst, m, n, 1, leading, 1, leading)) }
    })?;
    assert!(dst.download()? == matrix.elements, "a copy that differs from its source");
    Ok(())
}
