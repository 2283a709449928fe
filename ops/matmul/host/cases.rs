//! Test cases and benchmark cases of the declared product.

use moye_runtime::operation::{Case, Dtype, Value};

/// Types for which bias and `c` of the test have the type of the result.
const OWN: &[Dtype] = &[Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::F64, Dtype::I8];
const FLOATS: &[Dtype] = &[Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::F64];
/// Types for which the reference's activations are exact enough.
const SMOOTH: &[Dtype] = &[Dtype::F32, Dtype::F16, Dtype::Bf16];
const HALVES: &[Dtype] = &[Dtype::F16, Dtype::Bf16];
const F8: &[Dtype] = &[Dtype::E4m3, Dtype::E5m2];

/// Factors of scales, which are neither large nor 0.
const RANGES: &[(&str, f64, f64)] = &[("scale_a", 0.25, 2.0), ("scale_b", 0.25, 2.0)];

/// A product of matrices of these shapes, and those of c, the bias and the scales.
macro_rules! case {
    ($a:expr, $b:expr) => {
        case!($a, $b; None, None, None, None)
    };
    ($a:expr, $b:expr; $($others:expr),+) => {
        Case::new(&[Some(&$a), Some(&$b), $($others),+]).ranges(RANGES)
    };
}

const fn option(name: &'static str, chosen: &'static str) -> (&'static str, Value) {
    (name, Value::Choice(chosen, &[]))
}

pub const CASES: &[Case] = &[
    case!([37, 70], [70, 45]),
    case!([64, 64], [64, 128]),
    case!([1, 300], [300, 1]),
    case!([2, 33, 40], [2, 40, 17]),
    case!([3, 5, 24], [24, 9]),
    case!([5, 24], [2, 24, 9]),
    // No sum, no element.
    case!([3, 0], [0, 4]),
    case!([0, 5], [5, 4]),
    case!([2, 3, 5], [2, 5, 0]),
    // The epilogue.
    case!([20, 30], [30, 40]; Some(&[20, 40]), None, None, None)
        .options(&[("alpha", Value::Float(2.0)), ("beta", Value::Float(-3.0))])
        .only(OWN),
    case!([2, 9, 16], [2, 16, 12]; Some(&[2, 9, 12]), Some(&[12]), None, None)
        .options(&[option("activation", "relu")])
        .only(OWN),
    case!([9, 16], [16, 12]; None, Some(&[9, 1]), None, None)
        .options(&[option("activation", "gelu")])
        .only(SMOOTH),
    case!([9, 16], [16, 12]; None, Some(&[12]), None, None)
        .options(&[option("activation", "gelu_tanh")])
        .only(SMOOTH),
    case!([9, 16], [16, 12])
        .options(&[option("activation", "silu"), ("alpha", Value::Float(0.25))])
        .only(SMOOTH),
    case!([9, 16], [16, 12]; Some(&[9, 12]), None, None, None)
        .options(&[("alpha", Value::Float(0.0))])
        .only(OWN),
    // Types of results, precisions, scales, and the caller's choices.
    case!([37, 72], [72, 48]).options(&[("out_dtype", Value::Dtype(Dtype::F32))]).only(HALVES).within(1e-5),
    case!([37, 72], [72, 48]).options(&[option("precision", "tf32")]).only(&[Dtype::F32]).within(2e-3),
    case!([37, 72], [72, 48]).options(&[option("precision", "float16")]).only(&[Dtype::F16]).within(1e-2),
    case!([37, 72], [72, 48]; None, None, Some(&[37]), Some(&[1])).only(F8),
    case!([2, 20, 64], [2, 64, 24]; None, None, Some(&[2, 20]), Some(&[24])).only(F8),
    case!([64, 256], [256, 64]).options(&[("split_k", Value::Int(3))]).only(FLOATS),
    case!([70, 64], [64, 70]).options(&[("tile", Value::Pair([Some(64), Some(64)]))]).only(HALVES),
];

pub const BENCH: &[Case] =
    &[case!([4096, 4096], [4096, 4096]), case!([16, 4096], [4096, 14336]), case!([1536, 1536], [1536, 1536])];
