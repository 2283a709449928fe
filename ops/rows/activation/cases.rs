//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

/// Both operands and one, halves and pairs, ragged, of one column, and empty.
pub const GATED: &[Case] = &[
    Case::new(&[Some(&[3, 40]), Some(&[3, 40])]),
    Case::new(&[Some(&[3, 66]), None]),
    Case::new(&[Some(&[5, 66]), None]).options(&[PAIRS]),
    Case::new(&[Some(&[2, 2]), None]).options(&[PAIRS]),
    Case::new(&[Some(&[2, 3, 1000]), Some(&[2, 3, 1000])]),
    Case::new(&[Some(&[7, 2048]), None]),
    Case::new(&[Some(&[7, 2050]), None]).options(&[PAIRS]),
    Case::new(&[Some(&[9000]), None]),
    Case::new(&[Some(&[0, 8]), None]),
    Case::new(&[Some(&[3, 0]), Some(&[3, 0])]),
];
/// [`GATED`] with the options of GEGLU.
pub const GEGLU: &[Case] = &[
    Case::new(&[Some(&[3, 40]), Some(&[3, 40])]).options(&[TANH]),
    Case::new(&[Some(&[3, 66]), None]),
    Case::new(&[Some(&[5, 66]), None]).options(&[PAIRS]),
    Case::new(&[Some(&[2, 1030]), None]).options(&[PAIRS, TANH]),
    Case::new(&[Some(&[1025]), Some(&[1025])]),
];
const PAIRS: (&str, Value) = ("interleaved", Value::Bool(true));
const TANH: (&str, Value) = ("approximate", Value::Choice("tanh", &[]));

/// Each activation, with and without a bias.
pub const BIASED: &[Case] = &[
    Case::new(&[Some(&[3, 40]), Some(&[40])]),
    Case::new(&[Some(&[5, 7]), None]).options(&[("activation", Value::Choice("silu", &[]))]),
    Case::new(&[Some(&[5, 1000]), Some(&[1000])]).options(&[("activation", Value::Choice("relu", &[]))]),
    Case::new(&[Some(&[2, 3, 33]), Some(&[3, 33])]).options(&[("activation", Value::Choice("relu2", &[]))]),
    Case::new(&[Some(&[4, 257]), Some(&[257])]).options(&[("activation", Value::Choice("gelu_tanh", &[]))]),
    Case::new(&[Some(&[4100]), Some(&[1])]).options(&[("activation", Value::Choice("none", &[]))]),
    Case::new(&[Some(&[0, 3]), Some(&[3])]),
];

/// 64 MB and more of bf16: the intermediate activations of models.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[8192, 14_336]), Some(&[8192, 14_336])]),
    Case::new(&[Some(&[8192, 28_672]), None]),
    Case::new(&[Some(&[8192, 28_672]), None]).options(&[PAIRS]),
    Case::new(&[Some(&[262_144, 256]), None]),
    Case::new(&[Some(&[32_768, 2048]), None]),
    Case::new(&[Some(&[1024, 65_536]), None]),
    Case::new(&[Some(&[256, 262_144]), None]),
];
/// [`BENCH`] with and without a bias.
pub const BENCH_BIASED: &[Case] =
    &[Case::new(&[Some(&[8192, 16_384]), Some(&[16_384])]), Case::new(&[Some(&[8192, 16_384]), None])];
