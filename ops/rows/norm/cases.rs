//! Shapes that break kernels, and shapes that are measured.

use moye::operation::{Case, Value};

/// With and without weight and residual, rows shorter and longer than each shape of kernels.
pub const CASES: &[Case] = &[
    Case { inputs: &[Some(&[1, 1]), None, None], options: &[] },
    Case { inputs: &[Some(&[3, 5]), Some(&[5]), None], options: &[("eps", Value::Float(1e-5))] },
    Case { inputs: &[Some(&[17, 256]), None, Some(&[17, 256])], options: &[] },
    Case { inputs: &[Some(&[2, 3, 576]), Some(&[576]), Some(&[2, 3, 576])], options: &[] },
    Case { inputs: &[Some(&[5, 1000]), Some(&[1000]), None], options: &[] },
    Case { inputs: &[Some(&[2, 1025]), Some(&[1025]), Some(&[2, 1025])], options: &[] },
    Case { inputs: &[Some(&[0, 7]), Some(&[7]), None], options: &[] },
    Case { inputs: &[Some(&[2, 8200]), Some(&[8200]), Some(&[2, 8200])], options: &[] },
    Case { inputs: &[Some(&[1, 40_000]), Some(&[40_000]), None], options: &[] },
];

const fn weighted(shape: &'static [Option<&'static [usize]>]) -> Case {
    Case { inputs: shape, options: &[] }
}

/// 64 MB and more of bf16.
pub const BENCH: &[Case] = &[
    weighted(&[Some(&[131_072, 128]), Some(&[128]), None]),
    weighted(&[Some(&[32_768, 1024]), Some(&[1024]), None]),
    weighted(&[Some(&[16_384, 4096]), Some(&[4096]), None]),
    weighted(&[Some(&[16_384, 4096]), Some(&[4096]), Some(&[16_384, 4096])]),
    weighted(&[Some(&[8192, 8192]), Some(&[8192]), None]),
    weighted(&[Some(&[4096, 32_768]), Some(&[32_768]), None]),
    weighted(&[Some(&[512, 131_072]), Some(&[131_072]), None]),
    weighted(&[Some(&[256, 262_144]), Some(&[262_144]), None]),
];
