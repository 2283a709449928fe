//! Step 3: tiles of 128 x 256. Two warpgroups multiply 64 x 256 each, with registers that the loading warpgroup gives away.

use crate::rows::store_rows;
use crate::tile::{BLK_K, Bytes, rows_of_128_bytes};
use half::bf16;
use moye_device::arch::wgmma::{wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group};
use moye_device::arch::{
    FULL_WARP, block_idx, decrease_registers, increase_registers, shuffle, sync_threads, thread_idx,
};
use moye_device::atom::tma::TmaTile;
use moye_device::atom::wgmma::{SM90_64x256x16_F32BF16BF16_SS, SharedOperand, WgmmaAtom};
use moye_device::kernel;
use moye_device::layout::ComposedLayout;
use moye_device::memory::{GlobalMut, SharedStorage, TensorMap};
use moye_device::pipeline::{PipelineStorage, Warps};

/// A block's tile of C.
pub const BLK_M: u32 = 128;
/// See [`BLK_M`].
pub const BLK_N: u32 = 256;
/// Stages of the ring.
pub const STAGES: u32 = 4;

/// The instruction.
pub type Atom = SM90_64x256x16_F32BF16BF16_SS;
const SMEM_A: ComposedLayout = rows_of_128_bytes(BLK_M);
const SMEM_B: ComposedLayout = rows_of_128_bytes(BLK_N);
/// The instruction's descriptors: one along M for each warpgroup, four along K.
pub const A: SharedOperand = SharedOperand::a::<Atom>(SMEM_A);
/// See [`A`].
pub const B: SharedOperand = SharedOperand::b::<Atom>(SMEM_B);
/// The boxes of a stage.
pub const LOAD_A: TmaTile = TmaTile::new(SMEM_A, 16);
/// See [`LOAD_A`].
pub const LOAD_B: TmaTile = TmaTile::new(SMEM_B, 16);

type Smem = (
    Bytes<{ STAGES * LOAD_A.bytes() }>,
    Bytes<{ STAGES * LOAD_B.bytes() }>,
    PipelineStorage<STAGES, Warps<8>>,
);

/// A grid of `(m / 128, n / 256)` blocks.
///
/// # Safety
/// The maps are of matrices (M, K) and (N, K) in memory of the device, by [`LOAD_A`] and [`LOAD_B`]; `c` has `m * n` elements.
#[kernel(threads = 384, min_blocks = 1, shared = Smem)]
pub unsafe fn step3(a: TensorMap, b: TensorMap, c: GlobalMut<bf16>, n: u32, k: u32) {
    let thread = thread_idx().x;
    // The same in all lanes, and the compiler is to know it.
    let warpgroup = shuffle(FULL_WARP, thread / 128, 0);
    let (row, column) = (block_idx().x * BLK_M, block_idx().y * BLK_N);
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
                for stage in 0..k / BLK_K {
                    let k = (stage * BLK_K) as i32;
                    let filling = producer.acquire(LOAD_A.bytes() + LOAD_B.bytes());
                    let (index, barrier) = (filling.index(), filling.barrier());
                    let (s_a, s_b) = (s_a + index * LOAD_A.bytes(), s_b + index * LOAD_B.bytes());
                    LOAD_A.load(s_a, a.pointer(), [row as i32, k], barrier, None, None);
                    LOAD_B.load(s_b, b.pointer(), [column as i32, k], barrier, None, None);
                }
            }
        } else {
            increase_registers::<232>();
            // This warpgroup's 64 rows.
            let (row, s_a) = (row + 64 * warpgroup, s_a + warpgroup * A.offset_mn(1));
            let mut consumer = pipeline.consumer();
            let mut sums = [0.0; 128];
            let mut before = None;
            for stage in 0..k / BLK_K {
                let full = consumer.wait();
                let (s_a, s_b) = (s_a + full.index() * LOAD_A.bytes(), s_b + full.index() * LOAD_B.bytes());
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
            wgmma_fence_registers(&mut sums);
            store_rows(&sums, c, n, (row, column));
        }
    }
}
