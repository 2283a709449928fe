//! A tile of 32 x 8 does not divide one of 48 x 12: its last parts would reach beyond.

use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::layout;
use moye_device::memory::Shared;
use moye_device::tensor::SharedTensor;
use moye_device::{static_layout, tiled_copy};

tiled_copy! {
    Load: TiledCopy<UniversalCopy<f32>, f32> = TiledCopy::new(layout!((32, 8)), layout!((1, 1)));
}
static_layout! {
    Smem = layout!((48, 12));
}

fn main() {
    let smem = SharedTensor::<f32, Smem>::shared(Shared::from_address(0));
    let part = Load::get_slice(0).partition_d(smem);
    println!("{}", part.layout());
}
