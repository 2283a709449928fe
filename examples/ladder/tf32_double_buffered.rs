//! The ladder, step 6: the double buffer of step 5 on tensor cores
//! (`device/kernels/ladder/tf32_nn.rs` and `tf32_tn.rs`).

mod support;

use moye::kernels::ladder::{ladder_tf32_nn, ladder_tf32_tn};
use moye::layout::layout;
use moye::{Device, Grid};
use moye_device::atom::TiledMma;
use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;
use support::{Fast, Product};

fn main() -> moye::Result<()> {
    // Four warps, two by two. The 32 x 32 tile gives each of them two adjacent atoms along N: as
    // many as one `ldmatrix` of four matrices fills.
    const MMA: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> =
        TiledMma::tiled(layout!((2, 2, 1):(2, 1, 1)), [32, 32, 8]);
    println!("{} threads multiply {}", MMA.threads(), MMA.tile_mnk());
    println!("a thread's part of C, (MMA, MMA_M, MMA_N): {}", MMA.partition_c(layout!((128, 128))).shape());

    let device = Device::open()?;
    // M is A's contiguous mode, or K is: the second kernel reads both operands with `ldmatrix`.
    for (step, a_fast) in [(ladder_tf32_nn, Fast::Mn), (ladder_tf32_tn, Fast::K)] {
        let product = Product::<f32>::random(&device, a_fast, Fast::K);
        let ((m, n, k), (lda, ldb, ldc)) = (product.extents, product.leading);
        let (a, b) = (device.upload(&product.a)?, device.upload(&product.b)?);
        let mut c = device.upload(&vec![f32::NAN; product.c.len()])?;
        // One block of 128 threads for each 128 x 128 tile of C.
        let grid = Grid::new((m.div_ceil(128), n.div_ceil(128)), 128);
        product.time(&device, step.name(), || {
            // SAFETY: the buffers contain the matrices with these extents and leading dimensions.
            unsafe { device.launch(&step, grid, (&a, &b, &mut c, m, n, k, lda, ldb, ldc)) }
        })?;
        assert!(c.download()? == product.c, "a result that differs from float64");
    }
    Ok(())
}
