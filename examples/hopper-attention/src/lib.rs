//! Forward attention on Hopper: entries of the kernel's text, and what the host needs to launch them.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(non_snake_case)]

#[path = "../../../device/kernels/attention"]
pub mod attention {
    //! The kernel's text, without the entries of `moye-kernels`.
    pub mod arguments;
    pub mod hopper;
    pub mod hopper_config;
    pub mod hopper_entries;
    pub mod hopper_schedule;
    pub mod hopper_softmax;
    pub mod schedule;
    pub mod sequence;
    pub mod softmax;
    pub use arguments::{Arguments, UNLIMITED, Window};
}

pub use attention::hopper_entries as entries;

#[cfg(not(target_arch = "nvptx64"))]
pub mod gpu;
#[cfg(not(target_arch = "nvptx64"))]
pub mod host;
