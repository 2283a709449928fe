//! Layers that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

const fn top(top: i64) -> (&'static str, Value) {
    ("top", Value::Int(top))
}
const fn tile(tile: &'static str) -> (&'static str, Value) {
    ("tile", Value::Choice(tile, super::call::TILES))
}
const RENORMALISE: (&str, Value) = ("renormalise", Value::Bool(true));
const PLAIN: (&str, Value) = ("routing", Value::Choice("plain", super::call::ROUTINGS));

/// Few and many experts, all of them, ragged shapes; a token, and none. Products are small enough
/// for f16.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[37, 40]), Some(&[37, 5]), Some(&[5, 48, 40]), Some(&[5, 40, 24])])
        .options(&[top(2), RENORMALISE])
        .ranges(RANGES),
    Case::new(&[Some(&[140, 24]), Some(&[140, 3]), Some(&[3, 272, 24]), Some(&[3, 24, 136])])
        .options(&[top(3), tile("128x256 pairs")])
        .ranges(RANGES),
    Case::new(&[Some(&[1, 72]), Some(&[1, 70]), Some(&[70, 18, 72]), Some(&[70, 72, 9])])
        .options(&[top(6), PLAIN, tile("128x256")])
        .ranges(RANGES),
    Case::new(&[Some(&[3, 9]), Some(&[3, 1]), Some(&[1, 2, 9]), Some(&[1, 9, 1])])
        .options(&[top(1), PLAIN, RENORMALISE])
        .ranges(RANGES),
    Case::new(&[Some(&[0, 16]), Some(&[0, 4]), Some(&[4, 16, 16]), Some(&[4, 16, 8])]),
];

const RANGES: &[(&str, f64, f64)] =
    &[("x", -2.0, 2.0), ("gate_up", -0.5, 0.5), ("down", -0.5, 0.5), ("logits", -3.0, 3.0)];

/// 64 experts, 6 for each token; experts so narrow that the routing, the copies and the sum take
/// most of the time; and a decoding step of 16 tokens.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[4096, 2048]), Some(&[4096, 64]), Some(&[64, 2816, 2048]), Some(&[64, 2048, 1408])])
        .options(&[top(6)])
        .ranges(RANGES),
    Case::new(&[Some(&[4096, 2048]), Some(&[4096, 64]), Some(&[64, 16, 2048]), Some(&[64, 2048, 8])])
        .options(&[top(6)])
        .ranges(RANGES),
    Case::new(&[Some(&[16, 2048]), Some(&[16, 64]), Some(&[64, 2816, 2048]), Some(&[64, 2048, 1408])])
        .options(&[top(6)])
        .ranges(RANGES),
];
