//! The operation in float64, and the largest error.

use moye::operation::{ArrayType, Dtype, Options};

/// `x / (1 + exp(-x))` of each element.
pub fn reference(inputs: &[Option<(ArrayType, Vec<f64>)>], _: &Options) -> Vec<Vec<f64>> {
    let of = |values: &Vec<f64>| values.iter().map(|x| x / (1.0 + (-x).exp())).collect();
    inputs.iter().flatten().map(|(_, values)| of(values)).collect()
}

/// The rounding of the result's type; of f32 also the error of the exponential.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| match dtype {
    Dtype::F32 => 1e-6,
    Dtype::F16 => 5e-4,
    _ => 4e-3,
};
