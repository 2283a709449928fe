//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

/// Rows of fewer and more elements than groups, of many equal ones, and along another axis.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[1, 1])]).options(&[("k", Value::Int(1))]),
    Case::new(&[Some(&[3, 60])]).options(&[("int32", Value::Bool(true))]),
    Case::new(&[Some(&[2, 300])]).options(&[("k", Value::Int(128))]),
    Case::new(&[Some(&[2, 70, 3])]).options(&[("k", Value::Int(5)), ("axis", Value::Int(1))]),
    Case::new(&[Some(&[0, 70])]),
    Case::new(&[Some(&[2, 5003])]),
    Case::new(&[Some(&[1, 40_000])]).options(&[("k", Value::Int(128))]),
    // All elements are equal, or all above one of a few values.
    Case::new(&[Some(&[2, 3000])]).ranges(&[("x", 1.0, 1.0)]),
    Case::new(&[Some(&[1, 6000])]).ranges(&[("x", 1.0, 1.0 + 1.0 / 256.0)]),
];

/// A vocabulary.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[64, 131_072])]),
    Case::new(&[Some(&[1, 131_072])]),
    Case::new(&[Some(&[64, 262_144])]).options(&[("k", Value::Int(128))]),
    Case::new(&[Some(&[4096, 4096])]).options(&[("k", Value::Int(8))]),
];
