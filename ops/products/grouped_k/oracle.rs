//! A product along the rows of each group.

use super::cases;
use crate::{bounds, operand};
use moye_runtime::operation::{ArrayType, Dtype, Options};

/// `c[g] = a[rows of g]^T b[rows of g]`.
pub fn grouped_k(inputs: &[Option<(ArrayType, Vec<f64>)>], _: &Options) -> Vec<Vec<f64>> {
    let [a, b, ends] = [0, 1, 2].map(|i| inputs[i].as_ref().expect("it is not optional"));
    let (m, n) = (a.0.shape[1], b.0.shape[1]);
    let mut c = Vec::with_capacity(ends.1.len() * m * n);
    for rows in operand::groups_of(&a.0, &ends.1) {
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            c.push(rows.clone().map(|row| a.1[row * m + i] * b.1[row * n + j]).sum());
        }
    }
    vec![c]
}

/// Rounding of the result, and of sums.
pub fn tolerance(dtype: Dtype) -> f64 {
    let k = bounds::most([cases::CASES, cases::BENCH], |shape| shape.first());
    bounds::rounding(dtype) + bounds::sums(k)
}
