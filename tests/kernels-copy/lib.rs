//! Kernels of the tests of copy atoms and instructions: one instruction each, so that the PTX can
//! be searched for it.
//!
//! Kernels for sm_90 are in separate modules, which the feature `sm_90` selects for a second PTX.
#![allow(clippy::needless_range_loop, reason = "loops over registers unroll by index")]
#![cfg_attr(
    all(target_arch = "nvptx64", feature = "sm_90"),
    allow(unused_macros, unused_imports, reason = "the kernels that sm_90 alone has need few of the macros")
)]
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(
    clippy::missing_safety_doc,
    reason = "every kernel trusts its pointers to have what each thread touches"
)]

mod cells;
mod support;

// On the host all kernels are there; a PTX has either those of sm_80 or those of sm_90.
#[cfg(not(all(target_arch = "nvptx64", feature = "sm_90")))]
mod sm_80;
#[cfg(any(not(target_arch = "nvptx64"), feature = "sm_90"))]
pub mod sm_90;

#[cfg(not(all(target_arch = "nvptx64", feature = "sm_90")))]
pub use sm_80::*;

/// The PTX of [`sm_80`](self), by architecture.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX_SM_80: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sm_80/moye_kernels_copy.rs"));

/// The PTX of [`mod@sm_90`], by architecture.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX_SM_90: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sm_90/moye_kernels_copy.rs"));
