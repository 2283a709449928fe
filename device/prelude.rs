//! The usual imports of a kernel: `use moye_device::prelude::*;`.
//!
//! ```
//! # #![allow(non_snake_case)]
//! use moye_device::prelude::*;
//!
//! static_layout! { Threads = layout!((32, 8)); } // (THR_M, THR_N)
//!
//! /// `y = alpha x + y`, column-major, a block for each 32 x 32 elements.
//! ///
//! /// # Safety
//! /// `x` and `y` hold `m * n` elements each and do not overlap.
//! #[kernel(threads = 256)]
//! pub unsafe fn axpy(alpha: f32, x: Global<f32>, y: GlobalMut<f32>, m: u32, n: u32) {
//!     let (block, thread) = (block_idx(), thread_idx().x);
//!     let gX = tile!(tensor!(x, (m, n), (1, m)), (32, 32), (block.x, block.y)); // (BLK_M, BLK_N)
//!     let gY = tile!(tensor!(y, (m, n), (1, m)), (32, 32), (block.x, block.y)); // (BLK_M, BLK_N)
//!     let (tXgX, mut tXgY) = (partition!(gX, Threads, thread), partition!(gY, Threads, thread)); // (1, 4)
//!     axpby(alpha, &tXgX, 1.0, &mut tXgY);
//! }
//! # fn main() {}
//! ```

pub use crate::algorithm::{
    AddsInPlace, CopyAs, axpby, block_reduce, block_scan, clear, copy, copy_async, copy_elements_if, fill,
    gemm, quad_reduce, transform, warp_reduce, warp_scan, warp_scan_exclusive, warpgroup_reduce,
};
pub use crate::arch::{
    Convert, Dim3, FULL_WARP, Fma, block_dim, block_idx, bulk_commit_group, bulk_wait_group,
    bulk_wait_group_read, cluster_rank, cp_async_commit, cp_async_wait, decrease_registers,
    fence_mbarrier_init, fence_proxy_async_shared, grid_dim, increase_registers, lane_id, mbarrier_arrive,
    mbarrier_arrive_expect_tx, mbarrier_init, mbarrier_wait_parity, sync_cluster, sync_threads, sync_warp,
    thread_idx,
};
pub use crate::atom::copy::*;
pub use crate::atom::mma::*;
pub use crate::atom::tma::{TmaCopy, TmaMap, TmaTensor};
pub use crate::atom::wgmma::*;
pub use crate::atom::{
    AccumulatorOf, Operand, RetileOf, StaticTiledCopy, StaticTiledMma, ThrCopy, ThrMma, TiledCopy, TiledMma,
    make_tiled_copy_a, make_tiled_copy_b, make_tiled_copy_c,
};
pub use crate::collective::{Coordinate, Epilogue};
pub use crate::kernel;
pub use crate::kernel::KernelParam;
pub use crate::layout::{
    ComposedLayout, IntTuple, Layout, Major, Swizzle, SwizzleBytes, Tiler, shared_memory_atom,
};
pub use crate::math;
pub use crate::memory::{
    Element, Global, GlobalMut, GlobalPointer, GlobalPointerMut, SharedArray, SharedStorage, Storable,
    TensorMap,
};
pub use crate::pipeline::{
    Consumer, Pipeline, PipelineStorage, Producer, Readers, Role, RoleWithRegisters, Warps,
};
pub use crate::tensor::{
    Aligned, All, Dense, Fragment, GlobalArray, Matrix, One, OneStage, SharedTensor, StaticLayout, Step,
    Tensor, UnitStride, WholeTiles, X, identity_tensor,
};
pub use crate::{
    layout, named_barriers, partition, static_layout, swizzled_layout, tensor, tile, tiled_copy, tiled_mma,
    tiler, tuple, unroll,
};
pub use core::ops::{Add as _, Mul as _, Sub as _};
pub use half::{bf16, f16};
