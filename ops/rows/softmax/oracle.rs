//! Softmax in float64.

use super::call::diagonal;
use crate::prelude::*;

/// Softmax of row-major elements along the axis of the options, or its logarithm.
pub fn reference(log: bool, inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = input(inputs, 0);
    let scale = options.float("scale");
    let columns = ty.shape.last().copied().unwrap_or(1);
    let rows = ty.shape.len().checked_sub(2).map_or(1, |mode| ty.shape[mode]);
    let last = |row: usize| diagonal(&ty.shape, options).map_or(i64::MAX, |diagonal| row as i64 + diagonal);
    let [mask, bias] = [1, 2].map(|index| inputs[index].as_ref());
    let scaled = |place: usize| {
        let at = |(of, values): &Values| values[broadcast(&ty.shape, &of.shape, place)];
        let is_hidden = mask.is_some_and(|mask| at(mask) == 0.0)
            || (place % columns) as i64 > last(place / columns % rows);
        let bias = bias.map_or(0.0, at);
        if is_hidden { f64::NEG_INFINITY } else { x[place] * scale + bias }
    };
    let mut y = vec![0.0; x.len()];
    each_row(&ty.shape, options.int("axis"), |row| {
        let scaled: Vec<f64> = row.iter().map(|&place| scaled(place)).collect();
        let max = scaled.iter().fold(f64::NEG_INFINITY, |max, x| max.max(*x));
        let sum: f64 = scaled.iter().map(|x| (x - max).exp()).sum();
        for (place, x) in row.iter().zip(scaled) {
            y[*place] = if log { x - max - sum.ln() } else { (x - max).exp() / sum };
        }
    });
    vec![y]
}

/// Half a unit of the last place of the result's type, and the error of `ex2.approx` in f32.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype).max(2e-6);
