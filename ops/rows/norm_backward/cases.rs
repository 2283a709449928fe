//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

/// With and without weight and the gradient of the sum, rows shorter and longer than each shape of
/// kernels, more rows than a slice has, more than the first tiles of all blocks, rows whose mean is
/// far larger than their deviation.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[3, 5]), Some(&[3, 5]), Some(&[5]), None]).options(&[("eps", Value::Float(1e-2))]),
    Case::new(&[Some(&[300, 256]), Some(&[300, 256]), None, Some(&[300, 256])]),
    Case::new(&[Some(&[2, 3, 576]), Some(&[2, 3, 576]), Some(&[576]), Some(&[2, 3, 576])]),
    Case::new(&[Some(&[5, 1000]), Some(&[5, 1000]), Some(&[1000]), None]).ranges(&[("x", 1e4, 1e4 + 4.0)]),
    Case::new(&[Some(&[2, 1025]), Some(&[2, 1025]), Some(&[1025]), None]),
    Case::new(&[Some(&[0, 7]), Some(&[0, 7]), Some(&[7]), None]),
    Case::new(&[Some(&[9000, 8]), Some(&[9000, 8]), Some(&[8]), None]),
    Case::new(&[Some(&[3, 6000]), Some(&[3, 6000]), Some(&[6000]), None]),
    Case::new(&[Some(&[2, 9000]), Some(&[2, 9000]), Some(&[9000]), Some(&[2, 9000])]),
    Case::new(&[Some(&[3, 17_000]), Some(&[3, 17_000]), Some(&[17_000]), None]),
    Case::new(&[Some(&[2, 17_001]), Some(&[2, 17_001]), None, Some(&[2, 17_001])])
        .ranges(&[("x", 50.0, 52.0)]),
];

/// 64 MB and more of bf16.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[131_072, 128]), Some(&[131_072, 128]), Some(&[128]), None]),
    Case::new(&[Some(&[32_768, 1024]), Some(&[32_768, 1024]), Some(&[1024]), None]),
    Case::new(&[Some(&[16_384, 4096]), Some(&[16_384, 4096]), Some(&[4096]), None]),
    Case::new(&[Some(&[16_384, 4096]), Some(&[16_384, 4096]), Some(&[4096]), Some(&[16_384, 4096])]),
    Case::new(&[Some(&[8192, 8192]), Some(&[8192, 8192]), Some(&[8192]), None]),
    Case::new(&[Some(&[4096, 32_768]), Some(&[4096, 32_768]), Some(&[32_768]), None]),
    Case::new(&[Some(&[512, 131_072]), Some(&[512, 131_072]), Some(&[131_072]), None]),
];
