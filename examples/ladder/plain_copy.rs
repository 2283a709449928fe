//! The ladder, step 1: a copy through shared memory (`ops/movement/ladder/plain_copy.rs`).

use crate::support::Matrix;
use moye::Device;
use moye::kernels::ladder::ladder_plain_copy;
use moye::layout::{Tiler, layout, zipped_divide};
use moye_device::layout::tuple;

pub fn run(device: &Device) -> moye::Result<()> {
    // 32 x 8 threads divide a 32 x 32 tile: four elements each.
    let parts = zipped_divide(layout!((32, 32)), Tiler::shape(tuple!((32, 8))));
    println!("((THR_M, THR_N), (REST_M, REST_N)): {parts}");

    Matrix::random(device).moves(device, &ladder_plain_copy, false)
}
