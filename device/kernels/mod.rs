//! The kernels that moye ships.
//!
//! Each is a page to read: tiles, partitions, copies, a product. All of them take any extents and strides; what hangs
//! over an edge is neither read nor written.
//!
//! They are compiled for sm_80 and for sm_90a. [`hopper`] is for sm_90a alone, and [`ladder`] for sm_80 alone: it has nothing of Hopper's,
//! its PTX would be the same to the letter, and the driver compiles the text for sm_80 on newer GPUs as well. To compile it twice
//! would only make the build longer. So are those products of [`mma`] for which Hopper has faster kernels. The others are in both texts,
//! since compiled for sm_90a they begin while the kernel in front still runs, and so are the kernels that move elements.

mod copy;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod hopper;
#[cfg(not(target_feature = "sm_90a"))]
pub mod ladder;
mod lines;
mod matmul;
pub mod mma;
mod pack;
pub mod realign;
mod transpose;
pub mod transpose_words;
pub mod turn;

pub use copy::{copy, copy_async};
pub use lines::{
    copy_lines, copy_long_lines, transpose_u8, transpose_u16, transpose_u32, transpose_u64, transpose_u128,
};
pub use matmul::{matmul_f32_nn, matmul_f32_nt, matmul_f32_tn, matmul_f32_tt};
pub use pack::{pack_u8, pack_u16, pack_u32, pack_u64, pack_u128};
pub use realign::realign;
pub use transpose::transpose;
pub use transpose_words::{transpose_words_u8, transpose_words_u16};
pub use turn::turn_u32;
