//! Matmul on tensor cores by `mma.sync`: a multistage mainloop, with a configuration for each
//! element type.
//!
//! A kernel is an instance of [`gemm`](moye_device::collective::gemm) (`matmul.rs`), of three
//! parts:
//!
//! | part | type | file |
//! | --- | --- | --- |
//! | tile scheduler | [`Schedule`] | `schedule.rs` |
//! | mainloop | [`Loop`] | `mainloop.rs` |
//! | sink | [`ThroughShared`], [`Direct`], [`ByParts`] | `sink.rs`, `rows.rs`, `by_parts.rs` |
//!
//! For sm_90a only the kernels without a Hopper counterpart are compiled (`exclusive.rs`, and f32
//! by FMA): they call [`overlap_launches`](moye_device::arch::overlap_launches), which PTX for
//! sm_80 does not support. On sm_90a the other kernels are used for operands that TMA cannot load.
//! They are compiled from the PTX for sm_80, and start after the previous kernel has completed.

#![allow(non_snake_case, reason = "tensors have CuTe's names")]

mod arguments;
mod by_parts;
mod config;
#[cfg(any(feature = "f16", feature = "f64"))]
mod exclusive;
#[cfg(all(not(target_feature = "sm_90a"), any(feature = "f16", feature = "bf16")))]
mod f16;
#[allow(dead_code, unused_imports, unused_macros, reason = "each feature and architecture needs some of it")]
mod family;
#[cfg(feature = "products")]
mod finish;
mod mainloop;
mod matmul;
#[cfg(all(not(target_feature = "sm_90a"), any(feature = "tf32", feature = "i8")))]
mod other;
mod rows;
mod scalar;
mod scalar_f64;
mod schedule;
#[cfg_attr(not(feature = "f32"), allow(unused_imports, dead_code, reason = "the entry points use them"))]
mod sgemm;
mod sink;
mod smem;

pub use arguments::{Activation, Arguments, Scales};
pub use by_parts::{ByParts, LastTile, OneByOne, Parted, PartedCopy};
pub use config::{ArgumentsOf, MmaConfig, OfLeading, Stages, Storage, TileC, Tiled};
#[cfg(any(feature = "f16", feature = "f64"))]
pub use exclusive::*;
#[cfg(all(not(target_feature = "sm_90a"), any(feature = "f16", feature = "bf16")))]
pub use f16::*;
#[cfg(feature = "products")]
pub use finish::{finish_bf16, finish_f16, finish_f32, finish_f64, finish_i32};
pub use mainloop::{Copies, Loop, TiledLoop, moved};
pub use matmul::{matmul, matmul_with};
#[cfg(all(not(target_feature = "sm_90a"), any(feature = "tf32", feature = "i8")))]
pub use other::*;
pub use rows::{Place, Staged, write_rows};
pub use scalar::{Convertible, Scalar};
pub use schedule::Schedule;
pub use sgemm::*;
pub use sink::{Direct, ThroughShared, TileSink};
pub use smem::{k_major, mn_major};
