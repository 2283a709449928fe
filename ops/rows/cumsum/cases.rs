//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

/// Rows of one warp, of several and of a block, in one chunk and more, ragged, and along another
/// axis.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[1, 1])]),
    Case::new(&[Some(&[3, 300])]).options(&[("exclusive", Value::Bool(true))]),
    Case::new(&[Some(&[2, 70, 3])]).options(&[("axis", Value::Int(1))]),
    Case::new(&[Some(&[17, 1000])]),
    Case::new(&[Some(&[0, 7])]),
    Case::new(&[Some(&[5, 1100])]),
    Case::new(&[Some(&[3, 4096])]),
    Case::new(&[Some(&[2, 9000])]).options(&[("exclusive", Value::Bool(true))]),
    Case::new(&[Some(&[1, 20_011])]),
    Case::new(&[Some(&[2, 65_003])]).options(&[("exclusive", Value::Bool(true))]),
    Case::new(&[Some(&[280_000])]),
    Case::new(&[Some(&[2, 300, 37])]).options(&[("axis", Value::Int(1)), ("exclusive", Value::Bool(true))]),
];

/// 64 MB of bf16: rows of a warp, and of a block.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[32_768, 1024])]),
    Case::new(&[Some(&[16_384, 4096])]),
    Case::new(&[Some(&[4096, 8192])]),
    Case::new(&[Some(&[512, 131_072])]),
    Case::new(&[Some(&[128, 262_144])]),
    Case::new(&[Some(&[1, 1 << 28])]),
    Case::new(&[Some(&[8192, 8192])]).options(&[("axis", Value::Int(0))]),
];
