//! The ladder, step 5: two tiles in shared memory, two steps in registers
//! (`ops/matmul/ladder/double_buffer.rs`).

use crate::support::{Fast, Product};
use moye::Device;
use moye::kernels::ladder::ladder_double_buffered;
use moye::layout::{ComposedLayout, layout};
use moye_device::atom::TiledCopy;
use moye_device::atom::copy::SM80_CP_ASYNC_CACHEALWAYS;

pub fn run(device: &Device) -> moye::Result<()> {
    // (BLK_M, BLK_K, PIPE): columns are 130 elements apart, so that each starts at a multiple of 8
    // bytes, as the copies require.
    let smem = layout!((128, 8, 2):(1, 130, 1040));
    const COPY: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u64>, f32> =
        TiledCopy::new(layout!((32, 8)), layout!((2, 1)));
    println!("a thread's part of both tiles, (CPY, CPY_M, CPY_K, PIPE): {}", COPY.partition_d(smem));
    println!("words of one bank at a time: {}", COPY.access_d(ComposedLayout::plain(smem)).conflict_degree());
    // With columns 129 apart, as in step 2, every second copy would be misaligned.
    let odd = ComposedLayout::plain(layout!((128, 8, 2):(1, 129, 1032)));
    println!("{}", COPY.try_access_d(odd).unwrap_err());

    let product = Product::<f32>::random(device, Fast::Mn, Fast::Mn);
    // A block of 256 threads for each 128 x 128 tile of C.
    product.run(device, &ladder_double_buffered, (128, 128), 256)
}
