//! The host side of moye: devices, buffers, typed launches, and matrix operations by kernels written in Rust.
//!
//! A [`Device`] is a GPU or the CPU simulator of one; everything here works on both.

mod device;
pub mod draw;
pub mod driver;
mod error;
mod event;
mod launch;
mod matmul;
mod matrix;
mod memory;
mod module;
mod rearrange;
mod stream;

pub use device::{
    Arch, DEVICE_VARIABLE, Device, DeviceChoice, MAX_BLOCKS, MAX_THREADS, MAX_THREADS_PER_BLOCK, Properties,
    STATIC_SHARED_BYTES,
};
pub use error::{Error, Result};
pub use event::Event;
pub use launch::{Grid, KernelArg, KernelArgs};
pub use matmul::{matmul, matmul_kernel, matmul_on};
pub use matrix::{Matrix, MatrixMut};
pub use memory::{Buffer, BufferSlice, BufferSliceMut};
pub use module::{KernelAttributes, Module, Ptx};
pub use moye_device::kernel::{Kernel, KernelParam, LaunchBounds, Params};
pub use moye_device::kernels;
pub use moye_device::layout;
pub use moye_device::memory::{Element, Global, GlobalMut};
pub use moye_sim::Dim3;
pub use rearrange::{copy, copy_on, transpose, transpose_on};
pub use stream::Stream;
