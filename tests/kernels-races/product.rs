//! Products by `wgmma`, whose operands lie in shared memory.

use crate::{raced, store};
use moye_device::arch::wgmma::{wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group};
use moye_device::arch::{fence_proxy_async_shared, sync_threads};
use moye_device::atom::wgmma::{SM90_64x8x16_F32F16F16_SS, SharedOperand, WgmmaAtom};
use moye_device::layout::{ComposedLayout, IntTuple, Major, SwizzleBytes, shared_memory_atom};

/// The atom of the products.
type Atom = SM90_64x8x16_F32F16F16_SS<false, false>;

/// Where B begins in shared memory.
const B: u32 = 2048;

/// A tile of 16 columns of 16-bit elements, K-major without a swizzle.
const fn tile(rows: i64) -> ComposedLayout {
    shared_memory_atom(Major::K, SwizzleBytes::None, 16).tile_to_shape(IntTuple::flat(&[rows, 16]))
}

/// Threads fill both operands.
#[inline(always)]
unsafe fn fill(s: u32, t: u32) {
    // SAFETY: the caller's contract: the block's shared memory has room for both.
    unsafe {
        for word in 0..4 {
            store(s + 4 * (128 * word + t), 0x3C00_3C00);
        }
        if t < 64 {
            store(s + B + 4 * t, 0x4000_4000);
        }
    }
}

/// The descriptors of A and B.
#[inline(always)]
fn descriptors(s: u32) -> (u64, u64) {
    let (a, b) = const { (SharedOperand::a::<Atom>(tile(64)), SharedOperand::b::<Atom>(tile(8))) };
    (a.descriptor(s, 0, 0), b.descriptor(s + B, 0, 0))
}

raced! {
    KERNELS, 128, 1;
    /// Threads fill the operands, with no fence between the proxies.
    operands_without_fence(t, s, _data, right) {
        fill(s, t);
        if right {
            fence_proxy_async_shared();
        }
        sync_threads();
        let (mut sums, (a, b)) = ([0.0_f32; 4], descriptors(s));
        wgmma_fence();
        Atom::mma(&mut sums, a, b, true); // operands_without_fence
        wgmma_commit_group();
        wgmma_wait_group::<0>();
        wgmma_fence_registers(&mut sums);
        sums[0].to_bits()
    }
    /// An operand is filled again while the product reads it.
    operand_refilled_too_early(t, s, _data, right) {
        fill(s, t);
        fence_proxy_async_shared();
        sync_threads();
        let (mut sums, (a, b)) = ([0.0_f32; 4], descriptors(s));
        wgmma_fence();
        Atom::mma(&mut sums, a, b, true);
        wgmma_commit_group();
        if right {
            wgmma_wait_group::<0>();
        }
        sync_threads();
        store(s + 4 * t, 0); // operand_refilled_too_early
        wgmma_wait_group::<0>();
        wgmma_fence_registers(&mut sums);
        sums[0].to_bits()
    }
    /// The warpgroup does not fence its registers before the product.
    registers_without_fence(t, s, _data, right) {
        fill(s, t);
        fence_proxy_async_shared();
        sync_threads();
        let (mut sums, (a, b)) = ([0.0_f32; 4], descriptors(s));
        if right {
            wgmma_fence();
        }
        Atom::mma(&mut sums, a, b, true); // registers_without_fence
        wgmma_commit_group();
        wgmma_wait_group::<0>();
        wgmma_fence_registers(&mut sums);
        sums[0].to_bits()
    }
}
