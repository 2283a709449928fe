//! The host side of moye: devices, buffers, typed launches, and operations by kernels written in
//! Rust.
//!
//! The runtime is `moye-runtime`, and each family of operations a crate: `moye-movement`,
//! `moye-matmul`, `moye-attention`, `moye-rows`, `moye-products`, `moye-parallel`. This crate
//! re-exports the runtime, and the families that its features name.
//!
//! A [`Device`] is a GPU or the CPU simulator of one; everything here works on both.
//!
//! # Building without CUDA
//! Building and starting a program requires no CUDA toolkit and no driver: the driver's library is
//! loaded when a GPU is first used ([`driver`]).
//!
//! ```toml
//! [dependencies]
//! moye = "0.1"
//! ```
//!
//! # Features
//! `matmul` and `movement` are on by default; a library enables what it needs (`default-features =
//! false`). Without either, the crate offers devices, buffers, streams, modules and launches for
//! custom kernels, and compiles no kernel itself.
//! - `movement`: copies and transposes.
//! - `matmul`: products of matrices, for all operand types; `matmul-f32`, `matmul-f16`, ... for one
//!   type each.
//! - `attention`: attention of f16, bf16 and, on Hopper, e4m3; `attention-f16`, `attention-bf16`,
//!   `attention-e4m3` for one type each.
//! - `rows`, `products`, `parallel`: the crates `moye-rows`, `moye-products` and `moye-parallel` as
//!   modules.
//! - `cust`: calls the driver through `cust`'s bindings instead of this crate's. The build script
//!   of `cust` requires a folder that contains `lib64`, such as `/usr/local/cuda`, in
//!   `CUDA_LIBRARY_PATH`.
//! - `cudarc`: streams and slices of `cudarc`, see [`interop::cudarc`](interop). It needs no `cust`
//!   and does not enable cuBLAS.
//! - `candle`: products of `candle`'s tensors on the host, see [`interop::candle`](interop);
//!   `candle-cuda`: also of tensors on a GPU, for which candle compiles its kernels by `nvcc`.
//! - `simulator` (on by default): the code with which [`Device::sim`] runs kernels. It is most of a
//!   build; a program that computes on GPUs alone can omit it.
//! - `ladder`: the kernels of the guide's steps.
//! - `tune`: reads and writes files of [`operation::Plans`], which `moye tune` has measured.
//!
//! The program `moye` is in the package `moye-cli`. `moye-draw` draws layouts, `moye-eval`
//! evaluates layout expressions; `moye-bench` measures.
#![deny(missing_docs)]
// Kernels of the README and the guide, copied into a program, cause no warning about names.
#![doc(test(attr(deny(non_snake_case))))]

#[doc(inline)]
pub use moye_runtime::*;

#[cfg(feature = "attention-common")]
#[doc(inline)]
pub use moye_attention::{ATTENTION, Attention, AttentionElement, AttentionExplanation, Heads, HeadsMut};
#[cfg(feature = "matmul-common")]
#[doc(inline)]
pub use moye_matmul::{
    Explanation, Factor, Float8, MATMUL, Matmul, Operand, Output, Precision, explain_matmul, matmul,
    matmul_on,
};
#[cfg(feature = "movement")]
#[doc(inline)]
pub use moye_movement::{
    COPY, TRANSPOSE, copy, copy_on, explain_copy, explain_transpose, transpose, transpose_on,
};
#[cfg(feature = "parallel")]
pub use moye_parallel as parallel;
#[cfg(feature = "products")]
pub use moye_products as products;
#[cfg(feature = "rows")]
pub use moye_rows as rows;

/// The kernels of copies, transposes, products and attention, by features.
#[cfg(any(feature = "attention-common", feature = "ladder", feature = "movement"))]
pub mod kernels {
    #[cfg(feature = "attention-common")]
    pub use moye_attention::kernels as attention;
    #[cfg(any(feature = "ladder", feature = "matmul-common"))]
    pub use moye_matmul::kernels::{hopper, mma};
    #[cfg(feature = "matmul-f32")]
    pub use moye_matmul::ladder::{matmul_f32_nn, matmul_f32_nt, matmul_f32_tn, matmul_f32_tt};
    #[cfg(feature = "movement")]
    pub use moye_movement::kernels as movement;
    #[cfg(feature = "movement")]
    pub use moye_movement::kernels::{
        copy_lines, copy_long_lines, repack_lines, repack_transposed_u32, repack_u8, repack_u16, repack_u32,
        repack_u64, repack_u128, transpose_u8, transpose_u16, transpose_u32, transpose_u64, transpose_u128,
        transpose_words_u8, transpose_words_u16,
    };
    #[cfg(feature = "movement")]
    pub use moye_movement::ladder::{copy, copy_async, transpose};

    /// The steps of the guide's ladder.
    #[cfg(feature = "ladder")]
    pub mod ladder {
        pub use moye_matmul::ladder::*;
        pub use moye_movement::ladder::*;
    }
}

/// The PTX of each family of operations that features name, except those of the modules `rows`,
/// `products` and `parallel`, which have it themselves.
pub static SHIPPED_PTX: &[&Ptx] = &[
    #[cfg(feature = "attention-common")]
    &moye_attention::PTX,
    #[cfg(any(feature = "ladder", feature = "matmul-common"))]
    &moye_matmul::PTX,
    #[cfg(feature = "movement")]
    &moye_movement::PTX,
];

/// Streams and memory of other crates, each under the feature of the crate's name.
///
/// Without these features, [`Device::from_raw_context`], [`Stream::from_raw_handle`] and
/// [`Buffer::from_raw_parts`] accept the handles of any library.
pub mod interop {
    #[cfg(feature = "cudarc")]
    pub use moye_runtime::interop::cudarc;

    /// Operations on tensors of candle: a declared one, and products.
    #[cfg(feature = "candle")]
    pub mod candle {
        pub use moye_matmul::candle::*;
        pub use moye_runtime::interop::candle::*;
    }
}

/// The examples in the README and the guide are tests.
#[cfg(all(doctest, feature = "matmul"))]
mod pages {
    #[allow(clippy::needless_doctest_main)]
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[allow(clippy::needless_doctest_main)]
    #[doc = include_str!("README.md")]
    struct OfThePackage;
    #[doc = include_str!("../docs/guide/first_steps.md")]
    struct FirstSteps;
    #[doc = include_str!("../docs/guide/launches.md")]
    struct Launches;
    #[doc = include_str!("../docs/guide/products.md")]
    struct Products;
    #[doc = include_str!("../docs/guide/testing.md")]
    struct Testing;
    #[doc = include_str!("../docs/guide/interop.md")]
    struct Interop;
}
