//! The gradients of RMSNorm and LayerNorm in float64.

use crate::prelude::*;

/// The gradients of x, weight, and with `center` bias. The inputs are x, dy, weight, dsum.
pub fn reference(center: bool, inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = input(inputs, 0);
    let ((_, dy), [weight, dsum]) = (input(inputs, 1), [2, 3].map(|index| elements(inputs, index)));
    let columns = *ty.shape.last().expect("x has a mode");
    let (mut dx, mut dweight, mut dbias) = (vec![0.0; x.len()], vec![0.0; columns], vec![0.0; columns]);
    each_row(&ty.shape, -1, |row| {
        let mean = |values: &dyn Fn(usize) -> f64| (0..columns).map(values).sum::<f64>() / columns as f64;
        let mid = if center { mean(&|i| x[row[i]]) } else { 0.0 };
        let scale = 1.0 / (mean(&|i| (x[row[i]] - mid).powi(2)) + options.float("eps")).sqrt();
        let normed = |i: usize| (x[row[i]] - mid) * scale;
        let slope = |i: usize| dy[row[i]] * weight.map_or(1.0, |weight| weight[i]);
        let along = mean(&|i| slope(i) * normed(i));
        let shift = if center { mean(&slope) } else { 0.0 };
        for (i, &at) in row.iter().enumerate() {
            dx[at] = scale * (slope(i) - shift - normed(i) * along) + dsum.map_or(0.0, |dsum| dsum[at]);
            dweight[i] += dy[at] * normed(i);
            dbias[i] += dy[at];
        }
    });
    let mut results = vec![dx, dweight];
    results.extend(center.then_some(dbias));
    results
}

/// Half a unit of the last place of the result's type, and the errors of sums and of `rsqrt.approx`
/// in f32.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype).max(2e-6);
