//! Kernels that move elements.
//!
//! | file | entries | from, to |
//! | --- | --- | --- |
//! | [`copy`] | [`copy_lines`], [`copy_long_lines`] | the same contiguous mode, in vectors of 16 bytes |
//! | [`transpose`] | [`transpose_u8`] to [`transpose_u128`], [`transpose_words_u8`], [`transpose_words_u16`] | contiguous along M, contiguous along N |
//! | [`repack`] | [`repack_u8`] to [`repack_u128`], [`repack_lines`], [`repack_transposed_u32`] | any strides, any alignment; batches; rows padded with zeros |
//!
//! The first two run at memory bandwidth and take matrices with the alignment and the contiguous
//! mode that they need. `repack` takes all other matrices, and the operands of products.
//!
//! # Safety
//! An `unsafe fn` states its contract once for its whole body, which has no `unsafe` blocks. A
//! function whose only condition is that all threads of a warp, a warpgroup or a block call it
//! together is safe: the accesses that depend on the order are unsafe.
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the body of an `unsafe fn` is under the contract that its documentation states"
)]
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

pub mod copy;
pub mod repack;
pub mod transpose;

pub use copy::{copy_lines, copy_long_lines};
pub use repack::{
    repack_lines, repack_transposed_u32, repack_u8, repack_u16, repack_u32, repack_u64, repack_u128,
};
pub use transpose::{
    transpose_u8, transpose_u16, transpose_u32, transpose_u64, transpose_u128, transpose_words_u8,
    transpose_words_u16,
};
