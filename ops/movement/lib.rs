//! Copies and transposes of matrices, which `moye` re-exports, and the copies that rearrange the
//! operands of products.
//!
//! `kernels/` and `ladder/` have the kernels, written with [`moye_device`]'s public API only: the
//! folders compile when copied into another crate. `host/` has their plans and launches.
//!
//! The kernels are compiled for sm_80 and for sm_90a, where they start before the previous kernel
//! has completed (PDL). They take any extents and strides; out of bounds elements are neither read
//! nor written.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![deny(missing_docs)]

#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
mod host;
#[cfg(feature = "kernels")]
pub mod kernels;
#[cfg(feature = "kernels")]
pub mod ladder;

#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
pub use host::{
    COPY, TRANSPOSE, copy, copy_on, explain_copy, explain_transpose, rearrange, repack, transpose,
    transpose_on,
};

/// The kernels.
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
pub static PTX: moye_runtime::Ptx = moye_runtime::include_ptx!("moye_movement");
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
moye_runtime::link_ptx!(PTX);

/// The crate's page in a registry.
#[cfg(all(doctest, feature = "kernels"))]
#[doc = include_str!("README.md")]
mod readme {}
