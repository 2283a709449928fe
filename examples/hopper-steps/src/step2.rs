//! Step 2: a ring of four stages between a warp that loads and a warpgroup that multiplies. Neither waits for the other as long
//! as the ring is neither full nor empty.

use crate::rows::store_rows;
use crate::step1::{A, Atom, B, BLK_M, BLK_N, LOAD_A, LOAD_B};
use crate::tile::{BLK_K, Bytes};
use half::bf16;
use moye_device::arch::wgmma::{wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group};
use moye_device::arch::{block_idx, sync_threads, thread_idx};
use moye_device::atom::wgmma::WgmmaAtom;
use moye_device::kernel;
use moye_device::memory::{GlobalMut, SharedStorage, TensorMap};
use moye_device::pipeline::{PipelineStorage, Warps};

/// Stages of the ring.
const STAGES: u32 = 4;
type Smem = (
    Bytes<{ STAGES * LOAD_A.bytes() }>,
    Bytes<{ STAGES * LOAD_B.bytes() }>,
    PipelineStorage<STAGES, Warps<4>>,
);

/// A grid of `(m / 128, n / 128)` blocks.
///
/// # Safety
/// The maps are of matrices (M, K) and (N, K) in memory of the device, by step 1's boxes; `c` has `m * n` elements.
#[kernel(threads = 160, shared = Smem)]
pub unsafe fn step2(a: TensorMap, b: TensorMap, c: GlobalMut<bf16>, n: u32, k: u32) {
    let thread = thread_idx().x;
    let (row, column) = (block_idx().x * BLK_M, block_idx().y * BLK_N);
    // SAFETY: the kernel declares its storage; the pipeline says who may touch a stage.
    unsafe {
        let (s_a, s_b, pipeline) = Smem::take();
        if thread == 0 {
            pipeline.init();
        }
        sync_threads();

        if thread == 128 {
            let mut producer = pipeline.producer();
            for stage in 0..k / BLK_K {
                let k = (stage * BLK_K) as i32;
                let filling = producer.acquire(LOAD_A.bytes() + LOAD_B.bytes());
                let (index, barrier) = (filling.index(), filling.barrier());
                let (s_a, s_b) = (s_a + index * LOAD_A.bytes(), s_b + index * LOAD_B.bytes());
                LOAD_A.load(s_a, a.pointer(), [row as i32, k], barrier, None, None);
                LOAD_B.load(s_b, b.pointer(), [column as i32, k], barrier, None, None);
            }
        } else if thread < 128 {
            let mut consumer = pipeline.consumer();
            let mut sums = [[0.0; 64]; 2];
            let mut before = None;
            for stage in 0..k / BLK_K {
                let full = consumer.wait();
                let (s_a, s_b) = (s_a + full.index() * LOAD_A.bytes(), s_b + full.index() * LOAD_B.bytes());
                wgmma_fence();
                for (m, sums) in sums.iter_mut().enumerate() {
                    for k in 0..A.blocks_k() {
                        let (a, b) = (A.descriptor(s_a, m, k), B.descriptor(s_b, 0, k));
                        Atom::mma(sums, a, b, stage > 0 || k > 0);
                    }
                }
                wgmma_commit_group();
                // When only this stage's instructions run, the one before has been read.
                wgmma_wait_group::<1>();
                if let Some(before) = before.replace(full) {
                    consumer.release(before);
                }
            }
            wgmma_wait_group::<0>();
            for (m, sums) in sums.iter_mut().enumerate() {
                wgmma_fence_registers(sums);
                store_rows(sums, c, n, (row + 64 * m as u32, column));
            }
        }
    }
}
