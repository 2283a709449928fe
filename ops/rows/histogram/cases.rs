//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

const fn bins(bins: i64) -> (&'static str, Value) {
    ("bins", Value::Int(bins))
}

const LOW: (&str, Value) = ("low", Value::Float(-1.5));
const HIGH: (&str, Value) = ("high", Value::Float(2.0));

/// Few bins and more than shared memory has, values out of the range, and no elements.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[3, 2000])]).options(&[LOW, HIGH, bins(10)]),
    Case::new(&[Some(&[2, 3, 257])]).options(&[LOW, HIGH, bins(9000)]),
    Case::new(&[Some(&[0, 5])]).options(&[bins(3)]),
    Case::new(&[Some(&[1])]).options(&[LOW, HIGH, bins(1)]),
];

/// Integers in a range that has more than the bins.
pub const INTEGERS: &[Case] = &[
    Case::new(&[Some(&[3, 2000])]).options(&[bins(50)]).ranges(&[("x", -10.0, 60.0)]),
    Case::new(&[Some(&[70, 3])]).options(&[bins(10_000)]).ranges(&[("x", 0.0, 100.0)]),
];

/// 64 MB of bf16.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[8192, 8192])]).options(&[LOW, HIGH, bins(256)]),
    Case::new(&[Some(&[8192, 8192])]).options(&[LOW, HIGH, bins(8192)]),
];

/// 256 MB of int32.
pub const BENCH_INTEGERS: &[Case] =
    &[Case::new(&[Some(&[8192, 8192])]).options(&[bins(1000)]).ranges(&[("x", 0.0, 1000.0)])];
