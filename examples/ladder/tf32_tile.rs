//! The ladder, step 6: one tile on tensor cores (`device/kernels/ladder/tf32_tile.rs`).

mod support;

use moye::kernels::ladder::ladder_tf32_tile;
use moye::layout::layout;
use moye::{Device, Grid};
use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;
use moye_device::atom::{Operand, TiledMma};
use support::{Fast, Product};

fn main() -> moye::Result<()> {
    // The kernel is step 4's with another tiled MMA.
    const MMA: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> = TiledMma::new(layout!((1, 1, 1)));
    println!("{} threads multiply {}", MMA.threads(), MMA.tile_mnk());
    // (thread, value) to the element: which of A's 16 x 8 elements lane 5 holds.
    let of_a = MMA.layout_tv(Operand::A);
    for value in 0..4 {
        let element = of_a.at(5 + 32 * value);
        println!("lane 5, value {value}: A({}, {})", element % 16, element / 16);
    }

    let device = Device::open()?;
    let product = Product::<f32>::random(&device, Fast::Mn, Fast::K);
    let ((m, n, k), (lda, ldb, ldc)) = (product.extents, product.leading);
    let (a, b) = (device.upload(&product.a)?, device.upload(&product.b)?);
    let mut c = device.upload(&vec![f32::NAN; product.c.len()])?;
    // One warp for each 16 x 8 tile of C.
    let grid = Grid::new((m.div_ceil(16), n.div_ceil(8)), 32);
    product.time(&device, ladder_tf32_tile.name(), || {
        // SAFETY: the buffers contain the matrices with these extents and leading dimensions.
        unsafe { device.launch(&ladder_tf32_tile, grid, (&a, &b, &mut c, m, n, k, lda, ldb, ldc)) }
    })?;
    assert!(c.download()? == product.c, "a result that differs from float64");
    Ok(())
}
