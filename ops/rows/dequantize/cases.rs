//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Dtype, Value};

const BF16: &[(&str, Value)] = &[("dtype", Value::Dtype(Dtype::Bf16))];

/// Scales of rows, blocks, tiles, and one for all, and none for a case without elements.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[3, 40]), Some(&[3])]),
    Case::new(&[Some(&[5, 300]), Some(&[])]).options(BF16),
    Case::new(&[Some(&[2, 3, 257]), Some(&[2, 3, 3])]).options(&[("dtype", Value::Dtype(Dtype::F16))]),
    Case::new(&[Some(&[2, 130, 136]), Some(&[2, 2, 2])]),
    Case::new(&[Some(&[0, 7]), Some(&[0])]),
];

/// Activations of a model, with a scale a row and a block.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[16_384, 4096]), Some(&[16_384])]).options(BF16),
    Case::new(&[Some(&[16_384, 4096]), Some(&[16_384, 32])]).options(BF16),
];
