//! Four rows of threads do not divide ten rows.

use moye_device::layout::layout;
use moye_device::memory::Shared;
use moye_device::static_layout;
use moye_device::tensor::SharedTensor;

static_layout! {
    Smem = layout!((10, 8));
    Threads = layout!((4, 8));
}

fn main() {
    let part = SharedTensor::<f32, Smem>::shared(Shared::from_address(0)).local_partition::<Threads>(0);
    println!("{}", part.layout());
}
