//! Sums of multiples in float64.

use super::call::Kind;
use crate::prelude::*;

/// `alpha x + beta y + constant`, broadcast.
pub fn reference(kind: Kind, inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let types: Vec<_> = inputs.iter().flatten().map(|(ty, _)| ty).collect();
    let shape = broadcast_shape("affine", &types).expect("checked: the shapes are broadcast");
    let [alpha, beta, constant] = kind.scalars(options).map(|scalar| scalar.unwrap_or(0.0));
    let term = |factor: f64, index: usize, place: usize| match inputs.get(index) {
        Some(Some((ty, elements))) if factor != 0.0 => factor * elements[broadcast(&shape, &ty.shape, place)],
        _ => 0.0,
    };
    let count = shape.iter().product();
    let value = |place| term(alpha, 0, place) + term(beta, 1, place) + constant;
    vec![(0..count).map(value).collect()]
}

/// Half a unit of the last place of the result's type, and of f32 for the product.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype).max(2e-7);
