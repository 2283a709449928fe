//! Cross-entropy in float64.

use crate::prelude::*;

/// The loss of each row, the logarithm of its sum of exponentials, and the gradient.
pub fn reference(inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = input(inputs, 0);
    let (_, targets) = input(inputs, 1);
    let dloss = inputs[2].as_ref().map(|(_, dloss)| dloss);
    let (smoothing, scale) = (options.float("label_smoothing"), options.float("grad_scale"));
    let (mut losses, mut logarithms, mut dx) = (Vec::new(), Vec::new(), vec![0.0; x.len()]);
    each_row(&ty.shape, options.int("axis"), |row| {
        let (target, n) = (targets[losses.len()] as i64, row.len() as f64);
        let scale = scale * dloss.map_or(1.0, |dloss| dloss[losses.len()]);
        let max = row.iter().fold(f64::NEG_INFINITY, |max, &at| max.max(x[at]));
        let lse = max + row.iter().map(|&at| (x[at] - max).exp()).sum::<f64>().ln();
        logarithms.push(lse);
        if target == options.int("ignore_index") {
            losses.push(0.0);
            return;
        }
        let known = usize::try_from(target).ok().and_then(|target| row.get(target));
        // Without smoothing, an infinity beside the target does not count.
        let mean = if smoothing > 0.0 { row.iter().map(|&at| x[at]).sum::<f64>() / n } else { 0.0 };
        losses.push(known.map_or(f64::NAN, |&at| lse - (1.0 - smoothing) * x[at] - smoothing * mean));
        for &at in row {
            let hit = if Some(&at) == known { 1.0 - smoothing } else { 0.0 };
            let slope = (x[at] - lse).exp() - smoothing / n - hit;
            dx[at] = if known.is_some() { scale * slope } else { f64::NAN };
        }
    });
    vec![losses, logarithms, dx]
}

/// Half a unit of the last place of the result's type, and the errors of sums, `ex2.approx` and
/// `lg2.approx` in f32.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype).max(3e-6);
