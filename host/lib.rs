//! The host side of moye: devices, buffers, typed launches, and matrix operations by kernels
//! written in Rust.
//!
//! A [`Device`] is a GPU or the CPU simulator of one; everything here works on both.
//!
//! # Building without CUDA
//! Building and starting a program requires no CUDA toolkit and no driver: the driver's library is
//! loaded when a GPU is first used ([`driver`]).
//!
//! ```toml
//! [dependencies]
//! moye = "0.1"
//! ```
//!
//! # Features
//! `matmul` and `movement` are on by default; a library enables what it needs (`default-features =
//! false`). Without either, the crate offers devices, buffers, streams, modules and launches for
//! custom kernels, and compiles no kernel itself.
//! - `movement`: copies and transposes.
//! - `matmul`: products of matrices, for all operand types; `matmul-f32`, `matmul-f16`, ... for one
//!   type each.
//! - `attention`: attention of f16, bf16 and, on Hopper, e4m3; `attention-f16`, `attention-bf16`,
//!   `attention-e4m3` for one type each.
//! - `cust`: calls the driver through `cust`'s bindings instead of this crate's. The build script
//!   of `cust` requires a folder that contains `lib64`, such as `/usr/local/cuda`, in
//!   `CUDA_LIBRARY_PATH`.
//! - `cudarc`: streams and slices of `cudarc`, see [`interop::cudarc`](interop). It needs no `cust`
//!   and does not enable cuBLAS.
//! - `candle`: products of `candle`'s tensors on the host, see [`interop::candle`](interop);
//!   `candle-cuda`: also of tensors on a GPU, for which candle compiles its kernels by `nvcc`.
//! - `simulator` (on by default): the code with which [`Device::sim`] runs kernels. It is most of a
//!   build; a program that computes on GPUs alone can omit it.
//! - `ladder`: the kernels of the guide's steps.
//! - `tune`: `Tuning`, which reads and writes the tiles and split-K slices that `moye tune` has
//!   measured, for `Matmul::tuned`.
//!
//! The program `moye` is in the package `moye-cli`. `moye-draw` draws layouts, `moye-eval`
//! evaluates layout expressions; `moye-bench` and `moye-tune` measure.
#![deny(missing_docs)]
// Kernels of the README and the guide, copied into a program, cause no warning about names.
#![doc(test(attr(deny(non_snake_case))))]
// Shared by the operations: workspaces, counters.
#![cfg_attr(not(feature = "matmul-common"), allow(dead_code, reason = "some operation needs it"))]

mod arch;
#[cfg(feature = "attention-common")]
mod attention;
mod captures;
mod device;
pub mod driver;
mod error;
mod event;
mod graph;
mod grid;
pub mod interop;
mod launch;
#[cfg(feature = "matmul-common")]
mod matmul;
mod matrix;
mod memory;
mod mix;
mod module;
#[cfg(feature = "movement")]
mod movement;
pub mod operation;
mod peer;
mod ptx;
mod stream;
mod tensor_map;
#[cfg(feature = "tune")]
mod tuning;

#[cfg(feature = "attention-common")]
pub use attention::{Attention, AttentionElement, AttentionExplanation, Heads, HeadsMut};
pub use device::{
    Arch, DEVICE_VARIABLE, Device, DeviceChoice, MAX_BLOCKS, MAX_BLOCKS_PER_CLUSTER, MAX_THREADS,
    MAX_THREADS_PER_BLOCK, Properties, Rates, STATIC_SHARED_BYTES, interruptible,
};
pub use error::{Error, Result};
pub use event::Event;
pub use graph::{Graph, GraphExec};
pub use launch::{Grid, KernelArg, KernelArgs};
#[cfg(feature = "matmul-common")]
pub use matmul::{Explanation, Factor, Float8, Matmul, Operand, Output, Precision, matmul, matmul_on};
pub use matrix::{Matrix, MatrixMut};
pub use memory::{Buffer, BufferSlice, BufferSliceMut};
pub use module::{KernelAttributes, Module};
#[cfg(feature = "movement")]
pub use movement::{
    COPY, TRANSPOSE, copy, copy_on, explain_copy, explain_transpose, transpose, transpose_on,
};
pub use moye_device::half;
pub use moye_device::kernel::{Kernel, KernelParam, LaunchBounds, Params};
pub use moye_device::layout;
pub use moye_device::memory::{Element, Global, GlobalMut};
pub use moye_device::number;
/// The kernels of this crate, by features.
#[cfg(any(
    feature = "attention-bf16",
    feature = "attention-e4m3",
    feature = "attention-f16",
    feature = "ladder",
    feature = "movement"
))]
pub use moye_kernels as kernels;
pub use moye_sim::profile;
pub use moye_sim::{
    Dim3, TensorElement, TensorFill, TensorMap as TensorMapFields, TensorMapError, TensorPromotion,
    TensorSwizzle,
};
pub use peer::Shared;
pub use ptx::{Ptx, PtxParam, SHIPPED_PTX};
pub use stream::Stream;
pub use tensor_map::{TensorMap, TensorMapOf};
#[cfg(feature = "tune")]
pub use tuning::{Choice, Problem, Tuning};

/// The examples in the README and the guide are tests.
#[cfg(all(doctest, feature = "matmul"))]
mod pages {
    #[allow(clippy::needless_doctest_main)]
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[allow(clippy::needless_doctest_main)]
    #[doc = include_str!("README.md")]
    struct OfThePackage;
    #[doc = include_str!("../docs/guide/first_steps.md")]
    struct FirstSteps;
    #[doc = include_str!("../docs/guide/launches.md")]
    struct Launches;
    #[doc = include_str!("../docs/guide/products.md")]
    struct Products;
    #[doc = include_str!("../docs/guide/testing.md")]
    struct Testing;
    #[doc = include_str!("../docs/guide/interop.md")]
    struct Interop;
}
