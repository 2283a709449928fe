//! RMSNorm in float64.

use moye::operation::{ArrayType, Dtype, Options};

/// The result, and the sum of x and the residual.
pub fn rms_norm(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = inputs[0].as_ref().expect("x is not optional");
    let values = |index: usize| inputs[index].as_ref().map(|(_, values)| values);
    let sum: Vec<f64> = match values(2) {
        Some(residual) => x.iter().zip(residual).map(|(x, r)| x + r).collect(),
        None => x.clone(),
    };
    let mut y = vec![0.0; x.len()];
    crate::each_row(&ty.shape, -1, |row| {
        let mean = row.iter().map(|&place| sum[place].powi(2)).sum::<f64>() / row.len() as f64;
        let scale = 1.0 / (mean + options.float("eps")).sqrt();
        for (column, &place) in row.iter().enumerate() {
            y[place] = sum[place] * scale * values(1).map_or(1.0, |weight| weight[column]);
        }
    });
    vec![y, sum]
}

/// Half a unit of the last place of the result's type, and the error of `rsqrt.approx` in f32.
pub fn tolerance(dtype: Dtype) -> f64 {
    crate::rounding(dtype).max(1e-6)
}
