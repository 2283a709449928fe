//! The ladder, step 6: fragments with `ldmatrix`, and why its rows are swizzled
//! (`ops/matmul/ladder/tf32_ldmatrix.rs`).

use crate::support::{Fast, Product};
use moye::Device;
use moye::kernels::ladder::ladder_tf32_ldmatrix;
use moye::layout::{ComposedLayout, Swizzle, layout};
use moye_device::atom::copy::SM75_U32x4_LDSM_N;
use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;
use moye_device::atom::{TiledCopy, TiledMma, make_tiled_copy_a};

pub fn run(device: &Device) -> moye::Result<()> {
    // The copy is built from the product: each lane loads the registers that `mma.sync` needs.
    const MMA: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> = TiledMma::new(layout!((1, 1, 1)));
    const READ: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_a(&MMA);

    // Rows of A in shared memory, K contiguous, plain and with the halves of rows 4 to 7 swapped.
    let plain = ComposedLayout::plain(layout!((16, 8):(8, 1)));
    let swizzled = ComposedLayout::new(Swizzle::new(1, 2, 3), 0, layout!((16, 8):(8, 1)));
    for (name, tile) in [("plain", plain), ("swizzled", swizzled)] {
        println!("{name}: {} words of one bank at a time", READ.access_s(tile).conflict_degree());
    }

    let product = Product::<f32>::random(device, Fast::K, Fast::K);
    // A warp for each 16 x 8 tile of C.
    product.run(device, &ladder_tf32_ldmatrix, (16, 8), 32)
}
