//! Kernels of the tests of tiled copies and tiled MMAs: products whose every step goes by them, in
//! many configurations, and a grid of copies alone, copies of every width and by the instructions
//! of a warp, and single multiply-adds.
//!
//! Kernels for sm_90 have a separate PTX, which the feature `sm_90` selects.
#![cfg_attr(
    all(target_arch = "nvptx64", feature = "sm_90"),
    allow(
        dead_code,
        unused_imports,
        reason = "of the kernel texts the few that sm_90 alone has are instantiated there"
    )
)]
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(clippy::missing_safety_doc, reason = "`Problem` and `copies::Runs` say what every kernel trusts")]

mod config;
#[cfg(not(all(target_arch = "nvptx64", feature = "sm_90")))]
pub mod copies;
#[cfg(not(all(target_arch = "nvptx64", feature = "sm_90")))]
pub mod fma;
pub mod operand;
#[cfg(not(all(target_arch = "nvptx64", feature = "sm_90")))]
pub mod packed;
mod product;
#[cfg(not(all(target_arch = "nvptx64", feature = "sm_90")))]
pub mod results;

// On the host all kernels are there; a PTX has either those of sm_80 or those of sm_90.
#[cfg(not(all(target_arch = "nvptx64", feature = "sm_90")))]
mod sm_80;
#[cfg(any(not(target_arch = "nvptx64"), feature = "sm_90"))]
mod sm_90;
pub mod warps;
#[cfg(not(all(target_arch = "nvptx64", feature = "sm_90")))]
pub mod widest;

#[cfg(not(all(target_arch = "nvptx64", feature = "sm_90")))]
pub use sm_80::*;
#[cfg(any(not(target_arch = "nvptx64"), feature = "sm_90"))]
pub use sm_90::*;

/// The PTX of all kernels but those of sm_90, by architecture.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX_SM_80: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sm_80/moye_kernels_tiled.rs"));

/// The PTX of the kernels of sm_90, by architecture.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX_SM_90: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sm_90/moye_kernels_tiled.rs"));
