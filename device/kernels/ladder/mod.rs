//! The ladder: one matmul in steps, each a kernel that is a little faster than the one before, for one reason.
//!
//! | step | kernel | what is new |
//! | --- | --- | --- |
//! | 1 | `copy`, `copy_async`, `transpose`, [`matmul_f32_nt`](super::matmul_f32_nt) | tiles in shared memory, a product of fragments |
//! | 2 | [`ladder_tiled`] | tiled copy and tiled MMA; the next tile is loaded while this one is multiplied |
//! | 3 | [`ladder_vectorized_64`], [`ladder_vectorized_128`] | copies of 64 and 128 bits |
//! | 4 | [`ladder_overlapped`] | `cp.async` beside the product, operands in fragments |
//! | 5 | [`ladder_double_buffered`] | two tiles in shared memory, two steps in registers |
//! | 6 | [`ladder_tf32_tile`] | one tile on tensor cores |
//! | | [`ladder_tf32_ldmatrix`] | fragments by `ldmatrix`, retiled |
//! | | [`ladder_tf32_nn`], [`ladder_tf32_tn`] | the double buffer on tensor cores |
//! | 7 | [`mma`](super::mma) | three stages and more, swizzled; C through shared memory |
//!
//! There are three kernel texts: [`staged`] (steps 2 and 3), [`overlapped()`] (4, and the first tiles of 6) and
//! [`double_buffered`] (5 and 6). A step is a text and a [`Tiling`]: its tiles, copies and product, each a constant. What a
//! tiling promises of coalescing and of the banks of shared memory the compiler checks, and a step that breaks it does not
//! compile.
//!
//! All are f32 in memory, take any extents, and have leading dimensions as parameters. The guide `docs/guide/ladder.md` has
//! the reasons and the figures.

mod checks;
mod config;
mod double_buffer;
mod overlapped;
#[cfg_attr(not(feature = "ladder"), allow(unused_imports, reason = "the entry point uses them"))]
mod tf32_double_buffer;
#[cfg_attr(not(feature = "ladder"), allow(unused_imports, reason = "the entry point uses them"))]
mod tf32_ldmatrix;
#[cfg_attr(not(feature = "ladder"), allow(unused_imports, reason = "the entry point uses them"))]
mod tf32_tile;
mod tiled;
#[cfg_attr(not(feature = "ladder"), allow(unused_imports, reason = "the entry point uses them"))]
mod vectorized;

pub use config::{Fragments, Leading, Problem, Storage, StridesC, Tiling};
pub use double_buffer::{DoubleBuffered, double_buffered};
#[cfg(feature = "ladder")]
pub use entries::*;
pub use overlapped::{Async, Overlapped, overlapped};
pub use tf32_double_buffer::{Tf32Nn, Tf32Tn};
pub use tf32_ldmatrix::Tf32Ldmatrix;
pub use tf32_tile::Tf32Tile;
pub use tiled::{Staged, Tiled, staged};
pub use vectorized::{Vectorized64, Vectorized128};

/// The entry points.
#[cfg(feature = "ladder")]
mod entries {
    pub use super::double_buffer::ladder_double_buffered;
    pub use super::overlapped::ladder_overlapped;
    pub use super::tf32_double_buffer::{ladder_tf32_nn, ladder_tf32_tn};
    pub use super::tf32_ldmatrix::ladder_tf32_ldmatrix;
    pub use super::tf32_tile::ladder_tf32_tile;
    pub use super::tiled::ladder_tiled;
    pub use super::vectorized::{ladder_vectorized_64, ladder_vectorized_128};
}
