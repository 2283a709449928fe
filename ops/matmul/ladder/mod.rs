//! The ladder: MoYe's kernels, a page each. Each step has one reason to differ from the previous
//! one.
//!
//! | step | kernel | what is new |
//! | --- | --- | --- |
//! | 1 | `ladder_plain_copy` | a tile through shared memory |
//! | | `copy`, `copy_async`, `transpose`, [`matmul_f32_nt`] | tiles in shared memory, a product of fragments |
//! | 2 | [`ladder_tiled`] | tiled copy and tiled MMA; the next tile is loaded while this one is multiplied |
//! | 3 | [`ladder_vectorized_64`], [`ladder_vectorized_128`] | copies of 64 and 128 bits |
//! | 4 | [`ladder_overlapped`] | `cp.async` beside the product, operands in fragments |
//! | 5 | [`ladder_double_buffered`] | two tiles in shared memory, two steps in registers |
//! | 6 | [`ladder_tf32_tile`] | one tile on tensor cores |
//! | | [`ladder_tf32_ldmatrix`] | fragments by `ldmatrix`, retiled |
//! | | [`ladder_tf32_nn`], [`ladder_tf32_tn`] | the double buffer on tensor cores |
//! | 7 | [`mma`](crate::kernels::mma) | three stages and more, swizzled; C through shared memory |
//!
//! The copies and the transpose are in `moye_movement::ladder`. Each file is one kernel, written
//! with the language alone. Its `const` states what the design relies on: whole sectors of global
//! memory, and one word at a time of each bank of shared memory. A kernel that breaks this does not
//! compile.
//!
//! All are f32 in memory and take any extents. Steps 2 to 6 take leading dimensions. Reasons and
//! figures: `docs/guide/ladder.md`.
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the body of an `unsafe fn` is under the contract that its documentation states"
)]
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

#[cfg(feature = "f32")]
mod matmul;
#[cfg(feature = "f32")]
pub use matmul::{matmul_f32_nn, matmul_f32_nt, matmul_f32_tn, matmul_f32_tt};

/// Steps 2 to 6, for sm_80 only: newer GPUs run the same PTX.
macro_rules! steps {
    ($($file:ident: $($kernel:ident),+;)+) => { $(
        #[cfg(all(feature = "ladder", not(target_feature = "sm_90a")))]
        mod $file;
        #[cfg(all(feature = "ladder", not(target_feature = "sm_90a")))]
        pub use $file::{$($kernel),+};
    )+ };
}
steps! {
    tiled: ladder_tiled;
    vectorized: ladder_vectorized_64, ladder_vectorized_128;
    overlapped: ladder_overlapped;
    double_buffer: ladder_double_buffered;
    tf32_tile: ladder_tf32_tile;
    tf32_ldmatrix: ladder_tf32_ldmatrix;
    tf32_nn: ladder_tf32_nn;
    tf32_tn: ladder_tf32_tn;
}
