//! A stage that no warp releases is never filled again.

use moye_device::memory::SharedStorage;
use moye_device::pipeline::{PipelineStorage, Warps};

const BYTES: usize = PipelineStorage::<4, Warps<0>>::BYTES;

fn main() {
    let _ = BYTES;
}
