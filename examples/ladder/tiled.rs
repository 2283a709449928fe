//! The ladder, step 2: a `TiledCopy` and a `TiledMma` define which thread copies and multiplies
//! which elements (`device/kernels/ladder/tiled.rs`).

mod support;

use moye::kernels::ladder::ladder_tiled;
use moye::layout::layout;
use moye::{Device, Grid};
use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::mma::UniversalFma;
use moye_device::atom::{TiledCopy, TiledMma};
use support::{Fast, Product};

fn main() -> moye::Result<()> {
    // 256 threads copy a 128 x 8 tile: the threads cover 32 x 8 of it, so each copies 4 elements.
    const COPY: TiledCopy<UniversalCopy<f32>, f32> = TiledCopy::new(layout!((32, 8)), layout!((1, 1)));
    println!("a thread's part of a tile of A, (CPY, CPY_M, CPY_K): {}", COPY.partition_s(layout!((128, 8))));

    // The same 256 threads multiply: each computes 4 x 16 of the 128 x 128 elements of C.
    const MMA: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((32, 8, 1)));
    println!("a thread's part of a tile of C, (MMA, MMA_M, MMA_N): {}", MMA.partition_c(layout!((128, 128))));

    let device = Device::open()?;
    let product = Product::<f32>::random(&device, Fast::Mn, Fast::Mn);
    let ((m, n, k), (lda, ldb, ldc)) = (product.extents, product.leading);
    let (a, b) = (device.upload(&product.a)?, device.upload(&product.b)?);
    let mut c = device.upload(&vec![f32::NAN; product.c.len()])?;
    // One block of 256 threads for each 128 x 128 tile of C.
    let grid = Grid::new((m.div_ceil(128), n.div_ceil(128)), 256);
    product.time(&device, ladder_tiled.name(), || {
        // SAFETY: the buffers contain the matrices with these extents and leading dimensions.
        unsafe { device.launch(&ladder_tiled, grid, (&a, &b, &mut c, m, n, k, lda, ldb, ldc)) }
    })?;
    assert!(c.download()? == product.c, "a result that differs from float64");
    Ok(())
}
