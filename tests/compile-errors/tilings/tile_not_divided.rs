use moye_device::atom::TiledMma;
use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::layout::layout;

const MMA: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((2, 2, 1)), [48, 32, 16]);

fn main() {
    println!("{}", MMA.tile_mnk());
}
