//! Shapes that break kernels, and shapes that are measured.

use moye::operation::{Case, Value};

const fn case(shape: &'static [Option<&'static [usize]>]) -> Case {
    Case { inputs: shape, options: &[] }
}

/// Rows shorter and longer than each shape of kernels, ragged, single, and along other axes.
pub const CASES: &[Case] = &[
    case(&[Some(&[1, 1])]),
    case(&[Some(&[3, 5])]),
    case(&[Some(&[17, 256])]),
    case(&[Some(&[2, 3, 257])]),
    case(&[Some(&[5, 1000])]),
    case(&[Some(&[2, 1025])]),
    case(&[Some(&[0, 7])]),
    case(&[Some(&[3, 0])]),
    case(&[Some(&[2, 8200])]),
    case(&[Some(&[1, 50257])]),
    Case {
        inputs: &[Some(&[3, 40, 7])],
        options: &[("axis", Value::Int(1)), ("scale", Value::Float(0.125))],
    },
    Case { inputs: &[Some(&[33, 6])], options: &[("axis", Value::Int(0))] },
    Case { inputs: &[Some(&[300])], options: &[("scale", Value::Float(-2.0))] },
    Case { inputs: &[Some(&[4, 130])], options: &[("scale", Value::Float(0.0))] },
];

/// 64 MB and more of bf16, from rows of a head to rows of a vocabulary.
pub const BENCH: &[Case] = &[
    case(&[Some(&[131_072, 128])]),
    case(&[Some(&[32_768, 1024])]),
    case(&[Some(&[16_384, 4096])]),
    case(&[Some(&[8192, 8192])]),
    case(&[Some(&[4096, 32_768])]),
    case(&[Some(&[512, 131_072])]),
    case(&[Some(&[256, 262_144])]),
];
