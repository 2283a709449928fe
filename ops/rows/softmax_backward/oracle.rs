//! The gradient of softmax in float64.

use moye::operation::{ArrayType, Dtype, Options};

/// The gradient with respect to x, from row-major results and their gradient.
pub fn backward(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options, log: bool) -> Vec<Vec<f64>> {
    let (ty, y) = inputs[0].as_ref().expect("y is not optional");
    let (_, dy) = inputs[1].as_ref().expect("dy is not optional");
    let scale = options.float("scale");
    let mut dx = vec![0.0; y.len()];
    crate::each_row(&ty.shape, options.int("axis"), |row| {
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
pub fn tolerance(dtype: Dtype) -> f64 {
    crate::rounding(dtype).max(2e-6)
}
