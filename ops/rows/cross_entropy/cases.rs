//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

/// Rows shorter and longer than each shape of kernels, ragged, single, and along other axes; with
/// ignored targets, targets outside the classes, and gradients of losses.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[5, 3]), Some(&[5]), None])
        .options(&[("ignore_index", Value::Int(1))])
        .ranges(&[("targets", 0.0, 3.0)]),
    Case::new(&[Some(&[17, 256]), Some(&[17]), None]).ranges(&[("targets", 0.0, 256.0)]),
    Case::new(&[Some(&[2, 3, 257]), Some(&[2, 3]), Some(&[2, 3])])
        .options(&[("label_smoothing", Value::Float(0.1)), ("grad_scale", Value::Float(0.5))])
        .ranges(&[("targets", 0.0, 257.0)]),
    Case::new(&[Some(&[16, 4]), Some(&[16]), Some(&[16])])
        .options(&[("ignore_index", Value::Int(-1))])
        .ranges(&[("targets", -3.0, 8.0)]),
    Case::new(&[Some(&[5, 1000]), Some(&[5]), None])
        .options(&[("label_smoothing", Value::Float(1.0))])
        .ranges(&[("targets", 0.0, 1000.0)]),
    Case::new(&[Some(&[0, 7]), Some(&[0]), None]),
    Case::new(&[Some(&[0, 5, 7]), Some(&[0, 7]), None]).options(&[("axis", Value::Int(1))]),
    Case::new(&[Some(&[2, 9000]), Some(&[2]), None])
        .ranges(&[("logits", -1e4, -9990.0), ("targets", 0.0, 9000.0)]),
    Case::new(&[Some(&[2, 50_257]), Some(&[2]), Some(&[2])]).ranges(&[("targets", 0.0, 50_257.0)]),
    Case::new(&[Some(&[2, 33_000]), Some(&[2]), None])
        .options(&[("label_smoothing", Value::Float(0.1))])
        .ranges(&[("targets", 0.0, 33_000.0)]),
    Case::new(&[Some(&[3, 40, 7]), Some(&[3, 7]), Some(&[3, 7])])
        .options(&[("axis", Value::Int(1)), ("label_smoothing", Value::Float(0.25))])
        .ranges(&[("targets", 0.0, 40.0)]),
    Case::new(&[Some(&[300]), Some(&[]), None]).ranges(&[("targets", 0.0, 300.0)]),
];

/// Rows of each shape of kernels and vocabularies of language models, with the gradient; and
/// without.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[65_536, 1000]), Some(&[65_536]), Some(&[65_536])]).ranges(&[("targets", 0.0, 1000.0)]),
    Case::new(&[Some(&[16_384, 4096]), Some(&[16_384]), Some(&[16_384])]).ranges(&[("targets", 0.0, 4096.0)]),
    Case::new(&[Some(&[4096, 32_000]), Some(&[4096]), Some(&[4096])]).ranges(&[("targets", 0.0, 32_000.0)]),
    Case::new(&[Some(&[4096, 50_304]), Some(&[4096]), Some(&[4096])]).ranges(&[("targets", 0.0, 50_304.0)]),
    Case::new(&[Some(&[2048, 128_256]), Some(&[2048]), Some(&[2048])]).ranges(&[("targets", 0.0, 128_256.0)]),
    Case::new(&[Some(&[131_072, 128]), Some(&[131_072]), None]).ranges(&[("targets", 0.0, 128.0)]),
    Case::new(&[Some(&[65_536, 1000]), Some(&[65_536]), None]).ranges(&[("targets", 0.0, 1000.0)]),
    Case::new(&[Some(&[16_384, 4096]), Some(&[16_384]), None]).ranges(&[("targets", 0.0, 4096.0)]),
    Case::new(&[Some(&[8192, 8192]), Some(&[8192]), None]).ranges(&[("targets", 0.0, 8192.0)]),
    Case::new(&[Some(&[4096, 32_768]), Some(&[4096]), None]).ranges(&[("targets", 0.0, 32_768.0)]),
    Case::new(&[Some(&[512, 131_072]), Some(&[512]), None]).ranges(&[("targets", 0.0, 131_072.0)]),
    Case::new(&[Some(&[256, 262_144]), Some(&[256]), None]).ranges(&[("targets", 0.0, 262_144.0)]),
];
