//! Operations along rows and by elements: a folder and a feature each.
//!
//! Each folder has all of an operation: what it is and its builder (`mod.rs`), its kernel
//! (`kernel.rs`), the launches of a call (`call.rs`), the float64 reference (`oracle.rs`)
//! and its cases (`cases.rs`). The kernels are written with the row shapes of
//! [`moye_device::algorithm`]: the threads that share a row hold it in registers, so that it is
//! read once and written once. Elementwise kernels are maps of vectors. A folder compiles in
//! another crate with the files beside it, which operations share.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![deny(missing_docs)]

#[cfg(all(not(target_arch = "nvptx64"), feature = "activation"))]
pub mod activation;
#[cfg(all(not(target_arch = "nvptx64"), feature = "affine"))]
pub mod affine;
#[cfg(all(not(target_arch = "nvptx64"), feature = "append"))]
pub mod append;
#[cfg(any(feature = "dequantize", feature = "norm", feature = "quantize"))]
pub mod code;
#[cfg(all(not(target_arch = "nvptx64"), feature = "cross_entropy"))]
pub mod cross_entropy;
#[cfg(all(not(target_arch = "nvptx64"), feature = "cumsum"))]
pub mod cumsum;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, unused_imports, unused_macros, reason = "some operation needs it")]
mod declare;
#[cfg(all(not(target_arch = "nvptx64"), feature = "dequantize"))]
pub mod dequantize;
#[cfg(all(not(target_arch = "nvptx64"), feature = "embedding"))]
pub mod embedding;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, reason = "some operation needs it")]
mod groups;
#[cfg(all(not(target_arch = "nvptx64"), feature = "histogram"))]
pub mod histogram;
#[cfg(all(not(target_arch = "nvptx64"), feature = "int4"))]
pub mod int4;
#[cfg(any(feature = "norm", feature = "norm_backward"))]
mod moments;
#[cfg(all(not(target_arch = "nvptx64"), feature = "norm"))]
pub mod norm;
#[cfg(all(not(target_arch = "nvptx64"), feature = "norm_backward"))]
pub mod norm_backward;
#[cfg(feature = "kernels")]
pub mod place;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, reason = "some operation needs it")]
mod plan;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(unused_imports, reason = "some operation needs it")]
mod prelude;
#[cfg(all(not(target_arch = "nvptx64"), feature = "quantize"))]
pub mod quantize;
#[cfg(all(not(target_arch = "nvptx64"), feature = "reduce"))]
pub mod reduce;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, reason = "some operation needs it")]
mod reference;
#[cfg(all(not(target_arch = "nvptx64"), feature = "rope"))]
pub mod rope;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, reason = "some operation needs it")]
mod rows;
#[cfg(all(not(target_arch = "nvptx64"), feature = "sample"))]
pub mod sample;
#[cfg(all(not(target_arch = "nvptx64"), feature = "softmax"))]
pub mod softmax;
#[cfg(all(not(target_arch = "nvptx64"), feature = "softmax_backward"))]
pub mod softmax_backward;
#[cfg(any(feature = "dequantize", feature = "quantize"))]
pub mod tiles;
#[cfg(all(not(target_arch = "nvptx64"), feature = "topk"))]
pub mod topk;

/// The kernels of the enabled operations.
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
pub static PTX: moye_runtime::Ptx = moye_runtime::include_ptx!("moye_rows");

/// Calls a macro with the declarations of each folder, for the list and the tests.
#[doc(hidden)]
#[macro_export]
macro_rules! operations {
    ($with:ident) => {
        $with! {
            "activation" activation: SWIGLU, GEGLU, RELU2GLU, BIAS_ACTIVATION;
            "affine" affine: ADD, AXPBY, CAST, FULL_LIKE;
            "append" append: APPEND;
            "cross_entropy" cross_entropy: CROSS_ENTROPY;
            "cumsum" cumsum: CUMSUM;
            "embedding" embedding: EMBEDDING;
            "histogram" histogram: HISTC, BINCOUNT;
            "int4" int4: QUANTIZE_INT4, QUANTIZE_UINT4, DEQUANTIZE_INT4;
            "norm" norm: RMS_NORM, LAYER_NORM, RMS_NORM_QUANTIZED, LAYER_NORM_QUANTIZED;
            "norm_backward" norm_backward: RMS_NORM_BACKWARD, LAYER_NORM_BACKWARD;
            "quantize" quantize: QUANTIZE;
            "dequantize" dequantize: DEQUANTIZE;
            "reduce" reduce: SUM, MEAN, NORM, MAX, MIN, LOG_SUM_EXP, VAR, ARG_MAX, ARG_MIN;
            "rope" rope: ROPE;
            "sample" sample: SAMPLE;
            "softmax" softmax: SOFTMAX, LOG_SOFTMAX;
            "softmax_backward" softmax_backward: SOFTMAX_BACKWARD, LOG_SOFTMAX_BACKWARD;
            "topk" topk: TOPK;
        }
    };
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! list {
    ($($feature:literal $folder:ident: $($operation:ident),+;)+) => {
        /// The enabled operations.
        #[cfg(feature = "kernels")]
        pub static OPERATIONS: &[&moye_runtime::operation::Declaration] = &[$($(
            #[cfg(feature = $feature)]
            &$folder::$operation,
        )+)+];
    };
}
/// On a GPU only the kernels exist.
#[cfg(target_arch = "nvptx64")]
macro_rules! list {
    ($($feature:literal $folder:ident: $($operation:ident),+;)+) => { $(
        #[cfg(feature = $feature)]
        #[allow(missing_docs, reason = "its file is the host's")]
        pub mod $folder {
            pub mod kernel;
        }
    )+ };
}
operations!(list);

/// The index of this thread in its block, read again for each tile: otherwise addresses that depend
/// on it would stay in registers from tile to tile.
#[inline(always)]
#[allow(dead_code, reason = "some operation needs it")]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn thread<C: moye_device::algorithm::RowShape>() -> u32 {
    let thread = moye_device::arch::thread_idx().x;
    if const { C::AHEAD } { moye_device::arch::opaque(thread) } else { thread }
}

/// The README that a registry shows.
#[cfg(all(doctest, feature = "softmax"))]
#[doc = include_str!("README.md")]
mod readme {}
