//! The ladder, step 3: copies of 64 and 128 bits, and how to check that they are coalesced
//! (`ops/matmul/ladder/vectorized.rs`).

use crate::support::{Fast, Product};
use moye::Device;
use moye::kernels::ladder::{ladder_vectorized_64, ladder_vectorized_128};
use moye::layout::{ComposedLayout, layout};
use moye_device::atom::TiledCopy;
use moye_device::atom::copy::UniversalCopy;

pub fn run(device: &Device) -> moye::Result<()> {
    // Two neighbours a thread in one access, and four in two.
    const BY_64: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((2, 1)));
    const TORN: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
    // A tile of a large matrix with M contiguous.
    let tile = ComposedLayout::plain(layout!((128, 8):(1, 4096)));
    for (name, access) in [("64 bits", BY_64.access_s(tile)), ("2 x 64 bits", TORN.access_s(tile))] {
        println!("{name}: {} sectors moved, {} would be enough", access.sectors, access.fewest_sectors);
    }

    let product = Product::<f32>::random(device, Fast::Mn, Fast::Mn);
    for step in [ladder_vectorized_64, ladder_vectorized_128] {
        product.run(device, &step, (128, 128), 256)?;
    }
    Ok(())
}
