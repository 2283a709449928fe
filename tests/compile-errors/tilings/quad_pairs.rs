//! Three quad pairs fill no warp.

use moye_device::atom::TiledMma;
use moye_device::atom::mma::SM70_8x8x4_F32F16F16F32_TN;
use moye_device::layout::layout;

const MMA: TiledMma<SM70_8x8x4_F32F16F16F32_TN> = TiledMma::new(layout!((3, 1, 1)));

fn main() {
    println!("{}", MMA.tile_mnk());
}
