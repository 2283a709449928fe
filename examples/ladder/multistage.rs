//! The ladder, step 7: a ring of swizzled stages in shared memory, and C through shared memory
//! (`device/collective/multistage.rs`, as `ops/matmul/kernels/mma/f16.rs` configures it).

use crate::support::{Fast, Product};
use half::f16;
use moye::kernels::mma::{Arguments, matmul_f16_tn};
use moye::layout::{ComposedLayout, Swizzle, layout};
use moye::{Device, Global, GlobalMut, Grid};
use moye_device::atom::copy::SM75_U32x4_LDSM_N;
use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::atom::{TiledCopy, TiledMma, make_tiled_copy_a};

pub fn run(device: &Device) -> moye::Result<()> {
    // Eight warps, 4 x 2. Rows of 64 elements all begin in one bank, unless they are swizzled.
    const MMA: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((4, 2, 1)), [64, 32, 16]);
    const READ: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_a(&MMA);
    for swizzle in [Swizzle::NONE, Swizzle::new(3, 3, 3)] {
        let rows = ComposedLayout::new(swizzle, 0, layout!((256, 64):(64, 1)));
        println!("{swizzle}: `ldmatrix` reads {} words of a bank", READ.access_s(rows).conflict_degree());
    }

    let product = Product::<f16>::random(device, Fast::K, Fast::K);
    let ((m, n, k), (lda, ldb, ldc)) = (product.extents, product.leading);
    let (a, b) = (device.upload(&product.a)?, device.upload(&product.b)?);
    let c = device.upload(&vec![f16::NAN; product.c.len()])?;
    // In the kernel N is C's contiguous mode, and here M: it computes C's transpose, `b * a`.
    let (a, b) = (Global::from_address(a.address()), Global::from_address(b.address()));
    let pointers = (b, a, GlobalMut::from_address(c.address()));
    let arguments = Arguments::product(pointers, (n, m, k), (ldb, lda, ldc));
    let grid = Grid::new(n.div_ceil(256) * m.div_ceil(128), 256); // A block for each tile, all along x.
    product.time(device, matmul_f16_tn.name(), || {
        // SAFETY: the buffers hold the matrices with these extents and leading dimensions.
        unsafe { device.launch(&matmul_f16_tn, grid, (arguments,)) }
    })?;
    assert!(c.download()? == product.c, "a result that differs from float64");
    Ok(())
}
