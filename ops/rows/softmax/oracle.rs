//! Softmax in float64.

use moye::operation::{ArrayType, Dtype, Options};

/// Softmax of row-major elements along the axis of the options, or its logarithm.
pub fn softmax(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options, log: bool) -> Vec<Vec<f64>> {
    let (ty, x) = inputs[0].as_ref().expect("x is not optional");
    let scale = options.float("scale");
    let mut y = vec![0.0; x.len()];
    crate::each_row(&ty.shape, options.int("axis"), |row| {
        let scaled: Vec<f64> = row.iter().map(|&place| x[place] * scale).collect();
        let max = scaled.iter().fold(f64::NEG_INFINITY, |max, x| max.max(*x));
        let sum: f64 = scaled.iter().map(|x| (x - max).exp()).sum();
        for (place, x) in row.iter().zip(scaled) {
            y[*place] = if log { x - max - sum.ln() } else { (x - max).exp() / sum };
        }
    });
    vec![y]
}

/// Half a unit of the last place of the result's type, and the error of `ex2.approx` in f32.
pub fn tolerance(dtype: Dtype) -> f64 {
    crate::rounding(dtype).max(2e-6)
}
