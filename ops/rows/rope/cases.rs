//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

const fn case(inputs: &'static [Option<&'static [usize]>]) -> Case {
    Case::new(inputs).ranges(&[("positions", 0.0, 40.0)])
}

const PAIRS: (&str, Value) = ("interleaved", Value::Bool(true));
const INVERSE: (&str, Value) = ("inverse", Value::Bool(true));
const HEADS_FIRST: (&str, Value) = ("axis", Value::Int(-2));

/// Both orders of modes and of pairs, parts of a head, tables and angles.
pub const CASES: &[Case] = &[
    case(&[Some(&[7, 3, 32]), None, None, None]),
    case(&[Some(&[2, 5, 4, 64]), Some(&[2, 5]), None, None]),
    case(&[Some(&[5, 3, 32]), Some(&[5]), Some(&[40, 16]), Some(&[40, 16])]).options(&[PAIRS]),
    case(&[Some(&[2, 3, 5, 48]), Some(&[5]), None, None]).options(&[
        HEADS_FIRST,
        ("rotary", Value::Int(32)),
        ("base", Value::Float(500_000.0)),
    ]),
    case(&[Some(&[3, 2, 12]), None, None, None]).options(&[PAIRS, INVERSE]),
    case(&[Some(&[4, 2, 11]), None, Some(&[6, 3]), Some(&[6, 3])]).options(&[("rotary", Value::Int(6))]),
    case(&[Some(&[6, 128]), Some(&[6]), None, None]).options(&[HEADS_FIRST, INVERSE, PAIRS]),
    Case::new(&[Some(&[3, 5, 64]), Some(&[3]), None, None]).ranges(&[("positions", 0.0, 131_072.0)]),
    case(&[Some(&[0, 3, 8]), None, None, None]),
    case(&[Some(&[3, 0, 8]), None, None, None]),
];

/// 64 MB and more of bf16.
pub const BENCH: &[Case] =
    &[
        Case::new(&[Some(&[8192, 32, 128]), None, None, None]),
        Case::new(&[Some(&[16_384, 32, 64]), None, None, None]),
        Case::new(&[Some(&[65_536, 8, 128]), None, None, None]),
        Case::new(&[Some(&[8192, 32, 128]), Some(&[8192]), Some(&[8192, 64]), Some(&[8192, 64])])
            .ranges(&[("positions", 0.0, 8192.0)]),
    ];
