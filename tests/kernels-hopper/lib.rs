//! Kernels of the tests of Hopper's instructions: each has its instruction once, so that the PTX
//! can be searched for it.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(
    clippy::missing_safety_doc,
    reason = "every kernel trusts its pointers to have what each thread touches, and its grid to be what it says"
)]

mod barriers;
mod bulk;
mod cluster;
mod pipeline;

pub use barriers::*;
pub use bulk::*;
pub use cluster::*;
pub use pipeline::*;

/// The PTX of all kernels, by architecture.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/moye_kernels_hopper.rs"));
