//! Attention: `softmax(scale q k^T) v` one tile of queries at a time, without storing the scores in
//! global memory.
//!
//! - `arguments`: the parameter of all kernels; `sequence`: lengths, and which keys a query sees;
//!   `schedule`: which tile a block computes.
//! - `config`: the shape of a kernel as a type; `rows`: tiles between global and shared memory.
//! - `softmax`: the online softmax; `reference`: scores of any size in it; `scores`: soft cap,
//!   ALiBi, bias, masks.
//! - `tile`: a tile of queries and its place in memory.
//! - `recompute`: rows that a hidden NaN or infinite value has reached, and rows whose scores are
//!   too large.
//! - `forward`: the kernel for sm_80; `results`: the epilogue; `combine`: reduces the splits of the
//!   keys.
//! - `hopper`: the kernels for sm_90a.
//!
//! # Safety
//! An `unsafe fn` states its contract once for its whole body, which has no `unsafe` blocks. A
//! function whose only condition is that all threads of a warp, a warpgroup or a block call it
//! together is safe: the accesses that depend on the order are unsafe.
//!
//! # Features
//! A cargo feature for each operand type compiles its entry points. The generic functions are
//! always available.
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the body of an `unsafe fn` is under the contract that its documentation states"
)]
#![allow(clippy::needless_range_loop, reason = "rows and columns index several arrays")]

mod arguments;
mod combine;
mod config;
// A module for sm_90a would be the same; the driver compiles the module for sm_80 there.
#[cfg(not(target_feature = "sm_90a"))]
#[allow(unused_imports, unused_macros, reason = "each feature has some of the kernels")]
mod entries;
mod forward;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod hopper;
mod recompute;
mod reference;
mod results;
mod rows;
mod schedule;
mod scores;
mod sequence;
mod softmax;
mod tile;

pub use arguments::{Arguments, ScoreStrides, Strides, UNLIMITED, Window};
pub use combine::{CombineStorage, combine, rows_of_block};
pub use config::{Half, MmaConfig, Shape, Storage, TileConfig};
#[cfg(not(target_feature = "sm_90a"))]
#[allow(unused_imports, reason = "each feature has some of the kernels")]
pub use entries::*;
pub use forward::forward;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
#[allow(unused_imports, reason = "each feature has some of the kernels")]
pub use hopper::{CHUNK, entries::*};
pub use schedule::{OneWork, Work};
pub use sequence::{Places, Query, Seen, Sequence, Span, Visible};
pub use softmax::{OnlineSoftmax, RowSum, SoftmaxPolicy, at, log2};
