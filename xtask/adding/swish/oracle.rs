//! Swish in float64.

use crate::prelude::*;

/// `x / (1 + exp(-x))` of each element.
pub fn reference(inputs: &Inputs, _: &Options) -> Vec<Vec<f64>> {
    vec![input(inputs, 0).1.iter().map(|x| x / (1.0 + (-x).exp())).collect()]
}

/// Half a unit of the last place of the result's type, and the error of `ex2.approx` in f32.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype).max(1e-6);
