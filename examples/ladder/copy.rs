//! The ladder, step 1: a copy through shared memory, by registers and by `cp.async`
//! (`device/kernels/ladder/copy.rs` and `copy_async.rs`).

mod support;

use moye::kernels::{copy, copy_async};
use moye_device::layout::{Tiler, layout, tuple, zipped_divide};
use support::run_move;

fn main() -> moye::Result<()> {
    // 32 x 8 threads divide a tile of 32 x 32, which has columns of 33 in shared memory: four
    // elements each.
    let tile = layout!((32, 32):(1, 33));
    let parts = zipped_divide(tile, Tiler::by_mode(&[Tiler::shape(tuple!(32)), Tiler::shape(tuple!(8))]));
    println!("((THR_M, THR_N), (REST_M, REST_N)): {parts}");

    for kernel in [copy, copy_async] {
        run_move(&kernel, false)?;
    }
    Ok(())
}
