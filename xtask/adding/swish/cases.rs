//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::Case;

/// Ragged, one element, and none.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[3, 1000])]),
    Case::new(&[Some(&[2, 3, 33])]),
    Case::new(&[Some(&[])]),
    Case::new(&[Some(&[0, 3])]),
];

/// 128 MB of bf16.
pub const BENCH: &[Case] = &[Case::new(&[Some(&[16_384, 4096])])];
