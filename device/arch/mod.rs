//! One function for each PTX instruction, with its emulation in the simulator.
//!
//! This is the only module whose code differs on a GPU: every function has two bodies, the
//! instruction and its emulation. All other modules call only these functions. (Elsewhere a `cfg`
//! only omits host-only items: the typed values of kernels, the fields of tensor maps.)
//!
//! Two rules hold for the GPU bodies. Instructions that a warp executes together (barriers,
//! shuffles, votes) go through LLVM's intrinsics, because those are marked convergent and inline
//! assembly is not: the optimiser may copy an `asm!` into both arms of a branch. Everything else is
//! one `asm!` per instruction, because nothing else can name the shared address space or keep a
//! 16-byte access in one piece.
//!
//! A function is `unsafe` if it accesses memory by an address, or if it leaves registers undefined
//! when some lanes do not execute it (`mma`, `wgmma`, `movmatrix`, `setmaxnreg`). Barriers, fences,
//! commits and waits are safe: they access no memory that Rust manages. Wrong use of one hangs the
//! block or lets a thread continue too early, which is a fault in the simulator. The accesses that
//! depend on their order are `unsafe`, and state the order that they need.

mod atomic;
mod barrier;
mod bulk;
mod cache;
mod cluster;
mod convert;
mod cp_async;
mod dependent_launch;
mod dot;
mod elect;
mod fence;
mod flag;
mod fma;
mod half2;
mod index;
mod ldmatrix;
mod maximum;
mod mbarrier;
pub mod mma;
mod movmatrix;
mod mul_add;
mod opaque;
mod parameter;
mod prmt;
mod reduce;
mod register_count;
mod shared;
mod special;
mod stmatrix;
mod store_async;
pub(crate) mod target;
mod warp;
pub mod wgmma;
mod word;

pub use atomic::{AtomicAdd, AtomicAddOfBlock, AtomicExchange, AtomicInteger};
pub use barrier::{NamedBarrier, arrive_barrier, check_barrier, sync_barrier, sync_threads, sync_warp};
pub use bulk::{
    BulkReduceAdd, bulk_commit_group, bulk_copy_to_cluster, bulk_load, bulk_prefetch, bulk_store,
    bulk_wait_group, bulk_wait_group_read, prefetch_tensor_map, tensor_load, tensor_prefetch,
    tensor_reduce_add, tensor_store,
};
pub use cache::{
    CachePolicy, CachedAccess, Coherence, L2Evict, L2Prefetch, LoadCache, LoadHint, StoreCache, prefetch_l2,
};
pub use cluster::{
    ClusterWord, cluster_arrive, cluster_arrive_relaxed, cluster_block_idx, cluster_dim, cluster_rank,
    cluster_size, cluster_wait, map_shared, sync_cluster,
};
pub use convert::{
    Convert, bf16_to_f32, e4m3x2_to_f16x2, f16_to_f32, f32_to_bf16, f32_to_bf16_relu, f32_to_f16,
    f32_to_f16_relu, f32_to_i8_saturating, f32_to_i32_saturating, f32_to_tf32, f32_to_tf32_rn,
    f32_to_tf32_rn_relu, f32_to_tf32_rz, f32_to_u8_saturating, f32_to_u32_saturating, f32x2_to_bf16x2,
    f32x2_to_bf16x2_relu, f32x2_to_e4m3x2, f32x2_to_e5m2x2, f32x2_to_f16x2, f32x2_to_f16x2_relu,
    f32x4_to_e4m3x4, f32x4_to_e5m2x4,
};
pub use cp_async::{
    CpAsyncKind, CpAsyncSize, cp_async, cp_async_commit, cp_async_if, cp_async_plain, cp_async_wait,
    cp_async_wait_all, cp_async_zfill,
};
pub use dependent_launch::{
    launch_dependents, overlap_launches, overlap_next_launch, wait_for_prior_kernels,
};
pub use dot::{dp2a_lo_s32_s32, dp4a_s32_s32};
pub use elect::elect;
pub use fence::{
    fence_block, fence_cluster, fence_gpu, fence_mbarrier_init, fence_proxy_async, fence_proxy_async_global,
    fence_proxy_async_shared, fence_proxy_tensormap,
};
pub use flag::wait_flag;
pub use fma::Fma;
pub use half2::{Bf16x2, F16x2};
pub use index::{Dim3, block_dim, block_idx, grid_dim, lane_id, thread_idx};
pub use ldmatrix::{
    ldmatrix_x1, ldmatrix_x1_trans, ldmatrix_x2, ldmatrix_x2_trans, ldmatrix_x4, ldmatrix_x4_trans,
};
pub use maximum::{abs_f32, max_nan_f32, max3_i32};
pub use mbarrier::{
    cp_async_mbarrier_arrive, cp_async_mbarrier_arrive_noinc, mbarrier_arrive, mbarrier_arrive_cluster,
    mbarrier_arrive_cluster_relaxed, mbarrier_arrive_expect_tx, mbarrier_arrive_expect_tx_cluster,
    mbarrier_expect_tx, mbarrier_init, mbarrier_inval, mbarrier_test_wait, mbarrier_test_wait_parity,
    mbarrier_try_wait_parity, mbarrier_try_wait_parity_cluster, mbarrier_wait, mbarrier_wait_parity,
    mbarrier_wait_parity_cluster,
};
pub use movmatrix::movmatrix_trans;
pub use mul_add::MulAdd;
pub use opaque::opaque;
pub(crate) use parameter::parameter_address;
pub use prmt::prmt;
pub use reduce::{
    ReduceInteger, match_all, match_any, match_any_u64, reduce_add, reduce_and, reduce_max, reduce_min,
    reduce_or, reduce_xor,
};
pub use register_count::{decrease_registers, increase_registers};
pub use shared::shared_base;
pub use special::{
    ex2_approx_f32, lg2_approx_f32, rcp_approx_f32, rsqrt_approx_f32, sqrt_approx_f32, sqrt_rn_f32,
    tanh_approx_f32,
};
pub use stmatrix::{
    stmatrix_x1, stmatrix_x1_trans, stmatrix_x2, stmatrix_x2_trans, stmatrix_x4, stmatrix_x4_trans,
};
pub use store_async::AsyncWord;
pub(crate) use target::simulator_assert;
pub use warp::{
    FULL_WARP, Shuffle, ShuffleValue, ballot, shuffle, shuffle_down, shuffle_up, shuffle_xor, transpose_quad,
    vote_all, vote_any,
};
pub use word::{Word, Word64x2, Word128};
