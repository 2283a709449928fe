//! The ladder, step 1: the copy with padded columns, through registers and with `cp.async`
//! (`device/kernels/ladder/copy.rs` and `copy_async.rs`).

mod support;

use moye::kernels::{copy, copy_async};
use moye::layout::{ComposedLayout, layout};
use moye::{Device, Grid};
use moye_device::analysis::shared_access;
use support::Matrix;

fn main() -> moye::Result<()> {
    // Columns of 33 elements: a row of the tile, which this copy does not read, covers 32 banks.
    for tile in [layout!((32, 32):(32, 1)), layout!((32, 32):(33, 1))] {
        let access = shared_access(ComposedLayout::plain(tile), 32, 1);
        println!("a warp along a row, {tile}: {} words in a bank", access.conflict_degree());
    }

    let device = Device::open()?;
    let matrix = Matrix::random(&device);
    let (m, n, leading) = (matrix.m, matrix.n, i64::from(matrix.m));
    let src = device.upload(&matrix.elements)?;
    // One block of 256 threads for each 32 x 32 tile.
    let grid = Grid::new((m.div_ceil(32), n.div_ceil(32)), 256);
    for kernel in [copy, copy_async] {
        // An element that the kernel omits stays NaN.
        let mut dst = device.upload(&vec![f32::NAN; matrix.elements.len()])?;
        matrix.time(&device, kernel.name(), || {
            // SAFETY: both buffers have m * n elements, with the strides of column-major matrices.
            unsafe { device.launch(&kernel, grid, (&src, &mut dst, m, n, 1, leading, 1, leading)) }
        })?;
        assert!(dst.download()? == matrix.elements, "a copy that differs from its source");
    }
    Ok(())
}
