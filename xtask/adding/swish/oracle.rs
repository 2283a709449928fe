//! Swish in float64.

use moye::operation::{ArrayType, Dtype};

/// `x / (1 + exp(-x))` of each element.
pub fn swish(inputs: &[Option<(ArrayType, Vec<f64>)>]) -> Vec<Vec<f64>> {
    let of = |values: &Vec<f64>| values.iter().map(|x| x / (1.0 + (-x).exp())).collect();
    inputs.iter().flatten().map(|(_, values)| of(values)).collect()
}

/// Half a unit of the last place of the result's type, and the error of `ex2.approx` in f32.
pub fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 5e-4,
        Dtype::Bf16 => 4e-3,
        _ => 1e-6,
    }
}
