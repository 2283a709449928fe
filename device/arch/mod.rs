//! One PTX instruction each, and what the simulator does for it.
//!
//! This is the only module that knows whether it is compiled for a GPU: every function has two bodies, the
//! instruction and its emulation, side by side. All that stands above calls these functions and nothing else.
//!
//! Two rules hold for the GPU bodies. Instructions that a warp executes together (barriers, shuffles, votes) go
//! through LLVM's intrinsics, because those are marked convergent and inline assembly is not: the optimiser may copy
//! an `asm!` into both arms of a branch. Everything else is one `asm!` per instruction, because there is no other way
//! to name the shared address space, nor to keep a 16-byte access in one piece.

mod barrier;
mod cp_async;
mod dot;
mod fma;
mod index;
pub mod mma;
mod shared;
mod warp;
mod word;

pub use barrier::{sync_threads, sync_warp};
pub use cp_async::{CpAsyncSize, cp_async, cp_async_commit, cp_async_wait, cp_async_wait_all};
pub use dot::{dp2a_lo_s32_s32, dp4a_s32_s32};
pub use fma::Fma;
pub use index::{Dim3, block_dim, block_idx, grid_dim, lane_id, thread_idx};
pub use shared::shared_base;
pub use warp::{
    FULL_WARP, ShuffleValue, ballot, shuffle, shuffle_down, shuffle_up, shuffle_xor, vote_all, vote_any,
};
pub use word::{Word, Word64x2, Word128};
