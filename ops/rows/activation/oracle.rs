//! Activations in float64.

use super::Activation;
use super::call::Kind;
use crate::prelude::*;

/// The error function, by its series of positive terms.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut odd) = (x, 0.0, 1.0);
    while term.abs() > 1e-18 * f64::abs(sum) {
        sum += term;
        odd += 2.0;
        term *= 2.0 * x * x / odd;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

fn activated(activation: Activation, x: f64) -> f64 {
    // NaN stays NaN.
    let relu = if x < 0.0 { 0.0 } else { x };
    match activation {
        Activation::None => x,
        Activation::Relu => relu,
        Activation::Relu2 => relu.powi(2),
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => {
            let y = std::f64::consts::FRAC_2_PI.sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + y.tanh())
        }
    }
}

/// `f(x + bias)`, or `f(gate) * up`.
pub fn reference(kind: Kind, inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let ((ty, x), other, activation) = (input(inputs, 0), elements(inputs, 1), kind.activation(options));
    if kind == Kind::Biased {
        // The bias has the last modes of x, or one element.
        let bias = |i: usize| other.map_or(0.0, |bias| bias[i % bias.len()]);
        return vec![x.iter().enumerate().map(|(i, x)| activated(activation, x + bias(i))).collect()];
    }
    let pair = |(gate, up): (f64, f64)| activated(activation, gate) * up;
    if let Some(up) = other {
        return vec![x.iter().copied().zip(up.iter().copied()).map(pair).collect()];
    }
    let half = ty.shape.last().map_or(0, |last| last / 2);
    let interleaved = options.bool("interleaved");
    let places = |i: usize| {
        let (row, column) = (2 * half * (i / half), i % half);
        match interleaved {
            true => (row + 2 * column, row + 2 * column + 1),
            false => (row + column, row + half + column),
        }
    };
    vec![(0..x.len() / 2).map(places).map(|(gate, up)| pair((x[gate], x[up]))).collect()]
}

/// Half a unit of the last place of the result's type, and the errors of `ex2.approx` and
/// `rcp.approx` in f32.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype).max(2e-6);
