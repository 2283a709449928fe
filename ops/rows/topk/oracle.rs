//! The greatest elements of rows, by sorting.

use crate::prelude::*;

/// Values and indices; equal elements are in the order of their indices, and NaN is the greatest.
pub fn reference(inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = input(inputs, 0);
    let (axis, k) = (options.int("axis"), options.int("k") as usize);
    let rank = axis.rem_euclid(ty.shape.len() as i64) as usize;
    let inner: usize = ty.shape[rank + 1..].iter().product();
    let elements = x.len() / ty.shape[rank].max(1) * k;
    let (mut values, mut indices) = (vec![0.0; elements], vec![0.0; elements]);
    let mut row_number = 0;
    each_row(&ty.shape, axis, |row| {
        let mut sorted: Vec<_> = (0..row.len()).collect();
        // The sum makes -0 equal to 0.
        sorted.sort_by(|&a, &b| (x[row[b]] + 0.0).total_cmp(&(x[row[a]] + 0.0)));
        let (outer, column) = (row_number / inner, row_number % inner);
        for (i, &at) in sorted[..k].iter().enumerate() {
            let place = (outer * k + i) * inner + column;
            (values[place], indices[place]) = (x[row[at]], at as f64);
        }
        row_number += 1;
    });
    vec![values, indices]
}

/// None: elements are copied.
pub const TOLERANCE: fn(Dtype) -> f64 = |_| 0.0;
