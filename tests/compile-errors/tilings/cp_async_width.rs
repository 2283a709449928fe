//! `cp.async.cg` moves 16 bytes, and no fewer.

use moye_device::atom::TiledCopy;
use moye_device::atom::copy::SM80_CP_ASYNC_CACHEGLOBAL;
use moye_device::layout::layout;

const COPY: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((2, 1)));

fn main() {
    println!("{}", COPY.tile());
}
