//! The host side of `moye` without operations: devices, buffers, streams, graphs, modules, typed
//! launches, and what every operation has in common ([`operation`]).
//!
//! A [`Device`] is a GPU or the CPU simulator of one; everything here works on both. `moye`
//! re-exports all of it beside the families of operations, which are crates above this one. This
//! crate compiles no kernel.
//!
//! # Features
//! The features of `moye` with the same names: `candle`, `candle-cuda`, `cudarc`, `cust` and
//! `simulator`.
#![deny(missing_docs)]

mod algorithm;
mod arch;
mod array;
mod captures;
mod device;
pub mod driver;
mod error;
mod event;
mod graph;
mod grid;
pub mod interop;
mod launch;
mod matrix;
mod memory;
mod mix;
mod module;
pub mod operation;
mod peer;
mod ptx;
mod stream;
mod tensor_map;

pub use device::{
    Arch, DEVICE_VARIABLE, Device, DeviceChoice, MAX_BLOCKS, MAX_BLOCKS_PER_CLUSTER, MAX_THREADS,
    MAX_THREADS_PER_BLOCK, Properties, Rates, STATIC_SHARED_BYTES, interruptible,
};
pub use error::{Error, Result};
pub use event::Event;
pub use graph::{Graph, GraphExec};
pub use launch::{Grid, KernelArg, KernelArgs};
pub use matrix::{Matrix, MatrixMut};
pub use memory::{Buffer, BufferSlice, BufferSliceMut};
pub use module::{KernelAttributes, Module};
pub use moye_device::half;
pub use moye_device::kernel::{Kernel, KernelParam, LaunchBounds, Params};
pub use moye_device::layout;
pub use moye_device::memory::{Element, Global, GlobalMut};
pub use moye_device::number;
pub use moye_sim::profile;
pub use moye_sim::{
    Dim3, TensorElement, TensorFill, TensorMap as TensorMapFields, TensorMapError, TensorPromotion,
    TensorSwizzle,
};
pub use peer::Shared;
#[doc(hidden)]
pub use ptx::Linked;
pub use ptx::{Ptx, PtxParam};
pub use stream::Stream;
pub use tensor_map::{TensorMap, TensorMapOf};

/// The crate's page in a registry.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
