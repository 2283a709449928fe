//! Kernels of the tests of collectives: a scheduler, a mainloop, an epilogue and a sink each.
//! `ampere` is by `cp.async` and `mma.sync`, `hopper` by TMA and `wgmma`.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(non_snake_case, reason = "CuTe's names")]

pub mod ampere;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod hopper;

/// The PTX for sm_80, by architecture.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX_SM_80: &[(&str, &str)] =
    include!(concat!(env!("OUT_DIR"), "/sm_80/moye_kernels_collective.rs"));

/// The PTX for sm_90a, by architecture.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX_SM_90A: &[(&str, &str)] =
    include!(concat!(env!("OUT_DIR"), "/sm_90a/moye_kernels_collective.rs"));
