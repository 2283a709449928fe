//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

const fn of(inputs: &'static [Option<&'static [usize]>]) -> Case {
    Case::new(inputs).ranges(&[("mask", 0.0, 4.0)])
}

const CAUSAL: (&str, Value) = ("causal", Value::Bool(true));

/// Rows shorter and longer than each shape of kernels, ragged, single, and along other axes.
pub const CASES: &[Case] = &[
    of(&[Some(&[1, 1]), None, None]),
    of(&[Some(&[3, 5]), None, None]),
    of(&[Some(&[17, 256]), None, None]),
    of(&[Some(&[2, 3, 257]), None, None]),
    of(&[Some(&[5, 1000]), None, None]),
    of(&[Some(&[2, 1025]), None, None]),
    of(&[Some(&[0, 7]), None, None]),
    of(&[Some(&[3, 0]), None, None]),
    of(&[Some(&[2, 8200]), None, None]),
    of(&[Some(&[1, 50257]), None, None]),
    of(&[Some(&[3, 40, 7]), None, None]).options(&[("axis", Value::Int(1)), ("scale", Value::Float(0.125))]),
    of(&[Some(&[33, 6]), None, None]).options(&[("axis", Value::Int(0))]),
    of(&[Some(&[300]), None, None]).options(&[("scale", Value::Float(-2.0))]),
    of(&[Some(&[4, 130]), None, None]).options(&[("scale", Value::Float(0.0))]),
    of(&[Some(&[2, 3, 5, 40]), Some(&[5, 40]), None]).options(&[("scale", Value::Float(-0.5))]),
    of(&[Some(&[2, 3, 5, 40]), Some(&[2, 1, 1, 40]), Some(&[3, 1, 40])]).options(&[CAUSAL]),
    of(&[Some(&[3, 20, 4]), None, Some(&[20, 1])]).options(&[("axis", Value::Int(1))]),
    of(&[Some(&[2, 7, 1025]), Some(&[1025]), None]).options(&[CAUSAL, ("offset", Value::Int(-900))]),
    of(&[Some(&[2, 20_000]), None, Some(&[20_000])]).options(&[CAUSAL]),
    of(&[Some(&[2, 33_000]), Some(&[33_000]), None]).options(&[CAUSAL]),
];

/// 64 MB and more of bf16, from rows of a head to rows of a vocabulary.
pub const BENCH: &[Case] = &[
    of(&[Some(&[131_072, 128]), None, None]),
    of(&[Some(&[32_768, 1024]), None, None]),
    of(&[Some(&[16_384, 4096]), None, None]),
    of(&[Some(&[8192, 8192]), None, None]),
    of(&[Some(&[4096, 32_768]), None, None]),
    of(&[Some(&[512, 131_072]), None, None]),
    of(&[Some(&[256, 262_144]), None, None]),
    of(&[Some(&[128, 524_288]), None, None]),
    of(&[Some(&[4, 4096, 4096]), None, None]).options(&[CAUSAL]),
    of(&[Some(&[4, 4096, 4096]), Some(&[4096, 4096]), None]),
];
