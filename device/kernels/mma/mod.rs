//! Matmul on tensor cores by `mma.sync`: a multi-stage pipeline, in one configuration for each element type.
//!
//! On Hopper they multiply what `wgmma` has no instruction for (f64, sums in f16) and what TMA cannot load. They are compiled for
//! sm_90a too, as they call [`overlap_launches`](crate::arch::overlap_launches): in the text for sm_80 they could not wait for the kernel
//! in front, and each would be launched behind its end.

mod arguments;
mod config;
mod epilogue;
mod f16;
mod family;
mod finish;
mod other;
mod pipeline;
mod raster;
mod rows;
mod scalar;
mod sgemm;
mod smem;

pub use arguments::{Activation, Arguments, Scales};
pub use config::{ArgumentsOf, MmaConfig, Storage};
pub use epilogue::{Direct, Epilogue, ThroughShared};
pub use f16::*;
pub use finish::{finish_bf16, finish_f16, finish_f32, finish_f64, finish_i32};
pub use other::*;
pub use pipeline::matmul;
pub use rows::{Place, Staged, write_rows};
pub use scalar::{Convertible, Scalar};
pub use sgemm::*;
