//! Step 6: clusters. Two blocks whose tiles are one above the other need the same tile of B: each loads half of it, for both.

use crate::boxes::{STORE_C, store_boxes};
use crate::step3::{A, Atom, B, BLK_M, BLK_N, LOAD_A, STAGES};
use crate::tile::{BLK_K, Bytes, rows_of_128_bytes};
use crate::tiles::{BAND, Tiles};
use moye_device::arch::wgmma::{wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group};
use moye_device::arch::{
    FULL_WARP, block_idx, bulk_wait_group_read, cluster_rank, decrease_registers, grid_dim,
    increase_registers, shuffle, sync_cluster, thread_idx,
};
use moye_device::atom::tma::TmaTile;
use moye_device::atom::wgmma::WgmmaAtom;
use moye_device::kernel;
use moye_device::memory::{SharedStorage, TensorMap};
use moye_device::pipeline::{PipelineStorage, Warps};

/// Blocks of a cluster, along M.
pub const CLUSTER: u32 = 2;
/// Of B, what one of the two blocks loads.
pub const LOAD_B: TmaTile = TmaTile::new(rows_of_128_bytes(BLK_N / CLUSTER), 16);
const BYTES_B: u32 = CLUSTER * LOAD_B.bytes();

type Smem = (
    Bytes<{ STAGES * LOAD_A.bytes() }>,
    Bytes<{ STAGES * BYTES_B }>,
    Bytes<{ 4 * STORE_C.bytes() }>,
    PipelineStorage<STAGES, Warps<8>, CLUSTER>,
);

/// A grid of any number of blocks, in clusters of two.
///
/// # Safety
/// The maps are of matrices (M, K) and (N, K) in memory of the device, A by step 3's boxes, B by [`LOAD_B`]; `c` is one of (M,
/// N), by [`STORE_C`].
#[kernel(threads = 384, min_blocks = 1, shared = Smem)]
pub unsafe fn step6(a: TensorMap, b: TensorMap, c: TensorMap, m: u32, n: u32, k: u32) {
    let thread = thread_idx().x;
    // The same in all lanes, and the compiler is to know it.
    let warpgroup = shuffle(FULL_WARP, thread / 128, 0);
    let rank = cluster_rank();
    // Those of the cluster: pairs of tiles one above the other.
    let cluster = (block_idx().x / CLUSTER, grid_dim().x / CLUSTER);
    let tiles = Tiles::new(cluster, (m / BLK_M / CLUSTER, n / BLK_N), BAND / CLUSTER);
    // SAFETY: the kernel declares its storage; the pipeline says who may touch a stage.
    unsafe {
        let (s_a, s_b, s_c, pipeline) = Smem::take();
        if thread == 0 {
            pipeline.init();
        }
        sync_cluster();

        if warpgroup == 2 {
            decrease_registers::<40>();
            if thread == 256 {
                let mut producer = pipeline.producer();
                for (m, n) in tiles {
                    let row = (CLUSTER * m + rank) * BLK_M;
                    let column = n * BLK_N + rank * (BLK_N / CLUSTER);
                    for stage in 0..k / BLK_K {
                        let k = (stage * BLK_K) as i32;
                        let filling = producer.acquire(LOAD_A.bytes() + BYTES_B);
                        let (index, barrier) = (filling.index(), filling.barrier());
                        let s_b = s_b + index * BYTES_B + rank * LOAD_B.bytes();
                        let s_a = s_a + index * LOAD_A.bytes();
                        LOAD_A.load(s_a, a.pointer(), [row as i32, k], barrier, None, None);
                        LOAD_B.load(s_b, b.pointer(), [column as i32, k], barrier, Some(0b11), None);
                    }
                }
                // The other block arrives at this one's barriers until it has read its last stage.
                producer.drain();
            }
        } else {
            increase_registers::<232>();
            let (s_a, s_c) = (s_a + warpgroup * A.offset_mn(1), s_c + warpgroup * 2 * STORE_C.bytes());
            let mut consumer = pipeline.consumer();
            let mut sums = [0.0; 128];
            for (m, n) in tiles {
                let mut before = None;
                for stage in 0..k / BLK_K {
                    let full = consumer.wait();
                    let (s_a, s_b) = (s_a + full.index() * LOAD_A.bytes(), s_b + full.index() * BYTES_B);
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
                let row = (CLUSTER * m + rank) * BLK_M + 64 * warpgroup;
                store_boxes(&sums, c.pointer(), s_c, (row, n * BLK_N));
            }
            // The block's shared memory is there until all of it is read.
            bulk_wait_group_read::<0>();
        }
    }
}
