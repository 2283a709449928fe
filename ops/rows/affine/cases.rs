//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Dtype, Value};

/// Equal shapes and broadcasts, ragged and empty.
pub const SUMS: &[Case] = &[
    Case::new(&[Some(&[3, 40]), Some(&[3, 40])]),
    Case::new(&[Some(&[5, 7]), Some(&[7])]).options(ALPHA),
    Case::new(&[Some(&[3, 1, 33]), Some(&[5, 1])]).options(ALPHA),
    Case::new(&[Some(&[1]), Some(&[2, 1000])]),
    Case::new(&[Some(&[4099]), Some(&[4099])]).options(ALPHA),
    Case::new(&[Some(&[2, 2, 3, 2, 3, 5]), Some(&[2, 1, 3, 1, 3, 5])]),
    Case::new(&[Some(&[0, 3]), Some(&[3])]),
    Case::new(&[Some(&[]), Some(&[])]),
];
const ALPHA: &[(&str, Value)] = &[("alpha", Value::Float(-0.75))];

/// Both factors.
pub const AXPBY: &[Case] = &[
    Case::new(&[Some(&[3, 1000]), Some(&[3, 1000])])
        .options(&[("alpha", Value::Float(2.5)), ("beta", Value::Float(-0.125))]),
    Case::new(&[Some(&[4, 33]), Some(&[1, 33])]).options(&[("beta", Value::Float(0.0))]),
];

/// Each type of the result.
pub const CASTS: &[Case] = &[
    Case::new(&[Some(&[3, 40])]),
    Case::new(&[Some(&[5, 7])]).options(&[("dtype", Value::Dtype(Dtype::F16))]),
    Case::new(&[Some(&[2, 1001])]).options(&[("dtype", Value::Dtype(Dtype::Bf16))]),
    Case::new(&[Some(&[5000])]).options(&[("dtype", Value::Dtype(Dtype::F16))]),
    Case::new(&[Some(&[4, 64])]).options(&[("dtype", Value::Dtype(Dtype::Bf16))]),
    Case::new(&[Some(&[0])]),
];

/// Constants.
pub const CONSTANTS: &[Case] = &[
    Case::new(&[Some(&[3, 40])]),
    Case::new(&[Some(&[4099])]).options(&[("value", Value::Float(-1.5))]),
    Case::new(&[Some(&[5, 3])]).options(&[("value", Value::Float(f64::INFINITY))]),
];

/// 64 MB and more of bf16.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[16_384, 4096]), Some(&[16_384, 4096])]),
    Case::new(&[Some(&[16_384, 4096]), Some(&[4096])]),
];
/// [`BENCH`] for one operand.
pub const BENCH_OF_ONE: &[Case] = &[
    Case::new(&[Some(&[16_384, 4096])]),
    Case::new(&[Some(&[524_288, 128])]),
    Case::new(&[Some(&[8192, 8192])]),
    Case::new(&[Some(&[2048, 32_768])]),
    Case::new(&[Some(&[512, 131_072])]),
    Case::new(&[Some(&[256, 262_144])]),
];
