//! Attention, which `moye` re-exports.
//!
//! `kernels/` has the kernels, written with [`moye_device`]'s public API only: the folder compiles
//! when copied into another crate. `host/` has the choice of a kernel and its launch.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![deny(missing_docs)]

#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
mod host;
pub mod kernels;

#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[doc(hidden)]
pub use host::oracle;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
pub use host::{ATTENTION, Attention, AttentionElement, AttentionExplanation, Heads, HeadsMut};

/// The kernels of the operands that features name.
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
pub static PTX: moye_runtime::Ptx = moye_runtime::include_ptx!("moye_attention");
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
moye_runtime::link_ptx!(PTX);

/// The crate's page in a registry.
#[cfg(all(doctest, feature = "f16"))]
#[doc = include_str!("README.md")]
mod readme {}
