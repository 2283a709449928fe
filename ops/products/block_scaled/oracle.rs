//! The product of the dequantised operands.

use moye::operation::{ArrayType, Dtype, Options};
use std::iter;

/// An element of scales (rows, blocks), of which a mode of extent 1 counts for all.
fn scale((ty, scales): &(ArrayType, Vec<f64>), at: [usize; 3]) -> f64 {
    let mut index = 0;
    for (&extent, at) in ty.shape.iter().zip(&at[3 - ty.shape.len()..]) {
        index = index * extent + if extent == 1 { 0 } else { *at };
    }
    scales[index]
}

/// `c[rows of g] = (scale_a a)[rows of g] (scale_b b)[g]^T`.
pub fn block_scaled(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options) -> Vec<Vec<f64>> {
    let [a, b, scale_a, scale_b] = [0, 1, 2, 3].map(|i| inputs[i].as_ref().expect("it is not optional"));
    let (ends, n, k) = (inputs[4].as_ref(), b.0.shape[b.0.shape.len() - 2], b.0.shape[b.0.shape.len() - 1]);
    let (rows, count) = (a.0.shape[a.0.shape.len() - 2], a.0.shape[..a.0.shape.len() - 1].iter().product());
    let groups = ends
        .map_or_else(|| iter::once(0..count).collect(), |(_, ends)| crate::operand::groups_of(&a.0, ends));
    let mut c = vec![crate::operand::unwritten(options.dtype("dtype")); count * n];
    for (g, of_group) in groups.into_iter().enumerate() {
        for (i, j) in of_group.flat_map(|i| (0..n).map(move |j| (i, j))) {
            let term = |l: usize| {
                let of_a = scale(scale_a, [i / rows, i % rows, l / 128]);
                of_a * scale(scale_b, [g, j / 128, l / 128]) * a.1[i * k + l] * b.1[(g * n + j) * k + l]
            };
            c[i * n + j] = (0..k).map(term).sum();
        }
    }
    vec![c]
}

/// Rounding of the result, and the bits that the tensor cores drop in sums of 128 products.
pub fn tolerance(dtype: Dtype) -> f64 {
    if dtype == Dtype::F16 { 7e-4 } else { 2.5e-3 }
}
