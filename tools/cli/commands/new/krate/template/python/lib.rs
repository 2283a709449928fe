//! A custom operation, `silu`: its kernel, its declaration with a typed builder, and its Python
//! function.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod kernel;
#[cfg(not(target_arch = "nvptx64"))]
pub mod silu;

/// The extension module.
#[cfg(not(target_arch = "nvptx64"))]
mod python {
    moye_python_support::module!(new_kernels, &[&crate::silu::SILU]);
}
