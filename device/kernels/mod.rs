//! The kernels that moye ships.
//!
//! Each is a page to read: tiles, partitions, copies, a product. All of them take any extents and strides; what hangs
//! over an edge is neither read nor written.

mod copy;
pub mod ladder;
mod matmul;
pub mod mma;
mod pack;
mod transpose;

pub use copy::{copy, copy_async};
pub use matmul::{matmul_f32_nn, matmul_f32_nt, matmul_f32_tn, matmul_f32_tt};
pub use pack::{pack_u8, pack_u16, pack_u32, pack_u64};
pub use transpose::transpose;
