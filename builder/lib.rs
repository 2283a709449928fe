//! Compiles a crate with kernels to PTX from a build script, with the stock compiler's
//! `nvptx64-nvidia-cuda` target.
//!
//! ```no_run
//! // build.rs
//! moye_build::PtxBuilder::new("kernels").arch("sm_80").arch("sm_90a").build_or_exit();
//! ```
//! ```ignore
//! // The host side.
//! static KERNELS: moye::Ptx = moye::include_ptx!("kernels");
//! ```
//!
//! It requires neither a CUDA toolkit nor a nightly compiler, only the source of `core` in the
//! compiler's version ([`core_source`] lists where it is searched).
//!
//! [`ptx`] reads PTX, and [`report`] lists registers, local and shared memory, and instructions of
//! every kernel. The builder warns of slow code in the kernels, with the source line: see [`Lint`].

mod arch;
mod carried;
mod compile;
pub mod core_source;
mod depinfo;
mod diagnostic;
mod environment;
mod error;
mod files;
#[doc = include_str!("guide/ptx.md")]
pub mod guide {}
mod host_check;
mod known;
mod lints;
mod nested;
mod operations;
mod package;
mod packaged;
pub mod ptx;
mod ptx_builder;
mod ptx_set;
pub mod report;
mod settings;
mod sysroot;

pub use arch::Arch;
pub use diagnostic::{Diagnostic, Place};
pub use error::BuildError;
pub use operations::Operations;
pub use ptx_builder::PtxBuilder;
pub use ptx_set::{PtxFile, PtxSet};
pub use report::Lint;

/// The crate's page in a registry.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
