//! Sentence embeddings by MiniLM and related models, on kernels written in Rust.
//!
//! - [`files`]: sizes, weights and vocabulary of a model's folder;
//! - [`model`]: weights on a device, and a pass over sentences;
//! - [`kernels`]: attention within each sentence, for f16 and f32, and the mean of its tokens;
//! - [`real`]: the two element types;
//! - [`sentences`]: text to vectors.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![deny(missing_docs)]
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the body of an `unsafe fn` is under the contract that its documentation states"
)]

pub mod kernels;

macro_rules! host {
    ($($name:ident)+) => { $(
        #[cfg(not(target_arch = "nvptx64"))]
        pub mod $name;
    )+ };
}
host! { error files model real sentences }

#[cfg(not(target_arch = "nvptx64"))]
pub use error::{Error, Result};
