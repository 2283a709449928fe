//! Algorithms over tensors: `copy`, `gemm`, `fill` and their kin.
//!
//! [`copy()`] and [`gemm()`] take tensors as they are; [`copy_tiled`], [`copy_if`] and [`gemm_tiled`] go by the atom of a
//! [`TiledCopy`](crate::atom::TiledCopy) or [`TiledMma`](crate::atom::TiledMma), over tensors that were partitioned by it.

mod copy;
mod copy_tiled;
mod elementwise;
mod fill;
mod gemm;
mod gemm_tiled;

pub use copy::{copy, copy_async};
pub use copy_tiled::{CopyDestination, CopySource, ReadBy, WrittenBy, copy_if, copy_tiled};
pub use elementwise::{axpby, transform};
pub use fill::{clear, fill};
pub use gemm::gemm;
pub use gemm_tiled::gemm_tiled;
