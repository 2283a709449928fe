//! The ladder, step 1: the copy with padded columns, through registers and with `cp.async`
//! (`ops/movement/ladder/copy.rs` and `copy_async.rs`).

use crate::support::Matrix;
use moye::Device;
use moye::kernels::{copy, copy_async};
use moye::layout::{ComposedLayout, layout};
use moye_device::analysis::shared_access;

pub fn run(device: &Device) -> moye::Result<()> {
    // Columns of 33 elements: a row of the tile, which this copy does not read, spans 32 banks.
    for tile in [layout!((32, 32):(32, 1)), layout!((32, 32):(33, 1))] {
        let access = shared_access(ComposedLayout::plain(tile), 32, 1);
        println!("a warp along a row, {tile}: {} words in a bank", access.conflict_degree());
    }

    let matrix = Matrix::random(device);
    matrix.moves(device, &copy, false)?;
    matrix.moves(device, &copy_async, false)
}
