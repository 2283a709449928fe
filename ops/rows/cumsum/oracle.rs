//! Cumulative sums in float64.

use crate::prelude::*;

/// The sums along the axis of the options.
pub fn reference(inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = input(inputs, 0);
    let mut y = vec![0.0; x.len()];
    each_row(&ty.shape, options.int("axis"), |row| {
        let mut sum = 0.0;
        for &place in row {
            y[place] = if options.bool("exclusive") { sum } else { sum + x[place] };
            sum += x[place];
        }
    });
    vec![y]
}

/// Half a unit of the last place of the result's type, and sums of f32.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype).max(4e-6);
