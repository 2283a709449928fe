//! Products of matrices, which `moye` re-exports.
//!
//! `kernels/` and `ladder/` have the kernels, `host/` has the choice of a kernel and its launch. A
//! crate with a kernel made of these mainloops depends on this crate without features: see
//! [`kernels`].
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![deny(missing_docs)]

// Only the documentation and its tests need this; ordinary builds do not compile it.
#[cfg(any(doc, doctest))]
pub mod guide;
#[cfg(all(not(target_arch = "nvptx64"), feature = "products"))]
mod host;
pub mod kernels;
pub mod ladder;

#[cfg(all(not(target_arch = "nvptx64"), feature = "candle"))]
pub use host::candle;
#[cfg(all(not(target_arch = "nvptx64"), feature = "products"))]
pub use host::{
    Explanation, Factor, Float8, MATMUL, Matmul, Operand, Output, Precision, explain_matmul, matmul,
    matmul_on,
};

/// The kernels of the operands that features name.
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
pub static PTX: moye_runtime::Ptx = moye_runtime::include_ptx!("moye_matmul");
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
moye_runtime::link_ptx!(PTX);

/// The crate's page in a registry.
#[cfg(all(doctest, feature = "f32"))]
#[doc = include_str!("README.md")]
mod readme {}
