//! The product of few rows.

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

/// Rounding of the result, and of accumulators in f32.
pub fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => 1e-6,
        Dtype::F16 => 5e-4,
        _ => 4e-3,
    }
}
