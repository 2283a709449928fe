//! The product of the dequantised operands.

use crate::bounds;
use moye_runtime::number::{F8E4M3, Scalar as _};
use moye_runtime::operation::harness::UNWRITTEN;
use moye_runtime::operation::{ArrayType, Dtype, Options};
use std::iter;

/// Why scales are finite in the harness.
pub const SUM_OF_BLOCK: &str = "a scale multiplies the sum of a block, here each of its terms";

/// An element of scales (rows, blocks), broadcast along modes of extent 1. A scale is for 128 of
/// `rows` rows, or for one.
fn scale((ty, scales): &(ArrayType, Vec<f64>), rows: usize, mut at: [usize; 3]) -> f64 {
    if ty.shape[ty.shape.len() - 2] != rows {
        at[1] /= 128;
    }
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
    let dtype = options.dtype("dtype");
    let mut c = vec![UNWRITTEN; count * n];
    for (g, of_group) in groups.into_iter().enumerate() {
        for (i, j) in of_group.flat_map(|i| (0..n).map(move |j| (i, j))) {
            let term = |l: usize| {
                let of_a = scale(scale_a, rows, [i / rows, i % rows, l / 128]);
                of_a * scale(scale_b, n, [g, j, l / 128]) * a.1[i * k + l] * b.1[(g * n + j) * k + l]
            };
            c[i * n + j] = (0..k).map(term).sum();
        }
    }
    if dtype == Dtype::E4m3 {
        return quantised(&c, n);
    }
    vec![c]
}

/// An 8-bit result, and its scales. Elements of no group keep their value.
pub fn quantised(c: &[f64], n: usize) -> Vec<Vec<f64>> {
    let (mut q, mut scales) = (Vec::new(), Vec::new());
    for block in c.chunks(n.max(1)).flat_map(|row| row.chunks(128)) {
        let amax = block.iter().fold(0.0f64, |most, c| most.max(c.abs()));
        let scale = if amax < 1e-30 { 1.0 } else { amax / 448.0 };
        let is_kept = block[0].to_bits() == UNWRITTEN.to_bits();
        scales.push(if is_kept { UNWRITTEN } else { scale });
        let rounded = |c: f64| F8E4M3::from_f32((c / scale) as f32).to_f64();
        q.extend(block.iter().map(|&c| if is_kept { c } else { rounded(c) }));
    }
    vec![q, scales]
}

/// Rounding of the result, and the bits that the tensor cores drop.
pub fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => bounds::promoted_sums(),
        Dtype::E4m3 => bounds::either(dtype, bounds::promoted_sums()),
        _ => bounds::rounding(dtype) + bounds::promoted_sums(),
    }
}
