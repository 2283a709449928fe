//! The kernels that moye ships, written with [`moye_device`]'s public API only: any of these files
//! compiles when copied into another crate.
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
//! A cargo feature for each operation, and for each operand type of a product or of attention,
//! compiles its entry points; none is on by default. The generic functions (`mma::matmul`,
//! `hopper::matmul`, ...) are always available. A crate that calls one in its own kernel has only
//! that kernel in its PTX.
//!
//! # Architectures
//! They are compiled for sm_80 and for sm_90a. [`hopper`] is for sm_90a only. The kernels of the
//! feature `ladder` are for sm_80 only: they use nothing of Hopper, so their PTX would be
//! identical, and the driver compiles PTX for sm_80 on newer GPUs as well. The same holds for the
//! [`mma`] products for which Hopper has faster kernels. The others, and the kernels that copy or
//! transpose, are in both: compiled for sm_90a they start before the previous kernel has completed
//! (PDL).
#![no_std]
#![deny(missing_docs)]
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the body of an `unsafe fn` is under the contract that its documentation states"
)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod attention;
// Only the documentation and its tests need this; ordinary builds do not compile it.
#[cfg(any(doc, doctest))]
pub mod guide;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod hopper;
pub mod ladder;
pub mod mma;
#[cfg(feature = "movement")]
pub mod movement;

#[cfg(feature = "matmul-f32")]
pub use ladder::matmul::{matmul_f32_nn, matmul_f32_nt, matmul_f32_tn, matmul_f32_tt};
#[cfg(feature = "movement")]
pub use ladder::{copy::copy, copy_async::copy_async, transpose::transpose};
#[cfg(feature = "movement")]
pub use movement::{
    copy_lines, copy_long_lines, repack_lines, repack_transposed_u32, repack_u8, repack_u16, repack_u32,
    repack_u64, repack_u128, transpose_u8, transpose_u16, transpose_u32, transpose_u64, transpose_u128,
    transpose_words_u8, transpose_words_u16,
};
