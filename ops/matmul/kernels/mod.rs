//! The kernels of products, written with [`moye_device`]'s public API only: the folder compiles
//! when copied into another crate.
//!
//! Each is a page to read: tiles, partitions, copies, a product. All take any extents and strides;
//! out of bounds elements are neither read nor written.
//!
//! # Safety
//! An `unsafe fn` states its contract once for its whole body, which has no `unsafe` blocks. A
//! function whose only condition is that all threads of a warp, a warpgroup or a block call it
//! together is safe: the accesses that depend on the order are unsafe.
//!
//! # Features
//! A cargo feature for each operand type compiles its entry points. The generic functions
//! ([`mma::matmul`], `hopper::matmul`, ...) are always available. A crate that calls one in its own
//! kernel has only that kernel in its PTX.
//!
//! # Architectures
//! They are compiled for sm_80 and for sm_90a. `hopper` is for sm_90a only. The [`mma`] products
//! for which Hopper has faster kernels are for sm_80 only: the driver compiles PTX for sm_80 on
//! newer GPUs as well. The others are in both: compiled for sm_90a they start before the previous
//! kernel has completed (PDL).
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the body of an `unsafe fn` is under the contract that its documentation states"
)]

#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod hopper;
pub mod mma;
