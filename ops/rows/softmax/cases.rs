//! Shapes that break kernels, and shapes that are measured.

use moye::operation::{Case, Value};

/// Rows shorter and longer than each shape of kernels, ragged, single, and along other axes.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[1, 1])]),
    Case::new(&[Some(&[3, 5])]),
    Case::new(&[Some(&[17, 256])]),
    Case::new(&[Some(&[2, 3, 257])]),
    Case::new(&[Some(&[5, 1000])]),
    Case::new(&[Some(&[2, 1025])]),
    Case::new(&[Some(&[0, 7])]),
    Case::new(&[Some(&[3, 0])]),
    Case::new(&[Some(&[2, 8200])]),
    Case::new(&[Some(&[1, 50257])]),
    Case::new(&[Some(&[3, 40, 7])]).options(&[("axis", Value::Int(1)), ("scale", Value::Float(0.125))]),
    Case::new(&[Some(&[33, 6])]).options(&[("axis", Value::Int(0))]),
    Case::new(&[Some(&[300])]).options(&[("scale", Value::Float(-2.0))]),
    Case::new(&[Some(&[4, 130])]).options(&[("scale", Value::Float(0.0))]),
];

/// 64 MB and more of bf16, from rows of a head to rows of a vocabulary.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[131_072, 128])]),
    Case::new(&[Some(&[32_768, 1024])]),
    Case::new(&[Some(&[16_384, 4096])]),
    Case::new(&[Some(&[8192, 8192])]),
    Case::new(&[Some(&[4096, 32_768])]),
    Case::new(&[Some(&[512, 131_072])]),
    Case::new(&[Some(&[256, 262_144])]),
];
