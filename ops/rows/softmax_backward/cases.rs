//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

const fn of(shape: &'static [Option<&'static [usize]>; 2]) -> Case {
    Case::new(shape).ranges(&[("y", -4.0, 1.0)])
}

/// Rows shorter and longer than each shape of kernels, ragged, single, and along other axes.
pub const CASES: &[Case] = &[
    of(&[Some(&[1, 1]); 2]),
    of(&[Some(&[17, 256]); 2]),
    of(&[Some(&[2, 3, 257]); 2]),
    of(&[Some(&[5, 1000]); 2]),
    of(&[Some(&[2, 1025]); 2]),
    of(&[Some(&[0, 7]); 2]),
    of(&[Some(&[3, 0]); 2]),
    of(&[Some(&[2, 9000]); 2]),
    of(&[Some(&[1, 50_257]); 2]),
    of(&[Some(&[2, 17_000]); 2]),
    of(&[Some(&[3, 40, 7]); 2]).options(&[("axis", Value::Int(1)), ("scale", Value::Float(-0.125))]),
    of(&[Some(&[33, 6]); 2]).options(&[("axis", Value::Int(0))]),
];

/// 64 MB and more of bf16, from rows of a head to rows of a vocabulary.
pub const BENCH: &[Case] = &[
    of(&[Some(&[131_072, 128]); 2]),
    of(&[Some(&[32_768, 1024]); 2]),
    of(&[Some(&[16_384, 4096]); 2]),
    of(&[Some(&[8192, 8192]); 2]),
    of(&[Some(&[4096, 32_768]); 2]),
    of(&[Some(&[512, 131_072]); 2]),
];
