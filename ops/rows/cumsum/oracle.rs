//! Cumulative sums in float64.

use moye::operation::{ArrayType, Dtype, Options};

/// The sums along the axis of the options.
pub fn cumsum(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = inputs[0].as_ref().expect("x is not optional");
    let mut y = vec![0.0; x.len()];
    crate::each_row(&ty.shape, options.int("axis"), |row| {
        let mut sum = 0.0;
        for &place in row {
            y[place] = if options.bool("exclusive") { sum } else { sum + x[place] };
            sum += x[place];
        }
    });
    vec![y]
}

/// Half a unit of the last place of the result's type, and sums of f32.
pub fn tolerance(dtype: Dtype) -> f64 {
    crate::rounding(dtype).max(4e-6)
}
