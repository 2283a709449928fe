//! Matmul on tensor cores by `mma.sync`: a multi-stage pipeline, in one configuration for each element type.
//!
//! For sm_90a those alone are compiled that Hopper's own kernels do not multiply (`exclusive.rs`, and f32 by multiply-adds): they call
//! [`overlap_launches`](crate::arch::overlap_launches), which a text for sm_80 could not. The others serve there where TMA cannot load an
//! operand, and come from the text for sm_80: each is launched behind the end of the kernel in front.

mod arguments;
mod by_parts;
mod config;
mod epilogue;
mod exclusive;
#[cfg(not(target_feature = "sm_90a"))]
mod f16;
mod family;
mod finish;
mod load;
#[cfg(not(target_feature = "sm_90a"))]
mod other;
mod pipeline;
mod raster;
mod rows;
mod scalar;
mod sgemm;
mod smem;

pub use arguments::{Activation, Arguments, Scales};
pub use by_parts::{ByParts, OneByOne, Parted, PartedCopy};
pub use config::{ArgumentsOf, MmaConfig, Storage, Tiled};
pub use epilogue::{Direct, Epilogue, StagesOf, ThroughShared};
pub use exclusive::*;
#[cfg(not(target_feature = "sm_90a"))]
pub use f16::*;
pub use finish::{finish_bf16, finish_f16, finish_f32, finish_f64, finish_i32};
pub use load::{Asynchronous, Load, Loading, Turned, TurnedOf};
#[cfg(not(target_feature = "sm_90a"))]
pub use other::*;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub(crate) use pipeline::first;
pub use pipeline::matmul;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub(crate) use raster::{columns_of_group, tile_of};
pub use rows::{Place, Staged, write_rows};
pub use scalar::{Convertible, Scalar};
pub use sgemm::*;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub(crate) use smem::k_major;
