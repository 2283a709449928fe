//! Kernels of the tests of `wgmma`: for each atom one, under the atom's name, that executes it
//! once, and some more for the ways in which operands can lie in shared memory.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(non_upper_case_globals, non_snake_case, reason = "kernels have the names of atoms")]
#![allow(clippy::missing_safety_doc, reason = "`execute` says what every kernel trusts")]

mod execute;
mod majors;

pub use execute::{B_OFFSET, k_major_tile};
pub use majors::*;

use execute::{Storage, execute};
use moye_device::atom::wgmma;
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut};

/// The PTX of all kernels, by architecture.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/moye_kernels_wgmma.rs"));

macro_rules! kernels {
    ($(wgmma { $kind:ident; $ss:ident $ss_function:ident; $rs:ident $rs_function:ident; $($rest:tt)* })*) => { $(
        one!($ss);
        one!($rs);
    )* };
}

macro_rules! one {
    ($atom:ident) => {
        #[kernel(threads = 128, shared = Storage)]
        pub unsafe fn $atom(a: Global<u32>, b: Global<u32>, c: Global<u32>, d: GlobalMut<u32>) {
            // SAFETY: passed on.
            unsafe { execute::<wgmma::$atom>(a, b, c, d) };
        }
    };
}
moye_device::for_each_wgmma!(kernels);
