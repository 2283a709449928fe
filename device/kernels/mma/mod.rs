//! Matmul on tensor cores by `mma.sync`: a multistage mainloop, with a configuration for each
//! element type.
//!
//! For sm_90a only those kernels are compiled that have no Hopper counterpart (`exclusive.rs`, and
//! f32 by FMA): they call [`overlap_launches`](moye_device::arch::overlap_launches), which PTX for
//! sm_80 has not. The others serve on sm_90a operands that TMA cannot load. They come from the PTX
//! for sm_80, and each starts after the previous kernel has completed.

mod arguments;
mod by_parts;
mod config;
mod epilogue;
#[cfg(any(feature = "matmul-f16", feature = "matmul-f64"))]
mod exclusive;
#[cfg(all(not(target_feature = "sm_90a"), any(feature = "matmul-f16", feature = "matmul-bf16")))]
mod f16;
#[allow(dead_code, unused_imports, unused_macros, reason = "each feature and architecture needs some of it")]
mod family;
#[cfg(feature = "matmul-slices")]
mod finish;
mod load;
#[cfg(all(not(target_feature = "sm_90a"), any(feature = "matmul-tf32", feature = "matmul-i8")))]
mod other;
mod pipeline;
mod raster;
mod rows;
mod scalar;
#[cfg_attr(
    not(feature = "matmul-f32"),
    allow(unused_imports, dead_code, reason = "the entry points use them")
)]
mod sgemm;
mod smem;
mod visitor;

pub use arguments::{Activation, Arguments, Scales};
pub use by_parts::{ByParts, OneByOne, Parted, PartedCopy};
pub use config::{ArgumentsOf, MmaConfig, Storage, Tiled};
pub use epilogue::{Direct, Epilogue, StagesOf, ThroughShared};
#[cfg(any(feature = "matmul-f16", feature = "matmul-f64"))]
pub use exclusive::*;
#[cfg(all(not(target_feature = "sm_90a"), any(feature = "matmul-f16", feature = "matmul-bf16")))]
pub use f16::*;
#[cfg(feature = "matmul-slices")]
pub use finish::{finish_bf16, finish_f16, finish_f32, finish_f64, finish_i32};
pub use load::{Asynchronous, Load, Loading, Turned, TurnedOf};
#[cfg(all(not(target_feature = "sm_90a"), any(feature = "matmul-tf32", feature = "matmul-i8")))]
pub use other::*;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub(crate) use pipeline::first;
pub use pipeline::{ParametersOf, matmul, matmul_with};
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub(crate) use raster::{columns_of_group, tile_of};
pub use rows::{Place, Staged, write_rows};
pub use scalar::{Convertible, Scalar};
pub use sgemm::*;
pub use smem::{k_major, mn_major};
pub use visitor::Visited;
