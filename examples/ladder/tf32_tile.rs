//! The ladder, step 6: one tile on tensor cores (`ops/matmul/ladder/tf32_tile.rs`).

use crate::support::{Fast, Product};
use moye::Device;
use moye::kernels::ladder::ladder_tf32_tile;
use moye::layout::layout;
use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;
use moye_device::atom::{Operand, TiledMma};

pub fn run(device: &Device) -> moye::Result<()> {
    // The kernel of step 4 with a different tiled MMA.
    const MMA: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> = TiledMma::new(layout!((1, 1, 1)));
    println!("{} threads multiply {}", MMA.threads(), MMA.tile_mnk());
    // (thread, value) to the element: which of A's 16 x 8 elements lane 5 holds.
    let of_a = MMA.layout_tv(Operand::A);
    for value in 0..4 {
        let element = of_a.at(5 + 32 * value);
        println!("lane 5, value {value}: A({}, {})", element % 16, element / 16);
    }

    let product = Product::<f32>::random(device, Fast::Mn, Fast::K);
    // A warp for each 16 x 8 tile of C.
    product.run(device, &ladder_tf32_tile, (16, 8), 32)
}
