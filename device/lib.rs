//! The device side of moye: the layout algebra, tensors over global, shared and register memory,
//! tiled copies, tiled matrix instructions and pipelines. Kernels are built from them: yours, and
//! those of the families of operations.
//!
//! The crate is `no_std` and is compiled twice from the same source: to PTX for a GPU (target
//! `nvptx64-nvidia-cuda`), and for the host, where `moye-sim` replaces the GPU. Only [`arch`]
//! distinguishes the two.
#![no_std]
#![deny(missing_docs)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_ptx, asm_experimental_arch, stdarch_nvptx, link_llvm_intrinsics, abi_unadjusted)
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

// `#[kernel]` generates paths that start at `::moye_device`, also inside this crate.
#[cfg(not(target_arch = "nvptx64"))]
extern crate alloc;
extern crate self as moye_device;

pub mod algorithm;
pub mod analysis;
pub mod arch;
pub mod atom;
pub mod collective;
mod expressions;
// Only the documentation and its tests need this; ordinary builds do not compile it.
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod kernel;
pub mod layout;
pub mod math;
pub mod memory;
pub mod number;
#[cfg(target_arch = "nvptx64")]
mod panic;
pub mod pipeline;
pub mod prelude;
pub mod tensor;
mod tiling;

pub use expressions::{Shape, Shape1, Shape3, Shape4, Shape5};
pub use half;
pub use layout::{IntTuple, Layout, LayoutError, Tiler};
#[doc(hidden)]
pub use moye_macros::page;
pub use moye_macros::{
    for_each_wgmma, kernel, layout, static_layout, swizzled_layout, tiled_copy, tiled_mma, tiler, tuple,
};

/// The registry's page.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
