//! The kernels that moye ships, written with [`moye_device`]'s public API alone: any of these files can be copied into another crate
//! and compiles there.
//!
//! Each is a page to read: tiles, partitions, copies, a product. All of them take any extents and strides; elements out of bounds are
//! neither read nor written.
//!
//! # Features
//! A cargo feature for each operation, and for each type of operands of a product, compiles its entry points; none is on by default. The generic
//! texts (`mma::matmul`, `hopper::matmul`, ...) are always there. A crate that calls one in a kernel of its own has
//! that kernel alone in its PTX.
//!
//! # Architectures
//! They are compiled for sm_80 and for sm_90a. [`hopper`] is for sm_90a alone, and steps 2 to 6 of the [`ladder`] for sm_80 alone: they have nothing of Hopper's,
//! its PTX would be the same to the letter, and the driver compiles the text for sm_80 on newer GPUs as well. To compile it twice
//! would only make the build longer. So are those products of [`mma`] for which Hopper has faster kernels. The others are in both texts,
//! since compiled for sm_90a they begin while the kernel in front still runs, and so are the kernels that move elements.
#![no_std]
#![deny(missing_docs)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod attention;
// Text and its tests alone: ordinary builds need not read it.
#[cfg(any(doc, doctest))]
pub mod guide;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod hopper;
pub mod ladder;
#[cfg(feature = "movement")]
mod lines;
pub mod mma;
#[cfg(feature = "movement")]
mod pack;
#[cfg(feature = "movement")]
pub mod realign;
#[cfg(feature = "movement")]
pub mod transpose_words;
#[cfg(feature = "movement")]
pub mod turn;

#[cfg(feature = "matmul-f32")]
pub use ladder::matmul::{matmul_f32_nn, matmul_f32_nt, matmul_f32_tn, matmul_f32_tt};
#[cfg(feature = "movement")]
pub use ladder::{copy::copy, copy_async::copy_async, transpose::transpose};
#[cfg(feature = "movement")]
pub use lines::{
    copy_lines, copy_long_lines, transpose_u8, transpose_u16, transpose_u32, transpose_u64, transpose_u128,
};
#[cfg(feature = "movement")]
pub use pack::{pack_u8, pack_u16, pack_u32, pack_u64, pack_u128};
#[cfg(feature = "movement")]
pub use realign::realign;
#[cfg(feature = "movement")]
pub use transpose_words::{transpose_words_u8, transpose_words_u16};
#[cfg(feature = "movement")]
pub use turn::turn_u32;
