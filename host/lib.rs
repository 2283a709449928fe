//! The host side of moye: devices, buffers, typed launches, and matrix operations by kernels written in Rust.
//!
//! A [`Device`] is a GPU or the CPU simulator of one; everything here works on both.

mod device;
pub mod draw;
pub mod driver;
mod error;
mod event;
mod launch;
mod memory;
mod module;
mod stream;

pub use device::{
    Arch, DEVICE_VARIABLE, Device, DeviceChoice, MAX_BLOCKS, MAX_THREADS, MAX_THREADS_PER_BLOCK, Properties,
    STATIC_SHARED_BYTES,
};
pub use error::{Error, Result};
pub use event::Event;
pub use launch::{Grid, KernelArg, KernelArgs};
pub use memory::{Buffer, BufferSlice, BufferSliceMut};
pub use module::{KernelAttributes, Module, Ptx};
pub use moye_device::kernel::{Kernel, KernelParam, LaunchBounds, Params};
pub use moye_device::memory::{Element, Global, GlobalMut};
pub use moye_sim::Dim3;
pub use stream::Stream;
