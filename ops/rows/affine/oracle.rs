//! Sums of multiples in float64.

use moye::operation::{ArrayType, Dtype, broadcast_shape};

/// Elements row-major with their type.
type Values = (ArrayType, Vec<f64>);

/// `alpha x + beta y + constant`, broadcast.
pub fn affine(inputs: &[Option<Values>], [alpha, beta, constant]: [f64; 3]) -> Vec<Vec<f64>> {
    let types: Vec<_> = inputs.iter().flatten().map(|(ty, _)| ty).collect();
    let shape = broadcast_shape("affine", &types).expect("checked: the shapes are broadcast");
    let at = |input: &Option<Values>, index: usize| {
        let Some((ty, values)) = input else { return 0.0 };
        let (mut rest, mut place, mut stride) = (index, 0, 1);
        for (mode, extent) in shape.iter().enumerate().rev() {
            if let Some(own) = (mode + ty.shape.len()).checked_sub(shape.len()).map(|mode| ty.shape[mode]) {
                place += if own > 1 { rest % extent * stride } else { 0 };
                stride *= own;
            }
            rest /= extent;
        }
        values[place]
    };
    let term = |factor: f64, input: Option<&Option<Values>>, index| match input {
        Some(input) if factor != 0.0 => factor * at(input, index),
        _ => 0.0,
    };
    let count = shape.iter().product();
    let value = |i| term(alpha, inputs.first(), i) + term(beta, inputs.get(1), i) + constant;
    vec![(0..count).map(value).collect()]
}

/// Half a unit of the last place of the result's type, and of f32 for the product.
pub fn tolerance(dtype: Dtype) -> f64 {
    crate::rounding(dtype).max(2e-7)
}
