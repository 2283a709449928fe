//! Fused products in float64.

use super::cases;
use crate::block_scaled::oracle::quantised;
use crate::bounds;
use moye_runtime::operation::harness::UNWRITTEN;
use moye_runtime::operation::{ArrayType, Dtype, Options};

type Inputs<'a> = &'a [Option<(ArrayType, Vec<f64>)>];

/// N, and `a b^T`.
fn product(inputs: Inputs<'_>) -> (usize, Vec<f64>) {
    let [a, b] = [0, 1].map(|i| inputs[i].as_ref().expect("it is not optional"));
    let (&[n, k], m) = (&b.0.shape[..], a.0.shape[0]) else { panic!("checked: b has two modes") };
    let dot = |i: usize, j: usize| (0..k).map(|l| a.1[i * k + l] * b.1[j * k + l]).sum::<f64>();
    (n, (0..m * n).map(|at| dot(at / n, at % n)).collect())
}

/// The product with a residual, and the sums of its squares.
pub fn with_residual(inputs: Inputs<'_>, options: &Options) -> Vec<Vec<f64>> {
    let (n, mut c) = product(inputs);
    let k = inputs[1].as_ref().map_or(1, |b| b.0.shape[1]);
    if let Some((of, squares)) = &inputs[3] {
        for (row, squares) in c.chunks_mut(n.max(1)).zip(squares.chunks(of.shape[1])) {
            let mean = squares.iter().sum::<f64>() / k as f64;
            row.iter_mut().for_each(|c| *c /= (mean + options.float("eps")).sqrt());
        }
    }
    if let Some((_, residual)) = &inputs[2] {
        c.iter_mut().zip(residual).for_each(|(c, residual)| *c += residual);
    }
    let squares = |part: &[f64]| part.iter().map(|c| c * c).sum::<f64>();
    let squares = c.chunks(n.max(1)).flat_map(|row| row.chunks(128).map(squares)).collect();
    vec![c, squares]
}

/// The product in e4m3, and its scales.
pub fn to_e4m3(inputs: Inputs<'_>, _: &Options) -> Vec<Vec<f64>> {
    let (n, c) = product(inputs);
    quantised(&c, n)
}

/// Queries by row, keys and values by slot.
pub fn qkv(inputs: Inputs<'_>, options: &Options) -> Vec<Vec<f64>> {
    let (n, c) = product(inputs);
    let [size, kv, slots] = ["size", "kv_heads", "slots"].map(|name| options.int(name) as usize);
    let heads = n / size - 2 * kv;
    let (mut q, mut caches) = (Vec::new(), [0; 2].map(|_| vec![UNWRITTEN; slots * kv * size]));
    let slots_of_rows = &inputs[2].as_ref().expect("it is not optional").1;
    for (row, (c, &slot)) in c.chunks(n.max(1)).zip(slots_of_rows).enumerate() {
        let rotated = |head: usize| {
            let mut x = c[head * size..][..size].to_vec();
            let [Some((_, positions)), Some((of, cos)), Some((_, sin))] =
                [&inputs[3], &inputs[4], &inputs[5]]
            else {
                return x;
            };
            let position = positions[row];
            for pair in 0..size / 2 {
                let (a, b) = if options.bool("interleaved") {
                    (2 * pair, 2 * pair + 1)
                } else {
                    (pair, pair + size / 2)
                };
                let at = position as usize * (size / 2) + pair;
                let known = position >= 0.0 && position < of.shape[0] as f64;
                let (cos, sin) = if known { (cos[at], sin[at]) } else { (f64::NAN, f64::NAN) };
                (x[a], x[b]) = (x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin);
            }
            x
        };
        q.extend((0..heads).flat_map(rotated));
        if slot >= 0.0 && slot < slots as f64 {
            let to = slot as usize * kv * size..(slot as usize + 1) * kv * size;
            let keys: Vec<f64> = (heads..heads + kv).flat_map(rotated).collect();
            caches[0][to.clone()].copy_from_slice(&keys);
            caches[1][to].copy_from_slice(&c[(heads + kv) * size..]);
        }
    }
    let [k, v] = caches;
    vec![q, k, v]
}

/// Rounding of the result, and of sums: twice of their squares.
pub fn tolerance(dtype: Dtype) -> f64 {
    let sums = bounds::sums(bounds::most([cases::BENCH_RESIDUAL, cases::BENCH_QKV], |shape| shape.last()));
    match dtype {
        Dtype::F32 => 2.0 * sums,
        // Adds a unit of one element of the smallest case.
        Dtype::E4m3 => bounds::either(dtype, sums) + 2.0 * bounds::rounding(dtype) / (3.0 * 272f64).sqrt(),
        _ => bounds::rounding(dtype) + sums,
    }
}
