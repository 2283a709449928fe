//! Kernels of the tests of what a kernel's author writes: slices, fragments by rows and columns,
//! reductions, conversions.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(non_snake_case, reason = "CuTe's names")]
#![allow(unsafe_op_in_unsafe_fn, reason = "a kernel's body is under the kernel's contract")]

// The pages of `examples/pages`, which is no member of this workspace.
#[path = "../../examples/pages/src/attention.rs"]
pub mod attention;
#[path = "../../examples/pages/src/rmsnorm.rs"]
pub mod rmsnorm;
pub mod scores;
#[path = "../../examples/pages/src/softmax.rs"]
pub mod softmax;
pub mod steps;

/// The PTX of all kernels, by architecture.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/moye_kernels_author.rs"));
