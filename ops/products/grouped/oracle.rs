//! A product for each group of rows.

use super::cases;
use crate::{bounds, operand};
use moye_runtime::operation::harness::UNWRITTEN;
use moye_runtime::operation::{ArrayType, Dtype, Options};

/// `c[rows of g] = a[rows of g] b[g]^T`.
pub fn grouped(inputs: &[Option<(ArrayType, Vec<f64>)>], _: &Options) -> Vec<Vec<f64>> {
    let [a, b, ends] = [0, 1, 2].map(|i| inputs[i].as_ref().expect("it is not optional"));
    let &[_, n, k] = &b.0.shape[..] else { panic!("checked: b has three modes") };
    let rows: usize = a.0.shape[..a.0.shape.len() - 1].iter().product();
    let mut c = vec![UNWRITTEN; rows * n];
    for (g, rows) in operand::groups_of(&a.0, &ends.1).into_iter().enumerate() {
        for (i, j) in rows.flat_map(|i| (0..n).map(move |j| (i, j))) {
            c[i * n + j] = (0..k).map(|l| a.1[i * k + l] * b.1[(g * n + j) * k + l]).sum();
        }
    }
    vec![c]
}

/// `a[i] b[i]^T` of each pair.
pub fn pairs(inputs: &[Option<(ArrayType, Vec<f64>)>], _: &Options) -> Vec<Vec<f64>> {
    let of = |pair: &[Option<(ArrayType, Vec<f64>)>]| {
        let [Some((of_a, a)), Some((of_b, b))] = pair else { return Vec::new() };
        let (&[m, k], n) = (&of_a.shape[..], of_b.shape[0]) else { panic!("checked: a has two modes") };
        let dot = |at: usize| (0..k).map(|l| a[at / n * k + l] * b[at % n * k + l]).sum();
        (0..m * n).map(dot).collect()
    };
    inputs.chunks(2).map(of).collect()
}

/// Rounding of the result, and of sums.
pub fn tolerance(dtype: Dtype) -> f64 {
    let k = bounds::most([cases::BENCH, cases::BENCH_PAIRS], |shape| shape.last());
    bounds::rounding(dtype) + bounds::sums(k)
}
