//! Step 2 of the ladder with bank conflicts in a tile of A: rows of 8 elements, K contiguous.

use moye_device::prelude::*;

static_layout! {
    Smem = layout!((128, 8):(8, 1));
}
tiled_mma! {
    Mma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((32, 8, 1)));
}

const _: () = Mma::MMA.access::<f32>(Operand::A, Smem::COMPOSED).expect_conflict_free();

fn main() {}
