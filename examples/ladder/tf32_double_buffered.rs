//! The ladder, step 6: the double buffer of step 5 on tensor cores
//! (`ops/matmul/ladder/tf32_nn.rs` and `tf32_tn.rs`).

use crate::support::{Fast, Product};
use moye::Device;
use moye::kernels::ladder::{ladder_tf32_nn, ladder_tf32_tn};
use moye::layout::layout;
use moye_device::atom::TiledMma;
use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;

pub fn run(device: &Device) -> moye::Result<()> {
    // Four warps, two by two. In a 32 x 32 tile each computes two adjacent atoms along N:
    // as many as one `ldmatrix` of four matrices fills.
    const MMA: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> =
        TiledMma::tiled(layout!((2, 2, 1):(2, 1, 1)), [32, 32, 8]);
    println!("{} threads multiply {}", MMA.threads(), MMA.tile_mnk());
    println!("a thread's part of C, (MMA, MMA_M, MMA_N): {}", MMA.partition_c(layout!((128, 128))).shape());

    // M is A's fast axis, or K is: the second kernel reads both operands by `ldmatrix`.
    for (step, a_fast) in [(ladder_tf32_nn, Fast::Mn), (ladder_tf32_tn, Fast::K)] {
        let product = Product::<f32>::random(device, a_fast, Fast::K);
        // A block of 128 threads for each 128 x 128 tile of C.
        product.run(device, &step, (128, 128), 128)?;
    }
    Ok(())
}
