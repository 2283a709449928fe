//! Step 1: TMA and `wgmma`, one after the other. A block of one warpgroup has a tile of 128 x 128: a stage is loaded, all wait,
//! it is multiplied, all wait.

use crate::rows::store_rows;
use crate::tile::{BLK_K, Bytes, rows_of_128_bytes};
use half::bf16;
use moye_device::arch::wgmma::{wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group};
use moye_device::arch::{
    block_idx, fence_mbarrier_init, mbarrier_arrive_expect_tx, mbarrier_init, mbarrier_wait_parity,
    sync_threads, thread_idx,
};
use moye_device::atom::tma::TmaTile;
use moye_device::atom::wgmma::{SM90_64x128x16_F32BF16BF16_SS, SharedOperand, WgmmaAtom};
use moye_device::kernel;
use moye_device::layout::ComposedLayout;
use moye_device::memory::{GlobalMut, SharedStorage, TensorMap};

/// A block's tile of C.
pub const BLK_M: u32 = 128;
/// See [`BLK_M`].
pub const BLK_N: u32 = 128;

/// The instruction.
pub type Atom = SM90_64x128x16_F32BF16BF16_SS;
const SMEM_A: ComposedLayout = rows_of_128_bytes(BLK_M);
const SMEM_B: ComposedLayout = rows_of_128_bytes(BLK_N);
/// The instruction's descriptors: two along M, four along K.
pub const A: SharedOperand = SharedOperand::a::<Atom>(SMEM_A);
/// See [`A`].
pub const B: SharedOperand = SharedOperand::b::<Atom>(SMEM_B);
/// The boxes of a stage, from the same layouts.
pub const LOAD_A: TmaTile = TmaTile::new(SMEM_A, 16);
/// See [`LOAD_A`].
pub const LOAD_B: TmaTile = TmaTile::new(SMEM_B, 16);

type Smem = (Bytes<{ LOAD_A.bytes() }>, Bytes<{ LOAD_B.bytes() }>, Bytes<8>);

/// A grid of `(m / 128, n / 128)` blocks.
///
/// # Safety
/// The maps are of matrices (M, K) and (N, K) in memory of the device, by [`LOAD_A`] and [`LOAD_B`]; `c` has `m * n` elements.
#[kernel(threads = 128, shared = Smem)]
pub unsafe fn step1(a: TensorMap, b: TensorMap, c: GlobalMut<bf16>, n: u32, k: u32) {
    let thread = thread_idx().x;
    let (row, column) = (block_idx().x * BLK_M, block_idx().y * BLK_N);
    // SAFETY: the kernel declares its storage; a stage is read when its bytes have come, and overwritten when all have read it.
    unsafe {
        let (s_a, s_b, full) = Smem::take();
        if thread == 0 {
            mbarrier_init(full, 1);
            fence_mbarrier_init();
        }
        sync_threads();

        let mut sums = [[0.0; 64]; 2];
        for stage in 0..k / BLK_K {
            if thread == 0 {
                let k = (stage * BLK_K) as i32;
                mbarrier_arrive_expect_tx(full, LOAD_A.bytes() + LOAD_B.bytes());
                LOAD_A.load(s_a, a.pointer(), [row as i32, k], full, None, None);
                LOAD_B.load(s_b, b.pointer(), [column as i32, k], full, None, None);
            }
            mbarrier_wait_parity(full, stage % 2);
            wgmma_fence();
            for (m, sums) in sums.iter_mut().enumerate() {
                for k in 0..A.blocks_k() {
                    let (a, b) = (A.descriptor(s_a, m, k), B.descriptor(s_b, 0, k));
                    Atom::mma(sums, a, b, stage > 0 || k > 0);
                }
            }
            wgmma_commit_group();
            wgmma_wait_group::<0>();
            sync_threads();
        }
        for (m, sums) in sums.iter_mut().enumerate() {
            wgmma_fence_registers(sums);
            store_rows(sums, c, n, (row + 64 * m as u32, column));
        }
    }
}
