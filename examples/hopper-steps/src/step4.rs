//! Step 4: a persistent grid. As many blocks as multiprocessors have one tile after the other, in an order that the L2 cache
//! likes; the stages of the next tile are loaded while this one is written.

use crate::rows::store_rows;
use crate::step3::{A, Atom, B, BLK_M, BLK_N, LOAD_A, LOAD_B, STAGES};
use crate::tile::{BLK_K, Bytes};
use crate::tiles::{BAND, Tiles};
use half::bf16;
use moye_device::arch::wgmma::{wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group};
use moye_device::arch::{
    FULL_WARP, block_idx, decrease_registers, grid_dim, increase_registers, shuffle, sync_threads, thread_idx,
};
use moye_device::atom::wgmma::WgmmaAtom;
use moye_device::kernel;
use moye_device::memory::{GlobalMut, SharedStorage, TensorMap};
use moye_device::pipeline::{PipelineStorage, Warps};

type Smem = (
    Bytes<{ STAGES * LOAD_A.bytes() }>,
    Bytes<{ STAGES * LOAD_B.bytes() }>,
    PipelineStorage<STAGES, Warps<8>>,
);

/// A grid of any number of blocks.
///
/// # Safety
/// The maps are of matrices (M, K) and (N, K) in memory of the device, by step 3's boxes; `c` has `m * n` elements.
#[kernel(threads = 384, min_blocks = 1, shared = Smem)]
pub unsafe fn step4(a: TensorMap, b: TensorMap, c: GlobalMut<bf16>, m: u32, n: u32, k: u32) {
    let thread = thread_idx().x;
    // The same in all lanes, and the compiler is to know it.
    let warpgroup = shuffle(FULL_WARP, thread / 128, 0);
    let tiles = Tiles::new((block_idx().x, grid_dim().x), (m / BLK_M, n / BLK_N), BAND);
    // SAFETY: the kernel declares its storage; the pipeline says who may touch a stage.
    unsafe {
        let (s_a, s_b, pipeline) = Smem::take();
        if thread == 0 {
            pipeline.init();
        }
        sync_threads();

        if warpgroup == 2 {
            decrease_registers::<40>();
            if thread == 256 {
                let mut producer = pipeline.producer();
                for (m, n) in tiles {
                    let (row, column) = (m * BLK_M, n * BLK_N);
                    for stage in 0..k / BLK_K {
                        let k = (stage * BLK_K) as i32;
                        let filling = producer.acquire(LOAD_A.bytes() + LOAD_B.bytes());
                        let (index, barrier) = (filling.index(), filling.barrier());
                        let (s_a, s_b) = (s_a + index * LOAD_A.bytes(), s_b + index * LOAD_B.bytes());
                        LOAD_A.load(s_a, a.pointer(), [row as i32, k], barrier, None, None);
                        LOAD_B.load(s_b, b.pointer(), [column as i32, k], barrier, None, None);
                    }
                }
            }
        } else {
            increase_registers::<232>();
            let s_a = s_a + warpgroup * A.offset_mn(1);
            let mut consumer = pipeline.consumer();
            let mut sums = [0.0; 128];
            for (m, n_tile) in tiles {
                let mut before = None;
                for stage in 0..k / BLK_K {
                    let full = consumer.wait();
                    let (s_a, s_b) =
                        (s_a + full.index() * LOAD_A.bytes(), s_b + full.index() * LOAD_B.bytes());
                    wgmma_fence();
                    for k in 0..A.blocks_k() {
                        let (a, b) = (A.descriptor(s_a, 0, k), B.descriptor(s_b, 0, k));
                        Atom::mma(&mut sums, a, b, stage > 0 || k > 0);
                    }
                    wgmma_commit_group();
                    // When only this stage's instructions run, the one before has been read.
                    wgmma_wait_group::<1>();
                    if let Some(before) = before.replace(full) {
                        consumer.release(before);
                    }
                }
                wgmma_wait_group::<0>();
                if let Some(before) = before {
                    consumer.release(before);
                }
                wgmma_fence_registers(&mut sums);
                store_rows(&sums, c, n, (m * BLK_M + 64 * warpgroup, n_tile * BLK_N));
            }
        }
    }
}
