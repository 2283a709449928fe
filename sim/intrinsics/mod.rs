//! The functions that a simulated thread may call: one per GPU instruction.
//!
//! A function called outside a launch panics. A function that can fault is `#[track_caller]`, so
//! the fault names the line that called it; a wrapper that is also `#[track_caller]` passes on the
//! line of its caller.
//!
//! In a thread that already unwinds, from a panic or a fault, accesses that would fault do nothing
//! (loads return all bits set) and nothing waits, so destructors may call anything.

mod atomic;
mod barrier;
mod bulk;
mod cluster;
mod convert;
mod count;
mod cp_async;
mod fma;
mod global;
mod index;
mod matching;
mod matrix;
mod mbarrier;
mod registers;
mod shared;
mod special;
mod warp;
mod wgmma;

pub use crate::block::{ExitedLanes, warp_collective};
pub use crate::mma::{MMA_WORDS, Mma, MmaOperand, MmaResult, MmaSum, MmaTables};
pub use crate::tensor_map::{TENSOR_MAP_BYTES, TensorElement};
pub use crate::wgmma::{DescriptorSwizzle, MatrixDescriptor, Wgmma, WgmmaA, WgmmaNumber, WgmmaResult};
pub use atomic::{
    AtomicInteger, AtomicNumber, AtomicSpace, atomic_add, atomic_and, atomic_compare_exchange,
    atomic_exchange, atomic_max, atomic_min, atomic_or, atomic_update, atomic_update_of_block, atomic_xor,
    fence, fence_block, fence_cluster, reduce_update,
};
pub use barrier::{barrier_arrive, barrier_sync, sync_threads, wait_until};
pub use bulk::{
    bulk_commit, bulk_copy_to_cluster, bulk_load, bulk_prefetch, bulk_reduce_add, bulk_store,
    bulk_wait_group, bulk_wait_group_read, fence_proxy_async, fence_proxy_async_global,
    fence_proxy_async_shared, tensor_load, tensor_prefetch, tensor_reduce_add, tensor_store,
};
pub use cluster::{
    cluster_arrive, cluster_arrive_relaxed, cluster_block_idx, cluster_dim, cluster_rank, cluster_size,
    cluster_wait, load_shared_cluster, map_shared, store_async, store_shared_cluster,
};
pub use convert::{
    Rounding, add_f16, cvt_f32_f16, cvt_rn_bf16, cvt_rn_f16, cvt_rn_relu_bf16, cvt_rn_relu_f16,
    cvt_rni_sat_s8, cvt_rni_sat_s32, cvt_rni_sat_u8, cvt_rni_sat_u32, cvt_tf32, fma_bf16, fma_f16,
    fma_relu_bf16, fma_relu_f16, max_bf16, max_f16, min_bf16, min_f16, mul_f16, sub_f16,
};
pub use count::count_instruction;
pub use cp_async::{cp_async, cp_async_commit, cp_async_wait_all, cp_async_wait_group};
pub use fma::{fma_f32, fma_f64};
pub use global::{
    launch_dependents, load_global, load_global_read_only, store_global, wait_flag, wait_for_prior_launch,
};
pub use index::{
    block_dim, block_idx, dynamic_shared_bytes, grid_dim, lane_id, shared_base, thread_idx, warp_id,
};
pub use matching::{match_all, match_any_u64};
pub use matrix::{ldmatrix, movmatrix_transposed, stmatrix};
pub use mbarrier::{
    cp_async_mbarrier_arrive, mbarrier_arrive, mbarrier_arrive_cluster, mbarrier_arrive_expect_tx,
    mbarrier_expect_tx, mbarrier_init, mbarrier_inval, mbarrier_test_wait, mbarrier_test_wait_parity,
    mbarrier_wait, mbarrier_wait_parity,
};
pub use registers::{REGISTER_BYTES, give_registers, take_registers, unwritten_register};
pub use shared::{load_shared, store_shared};
pub use special::{exp2_f32, log2_f32, rsqrt_f32, sqrt_f32, tanh_f32};
pub use warp::{
    ReduceNumber, ShuffleMode, active_lanes, elect, match_any, reduce_add, reduce_and, reduce_max,
    reduce_min, reduce_or, reduce_xor, shfl, shfl_clamped, sync_warp, vote_all, vote_any, vote_ballot,
};
pub use wgmma::{wgmma, wgmma_commit_group, wgmma_fence, wgmma_take_results, wgmma_wait_group};
