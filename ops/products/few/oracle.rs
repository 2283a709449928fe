//! The product of few rows.

use super::cases;
use crate::bounds;
use moye_runtime::operation::{ArrayType, Dtype, Options};

/// `y = x w^T + residual`.
pub fn few(inputs: &[Option<(ArrayType, Vec<f64>)>], _: &Options) -> Vec<Vec<f64>> {
    let [x, w] = [0, 1].map(|i| inputs[i].as_ref().expect("it is not optional"));
    let (&[n, k], m) = (&w.0.shape[..], x.0.shape[0]) else { panic!("checked: w has two modes") };
    let dot = |i: usize, j: usize| (0..k).map(|l| x.1[i * k + l] * w.1[j * k + l]).sum::<f64>();
    let mut y: Vec<f64> = (0..m * n).map(|at| dot(at / n, at % n)).collect();
    if let Some((_, residual)) = &inputs[2] {
        y.iter_mut().zip(residual).for_each(|(y, residual)| *y += residual);
    }
    vec![y]
}

/// Rounding of the result, and of sums.
pub fn tolerance(dtype: Dtype) -> f64 {
    let k = bounds::most([cases::CASES, cases::BENCH], |shape| shape.last());
    bounds::rounding(dtype) + bounds::sums(k)
}
