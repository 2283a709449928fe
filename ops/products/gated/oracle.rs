//! Gated products in float64.

use super::cases;
use crate::bounds;
use moye_runtime::operation::{ArrayType, Dtype, Options};

/// `silu(x gate^T) * (x up^T)`.
pub fn gated(inputs: &[Option<(ArrayType, Vec<f64>)>], _: &Options) -> Vec<Vec<f64>> {
    let [x, w] = [0, 1].map(|i| inputs[i].as_ref().expect("it is not optional"));
    let (&[rows, k], m) = (&w.0.shape[..], x.0.shape[0]) else { panic!("checked: gate_up has two modes") };
    let n = rows / 2;
    let dot = |i: usize, j: usize| (0..k).map(|l| x.1[i * k + l] * w.1[j * k + l]).sum::<f64>();
    let silu = |x: f64| x / (1.0 + (-x).exp());
    vec![(0..m * n).map(|at| silu(dot(at / n, at % n)) * dot(at / n, n + at % n)).collect()]
}

/// Rounding of the result, and of both sums.
pub fn tolerance(dtype: Dtype) -> f64 {
    let k = bounds::most([cases::CASES, cases::BENCH], |shape| shape.last());
    bounds::rounding(dtype) + 2.0 * bounds::sums(k)
}
