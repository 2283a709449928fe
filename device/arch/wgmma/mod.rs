//! `wgmma`: matrix instructions of a warpgroup, four warps whose first index is a multiple of 4
//! (sm_90a, PTX 8.0).
//!
//! There is one function for each instruction, named after it: `wgmma_m64n256k16_f32_bf16_bf16_ss`
//! is `wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16`, with D (also C) in registers and A
//! and B in shared memory; in `..._rs` A is in registers. All come from one table
//! ([`for_each_wgmma!`](crate::for_each_wgmma)), as do the [atoms](crate::atom::wgmma).
//!
//! # The order of operations
//! The instructions are asynchronous. Shared memory that threads filled is fenced
//! ([`fence_proxy_async_shared`](super::fence_proxy_async_shared)) before; memory that TMA filled
//! needs no fence. Then, in each warp:
//!
//! 1. [`wgmma_fence`] before the first instruction, and whenever a thread has accessed registers
//!    that the next instructions use;
//! 2. the instructions, which may follow each other on the same accumulators;
//! 3. [`wgmma_commit_group`], and [`wgmma_wait_group`] until the group is complete: until then the
//!    accumulators and the registers of A may not be accessed, nor the operands in shared memory
//!    written;
//! 4. [`wgmma_fence_registers`] on the accumulators before they are read. It emits no instruction:
//!    it tells the compiler, which does not see the wait, that the registers change there. In the
//!    simulator the results appear there, so that a missing fence leaves NaN.
//!
//! Floats are summed as in [`mma`](super::mma), with one reservation: NVIDIA does not document how
//! a tensor core aligns the products that it adds, and for 8-bit floats it is known to keep fewer
//! bits than an f32.

pub mod fragments;
mod group;
mod instruction;
mod registers;

pub use group::{wgmma_commit_group, wgmma_fence, wgmma_wait_group, wgmma_wait_group_after};
pub use instruction::*;
pub use registers::{Accumulators, wgmma_fence_registers};
