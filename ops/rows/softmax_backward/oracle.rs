//! The gradient of softmax in float64.

use crate::prelude::*;

/// The gradient with respect to x, from row-major results and their gradient.
pub fn reference(log: bool, inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (ty, y) = input(inputs, 0);
    let (_, dy) = input(inputs, 1);
    let scale = options.float("scale");
    let mut dx = vec![0.0; y.len()];
    each_row(&ty.shape, options.int("axis"), |row| {
        let sum: f64 = row.iter().map(|&at| if log { dy[at] } else { y[at] * dy[at] }).sum();
        for &at in row {
            let slope = if log { dy[at] - y[at].exp() * sum } else { y[at] * (dy[at] - sum) };
            dx[at] = scale * slope;
        }
    });
    vec![dx]
}

/// Half a unit of the last place of the result's type, and the errors of sums and of `ex2.approx`
/// in f32.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype).max(2e-6);
