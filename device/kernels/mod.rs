//! The kernels that moye ships.
//!
//! Each is a page to read: tiles, partitions, copies, a product. All of them take any extents and strides; what hangs
//! over an edge is neither read nor written.

mod copy;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod hopper;
pub mod ladder;
mod lines;
mod matmul;
pub mod mma;
mod pack;
mod realign;
mod transpose;

pub use copy::{copy, copy_async};
pub use lines::{copy_lines, transpose_u8, transpose_u16, transpose_u32, transpose_u64, transpose_u128};
pub use matmul::{matmul_f32_nn, matmul_f32_nt, matmul_f32_tn, matmul_f32_tt};
pub use pack::{pack_u8, pack_u16, pack_u32, pack_u64, pack_u128};
pub use realign::realign;
pub use transpose::transpose;
