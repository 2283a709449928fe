//! Algorithms over tensors: `copy`, `copy_async`, `gemm`, `fill`.

mod copy;
mod fill;
mod gemm;

pub use copy::{copy, copy_async};
pub use fill::{clear, fill};
pub use gemm::gemm;
