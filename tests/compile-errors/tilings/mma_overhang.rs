//! Two atoms of 16 along M do not divide 48 rows.

use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::atom::{StaticTiledMma, TiledMma};
use moye_device::layout::layout;
use moye_device::{static_layout, tiled_mma};

tiled_mma! {
    Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::new(layout!((2, 2, 1)));
}
static_layout! {
    TileC = layout!((48, 32));
}

fn main() {
    let sums = Mma::get_slice(0).accumulator::<TileC>();
    println!("{}", sums.layout());
}
