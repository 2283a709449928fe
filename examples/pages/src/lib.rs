//! Kernels of a page each, on the public API alone: attention, and reductions along rows.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(non_snake_case, reason = "CuTe's names")]

pub mod attention;
pub mod rmsnorm;
pub mod softmax;
