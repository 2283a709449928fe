//! The greatest elements of rows, by sorting.

use moye::operation::{ArrayType, Dtype, Options};

/// Values and indices; of equal elements the first one comes first.
pub fn topk(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = inputs[0].as_ref().expect("x is not optional");
    let (axis, k) = (options.int("axis"), options.int("k") as usize);
    let rank = axis.rem_euclid(ty.shape.len() as i64) as usize;
    let inner: usize = ty.shape[rank + 1..].iter().product();
    let elements = x.len() / ty.shape[rank].max(1) * k;
    let (mut values, mut indices) = (vec![0.0; elements], vec![0.0; elements]);
    let mut row_number = 0;
    crate::each_row(&ty.shape, axis, |row| {
        let mut sorted: Vec<_> = (0..row.len()).collect();
        sorted.sort_by(|&a, &b| x[row[b]].partial_cmp(&x[row[a]]).expect("numbers"));
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
pub fn tolerance(_: Dtype) -> f64 {
    0.0
}
