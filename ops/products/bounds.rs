//! The relative errors in norm that formats and sums allow: the tolerances of the references.

use moye_runtime::operation::{Case, Dtype};

/// Half a unit in the last place of this type, relative to the value: the error of an element that
/// is rounded once.
pub fn rounding(dtype: Dtype) -> f64 {
    // Bits of the fraction and the leading one.
    let precision = match dtype {
        Dtype::F16 => 11,
        Dtype::Bf16 => 8,
        Dtype::E4m3 => 4,
        Dtype::E5m2 => 3,
        _ => 24,
    };
    2f64.powi(-precision)
}

/// The error of elements that are the result of `count` roundings: independent errors add in
/// squares.
pub fn roundings(dtype: Dtype, count: u32) -> f64 {
    f64::from(count).sqrt() * rounding(dtype)
}

/// The error of sums of `k` products in f32: tensor cores truncate partial sums to 24 bits, and
/// independent errors add in squares.
pub fn sums(k: usize) -> f64 {
    (k as f64).sqrt() * 2f64.powi(-23)
}

/// The error of sums of products of 8-bit floats that are promoted every 128 of K: tensor cores
/// truncate a partial sum to 14 bits after each of the four instructions of 32 products.
pub fn promoted_sums() -> f64 {
    4.0 * 2f64.powi(-13)
}

/// The error of elements of this type, rounded from values with an `error`: a value within it of
/// the midpoint of two elements may round to either, and they are two halves of a unit apart.
pub fn either(dtype: Dtype, error: f64) -> f64 {
    (2.0 * rounding(dtype) * error).sqrt()
}

/// The greatest extent that `mode` selects of a shape, of all inputs of cases.
pub fn most(cases: [&[Case]; 2], mode: impl Fn(&[usize]) -> Option<&usize>) -> usize {
    let inputs = cases.into_iter().flatten().flat_map(|case| case.inputs.iter().flatten());
    inputs.filter_map(|shape| mode(shape).copied()).max().unwrap_or(1)
}
