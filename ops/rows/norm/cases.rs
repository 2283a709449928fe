//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Dtype, Value};

/// With and without weight and residual, rows shorter and longer than each shape of kernels, and
/// each type of the result.
pub const RMS_NORM: &[Case] = &[
    Case::new(&[Some(&[1, 1]), None, None]),
    Case::new(&[Some(&[3, 5]), Some(&[5]), None]).options(&[("eps", Value::Float(1e-5))]),
    Case::new(&[Some(&[17, 256]), None, Some(&[17, 256])])
        .options(&[("dtype", Value::Choice("float32", &[]))]),
    Case::new(&[Some(&[2, 3, 576]), Some(&[576]), Some(&[2, 3, 576])]),
    Case::new(&[Some(&[5, 1000]), Some(&[1000]), None]).options(&[("dtype", Value::Choice("bfloat16", &[]))]),
    Case::new(&[Some(&[2, 1025]), Some(&[1025]), Some(&[2, 1025])])
        .options(&[("dtype", Value::Choice("float16", &[]))]),
    Case::new(&[Some(&[0, 7]), Some(&[7]), None]),
    Case::new(&[Some(&[2, 8200]), Some(&[8200]), Some(&[2, 8200])]),
    Case::new(&[Some(&[1, 40_000]), Some(&[40_000]), None]),
];

/// The same with bias, and rows whose mean is far larger than their deviation.
pub const LAYER_NORM: &[Case] = &[
    Case::new(&[Some(&[1, 1]), None, None, None]),
    Case::new(&[Some(&[3, 5]), Some(&[5]), Some(&[5]), None]).options(&[("eps", Value::Float(1e-2))]),
    Case::new(&[Some(&[17, 256]), None, Some(&[256]), Some(&[17, 256])]),
    Case::new(&[Some(&[2, 3, 576]), Some(&[576]), None, Some(&[2, 3, 576])]),
    Case::new(&[Some(&[5, 1000]), Some(&[1000]), Some(&[1000]), None]).ranges(&[("x", 1e4, 1e4 + 4.0)]),
    Case::new(&[Some(&[2, 1025]), Some(&[1025]), Some(&[1025]), None]),
    Case::new(&[Some(&[0, 7]), Some(&[7]), None, None]),
    Case::new(&[Some(&[2, 8200]), Some(&[8200]), None, None]).ranges(&[("x", -1e4, -1e4 + 4.0)]),
    Case::new(&[Some(&[1, 40_000]), Some(&[40_000]), Some(&[40_000]), None]).ranges(&[("x", 1e4, 1e4 + 4.0)]),
];

const INT8: &[(&str, Value)] = &[("dtype", Value::Dtype(Dtype::I8))];

/// In 8 bits: each type, rows of a warp, a block, clusters, and zeros.
pub const RMS_NORM_QUANTIZED: &[Case] = &[
    Case::new(&[Some(&[3, 100]), Some(&[100]), Some(&[3, 100])]),
    Case::new(&[Some(&[2, 3, 256]), None, None]).options(INT8),
    Case::new(&[Some(&[2, 1025]), Some(&[1025]), None]).options(&[("dtype", Value::Dtype(Dtype::E5m2))]),
    Case::new(&[Some(&[3, 40]), None, None]).ranges(&[("x", 0.0, 0.0)]),
    Case::new(&[Some(&[1, 40_000]), None, None]),
];

/// The same with a mean, which moves the elements of clusters' blocks.
pub const LAYER_NORM_QUANTIZED: &[Case] = &[
    Case::new(&[Some(&[3, 100]), Some(&[100]), Some(&[100]), Some(&[3, 100])]).options(INT8),
    Case::new(&[Some(&[1, 40_000]), None, None, None]).ranges(&[("x", 1e4, 1e4 + 4.0)]),
];

/// Activations of a model in 8 bits.
pub const BENCH_QUANTIZED: &[Case] = &[
    Case::new(&[Some(&[16_384, 4096]), Some(&[4096]), None]),
    Case::new(&[Some(&[16_384, 4096]), Some(&[4096]), None]).options(INT8),
];

/// The same with a bias.
pub const BENCH_LAYER_NORM_QUANTIZED: &[Case] =
    &[Case::new(&[Some(&[16_384, 4096]), Some(&[4096]), Some(&[4096]), None])];

/// 64 MB and more of bf16.
pub const BENCH_RMS_NORM: &[Case] = &[
    Case::new(&[Some(&[131_072, 128]), Some(&[128]), None]),
    Case::new(&[Some(&[32_768, 1024]), Some(&[1024]), None]),
    Case::new(&[Some(&[16_384, 4096]), Some(&[4096]), None]),
    Case::new(&[Some(&[16_384, 4096]), Some(&[4096]), Some(&[16_384, 4096])]),
    Case::new(&[Some(&[8192, 8192]), Some(&[8192]), None]),
    Case::new(&[Some(&[4096, 32_768]), Some(&[32_768]), None]),
    Case::new(&[Some(&[512, 131_072]), Some(&[131_072]), None]),
    Case::new(&[Some(&[256, 262_144]), Some(&[262_144]), None]),
];

/// Bias and weight, 64 MB and more of bf16.
pub const BENCH_LAYER_NORM: &[Case] = &[
    Case::new(&[Some(&[131_072, 128]), Some(&[128]), Some(&[128]), None]),
    Case::new(&[Some(&[32_768, 1024]), Some(&[1024]), Some(&[1024]), None]),
    Case::new(&[Some(&[16_384, 4096]), Some(&[4096]), Some(&[4096]), None]),
    Case::new(&[Some(&[16_384, 4096]), Some(&[4096]), Some(&[4096]), Some(&[16_384, 4096])]),
    Case::new(&[Some(&[8192, 8192]), Some(&[8192]), Some(&[8192]), None]),
    Case::new(&[Some(&[4096, 32_768]), Some(&[32_768]), Some(&[32_768]), None]),
    Case::new(&[Some(&[512, 131_072]), Some(&[131_072]), Some(&[131_072]), None]),
    Case::new(&[Some(&[256, 262_144]), Some(&[262_144]), Some(&[262_144]), None]),
];
