//! The ladder, step 4: `cp.async` fills shared memory for the next tile while the current one, in
//! fragments, is multiplied (`ops/matmul/ladder/overlapped.rs`).

use crate::support::{Fast, Product};
use moye::Device;
use moye::kernels::ladder::ladder_overlapped;
use moye::layout::layout;
use moye_device::atom::TiledMma;
use moye_device::atom::mma::UniversalFma;

pub fn run(device: &Device) -> moye::Result<()> {
    // The operands of a whole tile are in registers. Their number depends on how the threads
    // divide C.
    for atoms in [layout!((32, 8, 1)), layout!((16, 16, 1))] {
        let mma = TiledMma::<UniversalFma<f32>>::new(atoms);
        let (a, b) = (mma.partition_a(layout!((128, 8))), mma.partition_b(layout!((128, 8))));
        println!("threads {atoms}: {} registers of A, {} of B", a.size(), b.size());
    }

    let product = Product::<f32>::random(device, Fast::Mn, Fast::Mn);
    // A block of 256 threads for each 128 x 128 tile of C.
    product.run(device, &ladder_overlapped, (128, 128), 256)
}
