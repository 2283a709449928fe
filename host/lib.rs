//! The host side of moye: devices, buffers, typed launches, and matrix operations by kernels
//! written in Rust.
//!
//! A [`Device`] is a GPU or the CPU simulator of one; everything here works on both.
//!
//! # From another workspace
//! Nothing of CUDA is needed to build or to start a program: the driver is opened when a GPU is
//! first asked for ([`driver`]). But the build script of `cust`, which lies underneath, insists on
//! a folder with `lib64` in it, and stops with `Could not find a cuda installation` where there is
//! none. Where `/usr/local/cuda/lib64` exists, that is found; elsewhere an empty folder does, named
//! to cargo once:
//!
//! ```text
//! mkdir -p .cargo/cuda/lib64 && touch .cargo/cuda/lib64/.gitkeep
//! ```
//! ```toml
//! # .cargo/config.toml
//! [env]
//! CUDA_LIBRARY_PATH = { value = ".cargo/cuda", relative = true }
//! ```
//!
//! # Features
//! All of these but `attention` are on by default; a library names those that it needs
//! (`default-features = false`). Without any there are devices, buffers, streams, modules and
//! launches, for kernels of your own, and no kernel of this crate is compiled.
//! - `movement`: copies and transposes.
//! - `matmul`: products of matrices, of all types of operands; `matmul-f32`, `matmul-f16`, ... of
//!   one each.
//! - `attention`: attention of f16 and bf16; with `cli` also `moye attention` and
//!   `moye bench attention`.
//! - `cudarc`: streams and slices of `cudarc`, see [`interop::cudarc`](interop). It switches on
//!   nothing of cuBLAS.
//! - `ladder`: the kernels of the guide's steps.
//! - `cli`: the program `moye`. It has `draw` (pictures of layouts), `eval` (the layout algebra by
//!   name) and `tune` (choices of tiles that `moye tune` has measured, `Tuning`).
#![deny(missing_docs)]
// Workspaces, counters and the like, which operations share.
#![cfg_attr(not(feature = "matmul-common"), allow(dead_code, reason = "some operation needs it"))]

#[cfg(feature = "attention")]
mod attention;
mod device;
#[cfg(feature = "draw")]
pub mod draw;
pub mod driver;
mod error;
#[cfg(feature = "eval")]
pub mod eval;
mod event;
mod graph;
pub mod interop;
mod launch;
#[cfg(feature = "matmul-common")]
mod matmul;
mod matrix;
mod memory;
mod module;
#[cfg(feature = "movement")]
mod rearrange;
mod stream;
mod tensor_map;

#[cfg(feature = "attention")]
pub use attention::{Attention, AttentionElement, AttentionExplanation, Heads, HeadsMut};
pub use device::{
    Arch, DEVICE_VARIABLE, Device, DeviceChoice, MAX_BLOCKS, MAX_BLOCKS_PER_CLUSTER, MAX_THREADS,
    MAX_THREADS_PER_BLOCK, Properties, STATIC_SHARED_BYTES,
};
pub use error::{Error, Result};
pub use event::Event;
pub use graph::{Graph, GraphExec};
pub use launch::{Grid, KernelArg, KernelArgs};
#[cfg(feature = "tune")]
pub use matmul::{Choice, Problem, Tuning};
#[cfg(feature = "matmul-common")]
pub use matmul::{Explanation, Factor, Float8, Matmul, Operand, Output, Precision, matmul, matmul_on};
pub use matrix::{Matrix, MatrixMut};
pub use memory::{Buffer, BufferSlice, BufferSliceMut};
pub use module::{KernelAttributes, Module, Ptx, SHIPPED_PTX};
pub use moye_device::half;
pub use moye_device::kernel::{Kernel, KernelParam, LaunchBounds, Params};
pub use moye_device::layout;
pub use moye_device::memory::{Element, Global, GlobalMut};
pub use moye_device::number;
/// The kernels that this crate ships, those that its features name.
#[cfg(any(feature = "attention", feature = "ladder", feature = "movement"))]
pub use moye_kernels as kernels;
pub use moye_sim::profile;
pub use moye_sim::{
    Dim3, TensorElement, TensorFill, TensorMap as TensorMapFields, TensorMapError, TensorPromotion,
    TensorSwizzle,
};
#[cfg(feature = "movement")]
pub use rearrange::{copy, copy_on, transpose, transpose_on};
pub use stream::Stream;
pub use tensor_map::{TensorMap, TensorMapOf};

/// The programs in the README and on the guide's pages run.
#[cfg(all(doctest, feature = "matmul"))]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/guide/first_steps.md")]
    struct FirstSteps;
    #[doc = include_str!("../docs/guide/launches.md")]
    struct Launches;
    #[doc = include_str!("../docs/guide/testing.md")]
    struct Testing;
    #[doc = include_str!("../docs/guide/interop.md")]
    struct Interop;
}
