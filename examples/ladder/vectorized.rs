//! The ladder, step 3: copies of 64 and 128 bits, and how to see that they are coalesced
//! (`device/kernels/ladder/vectorized.rs`).

mod support;

use moye::kernels::ladder::{ladder_vectorized_64, ladder_vectorized_128};
use moye::layout::{ComposedLayout, layout};
use moye_device::atom::TiledCopy;
use moye_device::atom::copy::UniversalCopy;
use support::{Block, Fast, run};

fn main() -> moye::Result<()> {
    // Two neighbours a thread in one access, four in one, and four in two.
    const BY_64: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((2, 1)));
    const BY_128: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
    const TORN: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
    // A tile of a large matrix whose M is fast.
    let tile = ComposedLayout::plain(layout!((128, 8):(1, 4096)));
    for (name, access) in [
        ("64 bits", BY_64.access_s(tile)),
        ("128 bits", BY_128.access_s(tile)),
        ("2 x 64 bits", TORN.access_s(tile)),
    ] {
        println!(
            "{name}: {} requests move {} sectors; {} would be enough",
            access.requests, access.sectors, access.fewest_sectors
        );
    }

    for step in [ladder_vectorized_64, ladder_vectorized_128] {
        run(&step, Block { tile: (128, 128), threads: 256 }, Fast::Mn, Fast::Mn)?;
    }
    Ok(())
}
