//! The ladder, step 2: a `TiledCopy` and a `TiledMma` define which thread copies and multiplies
//! which elements (`ops/matmul/ladder/tiled.rs`).

use crate::support::{Fast, Product};
use moye::Device;
use moye::kernels::ladder::ladder_tiled;
use moye::layout::layout;
use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::mma::UniversalFma;
use moye_device::atom::{TiledCopy, TiledMma};

pub fn run(device: &Device) -> moye::Result<()> {
    // 256 threads copy a 128 x 8 tile: the threads cover 32 x 8 of it, so each copies 4 elements.
    const COPY: TiledCopy<UniversalCopy<f32>, f32> = TiledCopy::new(layout!((32, 8)), layout!((1, 1)));
    println!("a thread's part of a tile of A, (CPY, CPY_M, CPY_K): {}", COPY.partition_s(layout!((128, 8))));

    // The same 256 threads multiply: each computes 4 x 16 of the 128 x 128 elements of C.
    const MMA: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((32, 8, 1)));
    println!("a thread's part of a tile of C, (MMA, MMA_M, MMA_N): {}", MMA.partition_c(layout!((128, 128))));

    let product = Product::<f32>::random(device, Fast::Mn, Fast::Mn);
    // A block of 256 threads for each 128 x 128 tile of C.
    product.run(device, &ladder_tiled, (128, 128), 256)
}
