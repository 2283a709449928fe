//! RMSNorm and LayerNorm in float64.

use super::call::Kind;
use crate::code::{Code, scale_of};
use crate::prelude::*;

/// The result, of 8 bits its scales, and the sum of x and the residual. The inputs are x, weight,
/// with a mean bias, and residual.
pub fn reference(kind: Kind, inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let center = kind.center;
    let (ty, x) = input(inputs, 0);
    let (weight, bias) = (elements(inputs, 1), if center { elements(inputs, 2) } else { None });
    let mut sum = x.clone();
    if let Some(residual) = elements(inputs, inputs.len() - 1) {
        sum.iter_mut().zip(residual).for_each(|(sum, r)| *sum += r);
    }
    let mut y = vec![0.0; x.len()];
    each_row(&ty.shape, -1, |row| {
        let mean = |f: &dyn Fn(f64) -> f64| row.iter().map(|&at| f(sum[at])).sum::<f64>() / row.len() as f64;
        let mid = if center { mean(&|x| x) } else { 0.0 };
        let scale = 1.0 / (mean(&|x| (x - mid).powi(2)) + options.float("eps")).sqrt();
        for (column, &at) in row.iter().enumerate() {
            let factor = scale * weight.map_or(1.0, |weight| weight[column]);
            y[at] = (sum[at] - mid) * factor + bias.map_or(0.0, |bias| bias[column]);
        }
    });
    if !kind.quantized {
        return vec![y, sum];
    }
    let (code, mut scales) = (Code::of(options.dtype("dtype")), Vec::new());
    each_row(&ty.shape, -1, |row| {
        let amax = row.iter().fold(0.0f32, |max, &at| max.max((y[at] as f32).abs()));
        let (scale, inverse) = scale_of(code as u32, amax);
        scales.push(scale.into());
        for &at in row {
            y[at] = code.nearest(y[at] as f32 * inverse);
        }
    });
    vec![y, scales, sum]
}

/// Half a unit of the last place of the result's type, and the error of `rsqrt.approx` in f32, by
/// which elements of 8 bits seldom become their neighbours.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| match Dtype::BYTES.contains(&dtype) {
    true => 5e-3,
    false => rounding(dtype).max(1e-6),
};
