//! Operations along rows and by elements: a folder and a feature each.
//!
//! Each folder has all of an operation: what it is and its builder (`mod.rs`), its kernel
//! (`kernel.rs`), the way from a call to launches (`call.rs`), the float64 reference (`oracle.rs`)
//! and its cases (`cases.rs`). The kernels are written with the row shapes of
//! [`moye_device::algorithm`]: the threads that share a row hold it in registers, so that it is
//! read once and written once. Those by elements are maps of vectors.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![deny(missing_docs)]

#[cfg(feature = "activation")]
pub mod activation;
#[cfg(feature = "affine")]
pub mod affine;
#[cfg(feature = "append")]
pub mod append;
#[cfg(any(feature = "dequantize", feature = "norm", feature = "quantize"))]
pub mod code;
#[cfg(feature = "cross_entropy")]
pub mod cross_entropy;
#[cfg(feature = "cumsum")]
pub mod cumsum;
#[cfg(feature = "dequantize")]
pub mod dequantize;
#[cfg(feature = "embedding")]
pub mod embedding;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, reason = "some operation needs it")]
mod groups;
#[cfg(feature = "histogram")]
pub mod histogram;
#[cfg(feature = "int4")]
pub mod int4;
#[cfg(feature = "norm")]
pub mod norm;
#[cfg(feature = "norm_backward")]
pub mod norm_backward;
#[cfg(feature = "kernels")]
pub mod place;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, reason = "some operation needs it")]
mod plan;
#[cfg(feature = "quantize")]
pub mod quantize;
#[cfg(feature = "reduce")]
pub mod reduce;
#[cfg(feature = "rope")]
pub mod rope;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, reason = "some operation needs it")]
mod rows;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(unused_imports, unused_macros, reason = "some operation needs it")]
mod runs;
#[cfg(feature = "sample")]
pub mod sample;
#[cfg(feature = "softmax")]
pub mod softmax;
#[cfg(feature = "softmax_backward")]
pub mod softmax_backward;
#[cfg(any(feature = "dequantize", feature = "quantize"))]
pub mod tiles;
#[cfg(feature = "topk")]
pub mod topk;

#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, unused_macros, unused_imports, reason = "some operation needs it")]
mod host {
    use moye::operation::{Declaration, Dtype, Options};
    use moye::{Error, Ptx, Result};

    /// The kernels of the operations that features name.
    pub static PTX: Ptx = moye::include_ptx!("moye_rows");

    /// The operations that features name.
    pub static OPERATIONS: &[&Declaration] = &[
        #[cfg(feature = "activation")]
        &crate::activation::SWIGLU,
        #[cfg(feature = "activation")]
        &crate::activation::GEGLU,
        #[cfg(feature = "activation")]
        &crate::activation::RELU2GLU,
        #[cfg(feature = "activation")]
        &crate::activation::BIAS_ACTIVATION,
        #[cfg(feature = "affine")]
        &crate::affine::ADD,
        #[cfg(feature = "affine")]
        &crate::affine::AXPBY,
        #[cfg(feature = "affine")]
        &crate::affine::CAST,
        #[cfg(feature = "affine")]
        &crate::affine::FULL_LIKE,
        #[cfg(feature = "append")]
        &crate::append::APPEND,
        #[cfg(feature = "cross_entropy")]
        &crate::cross_entropy::CROSS_ENTROPY,
        #[cfg(feature = "cumsum")]
        &crate::cumsum::CUMSUM,
        #[cfg(feature = "embedding")]
        &crate::embedding::EMBEDDING,
        #[cfg(feature = "histogram")]
        &crate::histogram::HISTC,
        #[cfg(feature = "histogram")]
        &crate::histogram::BINCOUNT,
        #[cfg(feature = "int4")]
        &crate::int4::QUANTIZE_INT4,
        #[cfg(feature = "int4")]
        &crate::int4::QUANTIZE_UINT4,
        #[cfg(feature = "int4")]
        &crate::int4::DEQUANTIZE_INT4,
        #[cfg(feature = "norm")]
        &crate::norm::RMS_NORM,
        #[cfg(feature = "norm")]
        &crate::norm::LAYER_NORM,
        #[cfg(feature = "norm")]
        &crate::norm::RMS_NORM_QUANTIZED,
        #[cfg(feature = "norm")]
        &crate::norm::LAYER_NORM_QUANTIZED,
        #[cfg(feature = "norm_backward")]
        &crate::norm_backward::RMS_NORM_BACKWARD,
        #[cfg(feature = "norm_backward")]
        &crate::norm_backward::LAYER_NORM_BACKWARD,
        #[cfg(feature = "quantize")]
        &crate::quantize::QUANTIZE,
        #[cfg(feature = "dequantize")]
        &crate::dequantize::DEQUANTIZE,
        #[cfg(feature = "reduce")]
        &crate::reduce::SUM,
        #[cfg(feature = "reduce")]
        &crate::reduce::MEAN,
        #[cfg(feature = "reduce")]
        &crate::reduce::NORM,
        #[cfg(feature = "reduce")]
        &crate::reduce::MAX,
        #[cfg(feature = "reduce")]
        &crate::reduce::MIN,
        #[cfg(feature = "reduce")]
        &crate::reduce::LOG_SUM_EXP,
        #[cfg(feature = "reduce")]
        &crate::reduce::VAR,
        #[cfg(feature = "reduce")]
        &crate::reduce::ARG_MAX,
        #[cfg(feature = "reduce")]
        &crate::reduce::ARG_MIN,
        #[cfg(feature = "rope")]
        &crate::rope::ROPE,
        #[cfg(feature = "sample")]
        &crate::sample::SAMPLE,
        #[cfg(feature = "softmax")]
        &crate::softmax::SOFTMAX,
        #[cfg(feature = "softmax")]
        &crate::softmax::LOG_SOFTMAX,
        #[cfg(feature = "softmax_backward")]
        &crate::softmax_backward::SOFTMAX_BACKWARD,
        #[cfg(feature = "softmax_backward")]
        &crate::softmax_backward::LOG_SOFTMAX_BACKWARD,
        #[cfg(feature = "topk")]
        &crate::topk::TOPK,
    ];

    /// The relative error of results that are rounded to a type: half a unit of the last place.
    pub(crate) const fn rounding(dtype: Dtype) -> f64 {
        match dtype {
            Dtype::F32 => 1e-7,
            Dtype::F16 => 5e-4,
            Dtype::Bf16 => 4e-3,
            _ => 0.0,
        }
    }

    /// Calls `$call` with `$t` as the Rust type of floats `$dtype`, in a function with a
    /// [`Result`]; elements of integers have no kernels.
    macro_rules! of_floats {
        ($operation:expr, $dtype:expr, $t:ident => $call:expr) => {{
            macro_rules! of {
                ($of:ty) => {{
                    type $t = $of;
                    $call
                }};
            }
            match $dtype {
                moye::operation::Dtype::F32 => of!(f32),
                moye::operation::Dtype::F16 => of!(half::f16),
                moye::operation::Dtype::Bf16 => of!(half::bf16),
                other => {
                    let detail = format!("there are no kernels for elements of {other}");
                    return Err(moye::Error::Unsupported { operation: $operation, detail });
                }
            }
        }};
    }
    pub(crate) use of_floats;

    /// The value of an option that is an element type of floats.
    pub(crate) fn float_option(operation: &'static str, options: &Options, name: &str) -> Result<Dtype> {
        let dtype = options.dtype(name);
        if Dtype::FLOATS.contains(&dtype) {
            return Ok(dtype);
        }
        let detail = format!("{name} is {dtype}, and may be float32, float16 or bfloat16");
        Err(Error::Unsupported { operation, detail })
    }

    /// The place of an element, at a row-major place of a shape, in an array that is broadcast to
    /// it.
    pub(crate) fn broadcast(shape: &[usize], array: &[usize], place: usize) -> usize {
        let (mut rest, mut at, mut stride) = (place, 0, 1);
        for (extent, own) in shape.iter().rev().zip(array.iter().rev()) {
            at += if *own == 1 { 0 } else { rest % extent * stride };
            (rest, stride) = (rest / extent, stride * own);
        }
        at
    }

    /// Calls `with` with the row-major places of each row along an axis.
    pub(crate) fn each_row(shape: &[usize], axis: i64, mut with: impl FnMut(&[usize])) {
        let axis = axis.rem_euclid(shape.len() as i64) as usize;
        let inner: usize = shape[axis + 1..].iter().product();
        let outer: usize = shape[..axis].iter().product();
        for (i, j) in (0..outer).flat_map(|i| (0..inner).map(move |j| (i, j))) {
            let row: Vec<_> = (0..shape[axis]).map(|k| (i * shape[axis] + k) * inner + j).collect();
            with(&row);
        }
    }
}
/// The number of this thread in its block, anew for each tile: otherwise addresses that follow from
/// it would stay in registers from tile to tile.
#[inline(always)]
#[allow(dead_code, reason = "some operation needs it")]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn thread<C: moye_device::algorithm::RowShape>() -> u32 {
    let thread = moye_device::arch::thread_idx().x;
    if const { C::AHEAD } { moye_device::arch::opaque(thread) } else { thread }
}

#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
pub use host::{OPERATIONS, PTX};
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(unused_imports, reason = "some operation needs it")]
pub(crate) use host::{broadcast, each_row, float_option, of_floats, rounding};
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(unused_imports, reason = "some operation needs it")]
pub(crate) use runs::runs;

/// What a registry shows.
#[cfg(all(doctest, feature = "softmax"))]
#[doc = include_str!("README.md")]
mod readme {}
