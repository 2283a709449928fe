//! One-page kernels that use only the public API: attention, reductions along rows, an elementwise
//! function, and a product with a custom epilogue.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(non_snake_case, reason = "CuTe's names")]

pub mod attention;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod attention_hopper;
pub mod gated;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod gated_tma;
pub mod map;
pub mod rmsnorm;
pub mod softmax;
