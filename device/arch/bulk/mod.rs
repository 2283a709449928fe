//! Bulk copies and TMA: one thread moves bytes, or a box of a tensor, between global and shared
//! memory (sm_90, PTX 8.0).
//!
//! They use the async proxy (see [`fence_proxy_async`](super::fence_proxy_async)), and there are
//! two ways to wait for them:
//! - *loads* into shared memory complete on an mbarrier, which is first set to expect the bytes
//!   ([`mbarrier_arrive_expect_tx`](super::mbarrier_arrive_expect_tx));
//! - *stores* from shared memory form groups of the thread that issues them
//!   ([`bulk_commit_group`]), which waits until they have read their sources
//!   ([`bulk_wait_group_read`]) or are complete ([`bulk_wait_group`]).
//!
//! If a copy takes an `Option`, pass a constant (after inlining): it selects the form of the
//! instruction. `multicast` is a mask of blocks of the cluster: the copy writes the same offsets in
//! each, and completes on each block's mbarrier. `policy` is the L2 cache policy.
//!
//! A tensor copy moves a box with the tensor map's extents that starts at `start`, a coordinate for
//! each dimension, fastest first; the coordinate of dimension 0 is a multiple of 16 bytes, or the
//! instruction is illegal (observed with loads on an H200). Out of bounds elements are loaded as
//! zeros (or NaN), and not stored. A box that is loaded may start below 0; for stores and additions
//! see [`tensor_store`].

mod copy;
mod group;
mod prefetch;
mod tensor;

pub use copy::{BulkReduceAdd, bulk_copy_to_cluster, bulk_load, bulk_store};
pub use group::{bulk_commit_group, bulk_wait_group, bulk_wait_group_read};
pub use prefetch::{bulk_prefetch, prefetch_tensor_map, tensor_prefetch};
pub use tensor::{tensor_load, tensor_reduce_add, tensor_store};

use crate::tiling::TilingError;

/// Runs the macro for the rank of a tensor copy, with the text of its coordinates and their
/// operands.
#[cfg(target_arch = "nvptx64")]
macro_rules! each_rank {
    ($rank:expr, $copy:ident) => {
        match $rank {
            1 => $copy!("1d", "{c0}", c0 0),
            2 => $copy!("2d", "{c0}, {c1}", c0 0, c1 1),
            3 => $copy!("3d", "{c0}, {c1}, {c2}", c0 0, c1 1, c2 2),
            4 => $copy!("4d", "{c0}, {c1}, {c2}, {c3}", c0 0, c1 1, c2 2, c3 3),
            _ => $copy!("5d", "{c0}, {c1}, {c2}, {c3}, {c4}", c0 0, c1 1, c2 2, c3 3, c4 4),
        }
    };
}
#[cfg(target_arch = "nvptx64")]
use each_rank;

/// A coordinate, if the rank has it; the branches of other ranks are compiled too.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn coordinate<const R: usize>(start: [i32; R], dimension: usize) -> i32 {
    if dimension < R { start[dimension] } else { 0 }
}

/// A tensor has 1 to 5 dimensions.
const fn check_rank<const R: usize>() {
    if R < 1 || R > 5 {
        TilingError::of("a copy by a tensor map")
            .str("the box begins at ")
            .int(R as i64)
            .str(" coordinates; a tensor map has 1 to 5 dimensions")
            .raise();
    }
}
