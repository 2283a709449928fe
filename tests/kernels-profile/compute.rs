//! Barriers, instructions of a warp, special functions, conversions, and tensor cores.

use crate::{Smem, THREADS};
use moye_device::arch::{
    FULL_WARP, Word, Word128, ballot, block_idx, ex2_approx_f32, f32_to_f16, f32_to_i32_saturating,
    f32x2_to_bf16x2, fence_block, fence_gpu, lg2_approx_f32, match_any, mma, rcp_approx_f32, reduce_add,
    rsqrt_approx_f32, shared_base, shuffle_down, shuffle_xor, sqrt_approx_f32, sync_barrier, sync_threads,
    sync_warp, tanh_approx_f32, thread_idx, vote_all, vote_any,
};
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut, SharedArray};

profiled! {
    COMPUTATIONS:
    /// A reduction of a warp by shuffles, and a vote.
    shuffles(x, y, t, _s) {
        let mut sum = u32::load_global(x + 4 * u64::from(t));
        for mask in [16, 8, 4, 2, 1] {
            sum += shuffle_xor(FULL_WARP, sum, mask);
        }
        u32::store_global(y, sum ^ ballot(FULL_WARP, sum > 7))
    }
    /// A reduction of the block: by shuffles, through shared memory, by shuffles.
    block_reduction(x, y, t, s) {
        let mut sum = u32::load_global(x + 4 * u64::from(t));
        for delta in [16, 8, 4, 2, 1] {
            sum += shuffle_down(FULL_WARP, sum, delta);
        }
        if t.is_multiple_of(32) {
            u32::store_shared(s + t / 8, sum);
        }
        sync_threads();
        u32::store_global(y, u32::load_shared(s) + u32::load_shared(s + 4) + u32::load_shared(s + 8))
    }
    /// Votes, a match and a reduction of the warp.
    votes(x, y, t, _s) {
        let value = u32::load_global(x + 4 * u64::from(t));
        let votes = u32::from(vote_all(FULL_WARP, value > t)) + u32::from(vote_any(FULL_WARP, value + 3 > t));
        sync_warp(FULL_WARP);
        u32::store_global(y, votes ^ match_any(FULL_WARP, value ^ (t % 5)) ^ reduce_add(FULL_WARP, value ^ t))
    }
    /// Barriers of the two halves of the block, twice, and one of all threads.
    named_barriers(_x, y, t, s) {
        u32::store_shared(s + 4 * t, t);
        sync_barrier(1 + t / 64, 64);
        let value = u32::load_shared(s + 4 * (t ^ 1));
        sync_barrier(1 + t / 64, 64);
        u32::store_shared(s + 4 * t, value);
        sync_threads();
        u32::store_global(y, u32::load_shared(s + 4 * (t ^ 64)))
    }
    /// Fences of the GPU and of the block, each behind a store.
    fences(_x, y, t, s) {
        u32::store_global(y, t);
        fence_gpu();
        u32::store_shared(s + 4 * t, t);
        fence_block();
        u32::store_global(y, u32::load_shared(s + 4 * t));
        fence_gpu()
    }
    /// `ex2` and `rsqrt`.
    exponentials(x, y, t, _s) {
        let value = f32::from_bits(u32::load_global(x + 4 * u64::from(t)));
        u32::store_global(y, (ex2_approx_f32(value) + rsqrt_approx_f32(value + 2.0)).to_bits())
    }
    /// The other special functions.
    special_functions(x, y, t, _s) {
        let value = f32::from_bits(u32::load_global(x + 4 * u64::from(t))) + 2.0;
        let sum = rcp_approx_f32(value) + lg2_approx_f32(value) + sqrt_approx_f32(value) + tanh_approx_f32(value);
        u32::store_global(y, sum.to_bits())
    }
    /// Conversions of f32: packed to bf16, alone to f16, and to an integer.
    conversions(x, y, t, _s) {
        let value = f32::from_bits(u32::load_global(x + 4 * u64::from(t)));
        let pair = f32x2_to_bf16x2(value, value + 1.0).to_bits();
        let half = u32::from(f32_to_f16(value + 2.0).to_bits());
        u32::store_global(y, pair ^ half ^ f32_to_i32_saturating(value + 3.0) as u32)
    }
    /// A product of tensor cores.
    tensor_core(x, y, t, _s) {
        let a = Word128::load_global(x + 16 * u64::from(t)).0;
        let d = mma::mma_m16n8k16_f32_bf16_bf16_f32(a, [a[0], a[1]], [0.0; 4]);
        u32::store_global(y, (d[0] + d[3]).to_bits())
    }
    /// Products of tf32 and of 8-bit integers.
    tensor_core_types(x, y, t, _s) {
        let a = Word128::load_global(x + 16 * u64::from(t)).0;
        let single = mma::mma_m16n8k8_f32_tf32_tf32_f32(a, [a[0], a[1]], [0.0; 4]);
        let integer = mma::mma_m16n8k32_s32_s8_s8_s32(a, [a[2], a[3]], [0; 4]);
        u32::store_global(y, (single[0] + single[3]).to_bits() ^ (integer[0] ^ integer[3]) as u32)
    }
}
