//! The ladder, step 5: two tiles in shared memory, two steps in registers
//! (`device/kernels/ladder/double_buffer.rs`).

mod support;

use moye::kernels::ladder::ladder_double_buffered;
use moye::layout::{ComposedLayout, layout};
use moye_device::atom::TiledCopy;
use moye_device::atom::copy::SM80_CP_ASYNC_CACHEALWAYS;
use support::{Block, Fast, run};

fn main() -> moye::Result<()> {
    // (BLK_M, BLK_K, PIPE): columns are 130 elements apart, so that each starts at a multiple of 8
    // bytes, as the copies want.
    let smem = layout!((128, 8, 2):(1, 130, 1040));
    const COPY: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u64>, f32> =
        TiledCopy::new(layout!((32, 8)), layout!((2, 1)));
    println!("a thread's part of both tiles, (CPY, CPY_M, CPY_K, PIPE): {}", COPY.partition_d(smem));
    println!("words of one bank at a time: {}", COPY.access_d(ComposedLayout::plain(smem)).conflict_degree());
    // With columns 129 apart, as in step 2, every second copy would be misaligned.
    let odd = ComposedLayout::plain(layout!((128, 8, 2):(1, 129, 1032)));
    println!("{}", COPY.try_access_d(odd).unwrap_err());

    run(&ladder_double_buffered, Block { tile: (128, 128), threads: 256 }, Fast::Mn, Fast::Mn)
}
