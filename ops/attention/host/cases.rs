//! Test cases and benchmark cases.

use moye_runtime::operation::{Case, Dtype, Value};

const HALVES: &[Dtype] = &[Dtype::Bf16, Dtype::F16];
const E4M3: &[Dtype] = &[Dtype::E4m3];

/// Elements for which the sums of scores and results are neither large nor cancel.
const RANGES: &[(&str, f64, f64)] = &[
    ("q", -1.0, 1.0),
    ("k", -1.0, 1.0),
    ("v", -1.0, 1.0),
    ("bias", -1.0, 1.0),
    ("mask", 0.0, 8.0),
    ("alibi", 0.0, 0.5),
    ("sinks", -1.0, 2.0),
    ("q_scale", 0.25, 2.0),
    ("k_scale", 0.25, 2.0),
    ("v_scale", 0.25, 2.0),
];

/// A case of f16 and bf16 with these optional inputs: bias, mask, alibi and sinks; offsets of
/// queries and keys, lengths of keys, and pages.
macro_rules! case {
    ($q:expr, $k:expr, $v:expr) => {
        case!($q, $k, $v; None, None, None, None; None, None, None, None)
    };
    ($q:expr, $k:expr, $v:expr; $($scores:expr),+; $($indices:expr),+) => {
        case!($q, $k, $v; $($scores),+; None, None, None; $($indices),+).only(HALVES)
    };
    ($q:expr, $k:expr, $v:expr; $($scores:expr),+; $($scales:expr),+; $($indices:expr),+) => {
        Case::new(&[Some(&$q), Some(&$k), Some(&$v), $($scores),+, $($scales),+, $($indices),+]).ranges(RANGES)
    };
}

const CAUSAL: (&str, Value) = ("causal", Value::Bool(true));
const WINDOW: (&str, Value) = ("window", Value::Pair([Some(7), Some(4)]));

pub const CASES: &[Case] = &[
    case!([2, 4, 21, 64], [2, 2, 37, 64], [2, 2, 37, 64]),
    case!([2, 4, 21, 64], [2, 2, 37, 64], [2, 2, 37, 64]).options(&[CAUSAL]),
    case!([1, 2, 70, 64], [1, 2, 90, 64], [1, 2, 90, 64]).options(&[CAUSAL, WINDOW]),
    case!([1, 3, 9, 64], [1, 1, 17, 64], [1, 1, 17, 64])
        .options(&[("scale", Value::Float(0.3)), ("softcap", Value::Float(2.0))]),
    // Each head size; decoding in splits.
    case!([1, 2, 5, 80], [1, 1, 9, 80], [1, 1, 9, 80]),
    case!([1, 2, 5, 96], [1, 2, 9, 96], [1, 2, 9, 96]).options(&[CAUSAL]),
    case!([2, 8, 1, 128], [2, 2, 300, 128], [2, 2, 300, 128]).options(&[("splits", Value::Int(3))]),
    case!([1, 2, 5, 192], [1, 1, 9, 192], [1, 1, 9, 128]),
    case!([1, 1, 3, 256], [1, 1, 70, 256], [1, 1, 70, 256]),
    // Options by score.
    case!([2, 4, 6, 64], [2, 4, 10, 64], [2, 4, 10, 64]; Some(&[4, 1, 10]), None, None, None; None, None, None, None),
    case!([2, 4, 6, 64], [2, 4, 16, 64], [2, 4, 16, 64]; None, Some(&[2, 1, 6, 16]), None, Some(&[4]);
        None, None, None, None),
    case!([2, 4, 6, 64], [2, 2, 10, 64], [2, 2, 10, 64]; None, None, Some(&[2, 4]), None; None, None, None, None)
        .options(&[CAUSAL]),
    // Sequences of several lengths; a partly filled cache, and one in pages.
    case!([1, 4, 20, 64], [1, 2, 30, 64], [1, 2, 30, 64]; None, None, None, None; Some(&[4]), Some(&[4]), None, None)
        .options(&[CAUSAL])
        .values(&[("q_offsets", &[0.0, 3.0, 3.0, 20.0]), ("k_offsets", &[0.0, 9.0, 12.0, 30.0])]),
    case!([2, 4, 3, 64], [2, 2, 40, 64], [2, 2, 40, 64]; None, None, None, None; None, None, Some(&[2]), None)
        .options(&[CAUSAL])
        .values(&[("key_lengths", &[40.0, 11.0])]),
    case!([1, 4, 6, 64], [6, 2, 16, 64], [6, 2, 16, 64]; None, None, None, None;
        Some(&[3]), None, Some(&[2]), Some(&[2, 3]))
        .options(&[CAUSAL])
        .values(&[
            ("q_offsets", &[0.0, 5.0, 6.0]),
            ("key_lengths", &[20.0, 48.0]),
            ("page_table", &[4.0, 1.0, 0.0, 5.0, 2.0, 3.0]),
        ]),
    // No keys, no queries, no heads.
    case!([1, 2, 3, 64], [1, 1, 0, 64], [1, 1, 0, 64]),
    case!([1, 2, 0, 64], [1, 1, 5, 64], [1, 1, 5, 64]),
    case!([2, 0, 3, 64], [2, 0, 5, 64], [2, 0, 5, 64]),
    // 8-bit floats, whose probabilities have four significant bits.
    case!([2, 4, 70, 64], [2, 2, 90, 64], [2, 2, 90, 64]; None, None, None, None;
        Some(&[4]), Some(&[2, 2]), Some(&[1]); None, None, None, None)
        .options(&[CAUSAL])
        .only(E4M3)
        .within(4e-2),
    case!([1, 1, 9, 128], [1, 1, 33, 128], [1, 1, 33, 128]; None, None, None, None;
        None, Some(&[1]), None; None, None, None, None)
        .options(&[WINDOW])
        .only(E4M3)
        .within(4e-2),
];

pub const BENCH: &[Case] = &[
    case!([4, 16, 4096, 128], [4, 16, 4096, 128], [4, 16, 4096, 128]).options(&[CAUSAL]).bare(),
    case!([16, 32, 1, 128], [16, 8, 8192, 128], [16, 8, 8192, 128]).bare(),
    case!([1, 32, 1, 128], [1, 8, 2048, 128], [1, 8, 2048, 128]).bare(),
    case!([1, 32, 1, 128], [1, 8, 8192, 128], [1, 8, 8192, 128]).bare(),
    case!([16, 32, 1, 128], [16, 8, 2048, 128], [16, 8, 2048, 128]).bare(),
];
