//! The kernels of 8-bit floats by the types of operands and results.

use moye_runtime::operation::Dtype;
use moye_runtime::{Error, Result};

/// Element types of results.
pub const RESULTS: &[Dtype] = &[Dtype::Bf16, Dtype::F16, Dtype::F32];

/// The index of the operand types: e4m3 by e4m3, e4m3 by e5m2, e5m2 by e4m3, e5m2 by e5m2.
/// The first one has results of bf16, f16 and f32, the others of bf16 and f32.
///
/// # Errors
/// [`Error::Unsupported`] for other results.
pub fn number(operation: &'static str, [a, b]: [Dtype; 2], result: Dtype) -> Result<usize> {
    let number = 2 * usize::from(a == Dtype::E5m2) + usize::from(b == Dtype::E5m2);
    let results = match number {
        0 => "bfloat16, float16 or float32",
        _ => "bfloat16 or float32",
    };
    if RESULTS.contains(&result) && (number == 0 || result != Dtype::F16) {
        return Ok(number);
    }
    let detail = format!("results are {result}, and of {a} by {b} they may be {results}");
    Err(Error::Unsupported { operation, detail })
}
