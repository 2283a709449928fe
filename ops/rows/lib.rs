//! Operations along rows: a folder and a feature each.
//!
//! Each folder has all of an operation: what it is and its builder (`mod.rs`), its kernel
//! (`kernel.rs`), the way from a call to launches (`call.rs`), the float64 reference (`oracle.rs`)
//! and its cases (`cases.rs`). The kernels are written with the row shapes of
//! [`moye_device::algorithm`]: the threads that share a row hold it in registers, so that it is read
//! once and written once.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![deny(missing_docs)]

#[cfg(feature = "cumsum")]
pub mod cumsum;
#[cfg(feature = "norm")]
pub mod norm;
#[cfg(any(feature = "cumsum", feature = "quantize", feature = "sample", feature = "topk"))]
pub mod place;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, reason = "each operation needs a part of it")]
mod plan;
#[cfg(feature = "quantize")]
pub mod quantize;
#[cfg(feature = "reduce")]
pub mod reduce;
#[cfg(feature = "sample")]
pub mod sample;
#[cfg(feature = "softmax")]
pub mod softmax;
#[cfg(feature = "topk")]
pub mod topk;

#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
mod host {
    use moye::operation::{Declaration, Dtype};
    use moye::{Device, Error, Ptx, Result, Stream};

    /// The kernels of the operations that features name.
    pub static PTX: Ptx = moye::include_packed_ptx!("moye_rows");

    /// The operations that features name.
    pub static OPERATIONS: &[&Declaration] = &[
        #[cfg(feature = "softmax")]
        &crate::softmax::SOFTMAX,
        #[cfg(feature = "softmax")]
        &crate::softmax::LOG_SOFTMAX,
        #[cfg(feature = "norm")]
        &crate::norm::RMS_NORM,
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
        #[cfg(feature = "topk")]
        &crate::topk::TOPK,
        #[cfg(feature = "sample")]
        &crate::sample::SAMPLE,
        #[cfg(feature = "quantize")]
        &crate::quantize::QUANTIZE,
        #[cfg(feature = "quantize")]
        &crate::quantize::DEQUANTIZE,
        #[cfg(feature = "cumsum")]
        &crate::cumsum::CUMSUM,
    ];

    /// Whether the buffers of a call are of the stream's device.
    pub(crate) fn check_devices(operation: &'static str, stream: &Stream, buffers: &[&Device]) -> Result<()> {
        match buffers.iter().position(|device| *device != stream.device()) {
            None => Ok(()),
            Some(argument) => Err(Error::WrongDevice {
                kernel: operation,
                argument,
                buffer_device: format!("{:?}", buffers[argument]),
                device: format!("{:?}", stream.device()),
            }),
        }
    }

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
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
pub use host::{OPERATIONS, PTX};
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
pub(crate) use host::{check_devices, each_row, of_floats, rounding};

/// What a registry shows.
#[cfg(all(doctest, feature = "softmax"))]
#[doc = include_str!("README.md")]
mod readme {}
