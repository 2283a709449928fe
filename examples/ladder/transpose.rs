//! The ladder, step 1: a transpose in shared memory, and why its columns are padded
//! (`ops/movement/ladder/transpose.rs`).

use crate::support::Matrix;
use moye::Device;
use moye::kernels::transpose;
use moye::layout::{ComposedLayout, layout};
use moye_device::analysis::shared_access;

pub fn run(device: &Device) -> moye::Result<()> {
    // The tile is written by columns and read by rows. A column of 32 puts a row into one bank, one
    // of 33 does not.
    for tile in [layout!((32, 32):(32, 1)), layout!((32, 32):(33, 1))] {
        let access = shared_access(ComposedLayout::plain(tile), 32, 1);
        println!("a warp along a row, {tile}: {} words in a bank", access.conflict_degree());
    }

    Matrix::random(device).moves(device, &transpose, true)
}
