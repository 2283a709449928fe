//! A fragment belongs to one thread.

use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::layout;
use moye_device::tensor::Fragment;
use moye_device::{static_layout, tiled_copy};

tiled_copy! {
    ByFour: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
}
static_layout! {
    Tile = layout!((128, 2));
}

fn main() {
    let fragment = Fragment::<f32, Tile>::filled(0.0);
    let _ = ByFour::get_slice(0).partition_s(fragment);
}
