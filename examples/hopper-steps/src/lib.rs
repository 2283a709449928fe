//! A product on Hopper in six steps, one file each: `c = a * b` in bf16 with f32 accumulators, `a`
//! as (M, K), `b` as (N, K) with K contiguous in both, `c` as (M, N) with N contiguous. Extents are
//! multiples of the tiles. A seventh step is the sixth, built from parts of
//! `moye_device::collective`.
//!
//! `diff src/step1.rs src/step2.rs` shows the change of a step; `docs/guide/hopper.md` explains it.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(non_snake_case, reason = "tensors have CuTe's names")]
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the body of an `unsafe fn` is under the contract that its documentation states"
)]

pub mod boxes;
pub mod rows;
pub mod step1;
pub mod step2;
pub mod step3;
pub mod step4;
pub mod step5;
pub mod step6;
pub mod step7;
pub mod tile;
pub mod tiles;

#[cfg(not(target_arch = "nvptx64"))]
pub mod host;
