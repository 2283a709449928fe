//! The ladder, step 3: copies of 64 and 128 bits, and how to check that they are coalesced
//! (`device/kernels/ladder/vectorized.rs`).

mod support;

use moye::kernels::ladder::{ladder_vectorized_64, ladder_vectorized_128};
use moye::layout::{ComposedLayout, layout};
use moye::{Device, Grid};
use moye_device::atom::TiledCopy;
use moye_device::atom::copy::UniversalCopy;
use support::{Fast, Product};

fn main() -> moye::Result<()> {
    // Two adjacent elements a thread in one access, and four in two.
    const BY_64: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((2, 1)));
    const TORN: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
    // A tile of a large matrix with M contiguous.
    let tile = ComposedLayout::plain(layout!((128, 8):(1, 4096)));
    for (name, access) in [("64 bits", BY_64.access_s(tile)), ("2 x 64 bits", TORN.access_s(tile))] {
        println!("{name}: {} sectors moved, {} would be enough", access.sectors, access.fewest_sectors);
    }

    let device = Device::open()?;
    let product = Product::<f32>::random(&device, Fast::Mn, Fast::Mn);
    let ((m, n, k), (lda, ldb, ldc)) = (product.extents, product.leading);
    let (a, b) = (device.upload(&product.a)?, device.upload(&product.b)?);
    // One block of 256 threads for each 128 x 128 tile of C.
    let grid = Grid::new((m.div_ceil(128), n.div_ceil(128)), 256);
    for step in [ladder_vectorized_64, ladder_vectorized_128] {
        let mut c = device.upload(&vec![f32::NAN; product.c.len()])?;
        product.time(&device, step.name(), || {
            // SAFETY: the buffers contain the matrices with these extents and leading dimensions.
            unsafe { device.launch(&step, grid, (&a, &b, &mut c, m, n, k, lda, ldb, ldc)) }
        })?;
        assert!(c.download()? == product.c, "a result that differs from float64");
    }
    Ok(())
}
