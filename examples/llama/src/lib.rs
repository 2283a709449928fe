//! Language models of the Llama family on kernels written in Rust.
//!
//! - [`gguf`], [`mod@format`]: the file, and the formats of its blocks;
//! - [`config`]: sizes and variants; [`vocabulary`], [`template`]: text and tokens;
//! - [`linear`]: products with weights; [`layer`]: a layer; [`model`]: all layers;
//! - [`cut`], [`ranks`]: a model over several GPUs;
//! - [`cache`]: keys and values in pages; [`engine`]: sequences that join and leave;
//! - [`attend`]: attention of the next token; [`mod@advance`]: the step to the token after it.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![deny(missing_docs)]
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the body of an `unsafe fn` is under the contract that its documentation states"
)]

pub mod advance;
pub mod attend;

macro_rules! host {
    ($($name:ident)+) => { $(
        #[cfg(not(target_arch = "nvptx64"))]
        pub mod $name;
    )+ };
}
host! { cache config cut engine error format gguf layer linear model ranks template vocabulary }

/// This crate's kernels.
#[cfg(not(target_arch = "nvptx64"))]
static PTX: moye::Ptx = moye::include_ptx!("moye_llama");

#[cfg(not(target_arch = "nvptx64"))]
pub use error::{Error, Result};
