//! Step 3 of the ladder, but two of four neighbours at a time: requests use half of their sectors.

use moye_device::prelude::*;

tiled_copy! {
    Load: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
}

const _: () = Load::COPY.access_s(ComposedLayout::plain(layout!((128, 8):(1, 4096)))).expect_coalesced();

fn main() {}
