//! A layer of experts, token by token.

use super::cases;
use crate::bounds;
use moye_runtime::operation::{ArrayType, Dtype, Options};

/// The weights and experts of a token's greatest logits.
fn route(logits: &[f64], options: &Options) -> Vec<(usize, f64)> {
    let mut experts: Vec<_> = (0..logits.len()).collect();
    experts.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    experts.truncate(options.int("top") as usize);
    let most = logits[experts[0]];
    let is_softmax = options.choice("routing") == "softmax";
    let weight = |&logit: &f64| if is_softmax { (logit - most).exp() } else { logit };
    let total: f64 = match (options.bool("renormalise"), is_softmax) {
        (true, _) => experts.iter().map(|&expert| weight(&logits[expert])).sum(),
        (false, true) => logits.iter().map(weight).sum(),
        (false, false) => 1.0,
    };
    experts.into_iter().map(|expert| (expert, weight(&logits[expert]) / total)).collect()
}

/// `sum of w (silu(x gate^T) * (x up^T)) down^T` over a token's experts.
pub fn moe(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options) -> Vec<Vec<f64>> {
    let [x, logits, gate_up, down] = [0, 1, 2, 3].map(|i| inputs[i].as_ref().expect("it is not optional"));
    let (&[tokens, hidden], &[experts, _, width]) = (&x.0.shape[..], &down.0.shape[..]) else {
        panic!("checked: x has two modes, and down three")
    };
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let mut out = vec![0.0; tokens * hidden];
    for (token, out) in out.chunks_mut(hidden.max(1)).enumerate() {
        let row = &x.1[token * hidden..][..hidden];
        for (expert, weight) in route(&logits.1[token * experts..][..experts], options) {
            let of = |matrix: usize, column: usize| {
                &gate_up.1[((2 * expert + matrix) * width + column) * hidden..][..hidden]
            };
            let inner: Vec<_> = (0..width)
                .map(|column| {
                    let gate = dot(row, of(0, column));
                    gate / (1.0 + (-gate).exp()) * dot(row, of(1, column))
                })
                .collect();
            for (column, out) in out.iter_mut().enumerate() {
                *out += weight * dot(&inner, &down.1[(expert * hidden + column) * width..][..width]);
            }
        }
    }
    vec![out]
}

/// Rounding of SwiGLU's result, of each expert's row and of their sum, and of sums.
pub fn tolerance(dtype: Dtype) -> f64 {
    let k = bounds::most([cases::CASES, cases::BENCH], |shape| shape.last());
    bounds::roundings(dtype, 3) + 3.0 * bounds::sums(k)
}
