//! Compiles a crate with kernels to PTX from a build script, by the stock compiler's own
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
//! It needs no CUDA toolkit and no nightly compiler, only the source of `core` for the compiler's
//! own version ([`core_source`] lists where it is searched).
//!
//! [`ptx`] reads PTX, and [`report`] says for every kernel which registers, local and shared memory
//! and which instructions it uses. The builder warns of slow code in the kernels, with the source
//! line: see [`Lint`].

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

/// The page that a registry shows.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
