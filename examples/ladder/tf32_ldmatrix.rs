//! The ladder, step 6: fragments with `ldmatrix`, and why its rows are swizzled
//! (`device/kernels/ladder/tf32_ldmatrix.rs`).

mod support;

use moye::kernels::ladder::ladder_tf32_ldmatrix;
use moye::layout::{ComposedLayout, Swizzle, layout};
use moye::{Device, Grid};
use moye_device::atom::copy::SM75_U32x4_LDSM_N;
use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;
use moye_device::atom::{TiledCopy, TiledMma, make_tiled_copy_a};
use support::{Fast, Product};

fn main() -> moye::Result<()> {
    // The copy is derived from the tiled MMA: it loads the elements that `mma.sync` needs in each
    // lane.
    const MMA: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> = TiledMma::new(layout!((1, 1, 1)));
    const READ: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_a(&MMA);

    // Rows of A in shared memory, K contiguous, plain and with the halves of rows 4 to 7 swapped.
    let plain = ComposedLayout::plain(layout!((16, 8):(8, 1)));
    let swizzled = ComposedLayout::new(Swizzle::new(1, 2, 3), 0, layout!((16, 8):(8, 1)));
    for (name, tile) in [("plain", plain), ("swizzled", swizzled)] {
        println!("{name}: {} words of one bank at a time", READ.access_s(tile).conflict_degree());
    }

    let device = Device::open()?;
    let product = Product::<f32>::random(&device, Fast::K, Fast::K);
    let ((m, n, k), (lda, ldb, ldc)) = (product.extents, product.leading);
    let (a, b) = (device.upload(&product.a)?, device.upload(&product.b)?);
    let mut c = device.upload(&vec![f32::NAN; product.c.len()])?;
    // One warp for each 16 x 8 tile of C.
    let grid = Grid::new((m.div_ceil(16), n.div_ceil(8)), 32);
    product.time(&device, ladder_tf32_ldmatrix.name(), || {
        // SAFETY: the buffers contain the matrices with these extents and leading dimensions.
        unsafe { device.launch(&ladder_tf32_ldmatrix, grid, (&a, &b, &mut c, m, n, k, lda, ldb, ldc)) }
    })?;
    assert!(c.download()? == product.c, "a result that differs from float64");
    Ok(())
}
