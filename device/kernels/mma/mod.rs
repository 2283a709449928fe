//! Matmul on tensor cores by `mma.sync`: a multi-stage pipeline, in one configuration for each element type.

mod config;
mod epilogue;
mod f16;
mod pipeline;
mod raster;

pub use config::{Epilogue, MmaConfig, Problem, Storage};
pub use epilogue::{AsIs, Convert, Direct, Rounded, ThroughShared};
pub use f16::{matmul_bf16_tn, matmul_f16_tn};
pub use pipeline::matmul;
