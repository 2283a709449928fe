//! The ladder, step 4: `cp.async` fills shared memory for the next tile while the current one, in
//! fragments, is multiplied (`device/kernels/ladder/overlapped.rs`).

mod support;

use moye::kernels::ladder::ladder_overlapped;
use moye::layout::layout;
use moye::{Device, Grid};
use moye_device::atom::TiledMma;
use moye_device::atom::mma::UniversalFma;
use support::{Fast, Product};

fn main() -> moye::Result<()> {
    // The operands of a whole tile are in registers. Their number depends on how the threads divide
    // C.
    for atoms in [layout!((32, 8, 1)), layout!((16, 16, 1))] {
        let mma = TiledMma::<UniversalFma<f32>>::new(atoms);
        let (a, b) = (mma.partition_a(layout!((128, 8))), mma.partition_b(layout!((128, 8))));
        println!("threads {atoms}: {} registers of A, {} of B", a.size(), b.size());
    }

    let device = Device::open()?;
    let product = Product::<f32>::random(&device, Fast::Mn, Fast::Mn);
    let ((m, n, k), (lda, ldb, ldc)) = (product.extents, product.leading);
    let (a, b) = (device.upload(&product.a)?, device.upload(&product.b)?);
    let mut c = device.upload(&vec![f32::NAN; product.c.len()])?;
    // One block of 256 threads for each 128 x 128 tile of C.
    let grid = Grid::new((m.div_ceil(128), n.div_ceil(128)), 256);
    product.time(&device, ladder_overlapped.name(), || {
        // SAFETY: the buffers contain the matrices with these extents and leading dimensions.
        unsafe { device.launch(&ladder_overlapped, grid, (&a, &b, &mut c, m, n, k, lda, ldb, ldc)) }
    })?;
    assert!(c.download()? == product.c, "a result that differs from float64");
    Ok(())
}
