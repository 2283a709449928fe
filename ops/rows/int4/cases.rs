//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Dtype, Value};

const OF_64: (&str, Value) = ("group", Value::Int(64));
const OF_128: (&str, Value) = ("group", Value::Int(128));
const F32: (&str, Value) = ("scale_dtype", Value::Dtype(Dtype::F32));
const BF16: (&str, Value) = ("dtype", Value::Dtype(Dtype::Bf16));

/// Each size of group, ragged and whole, and values far from zero.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[2, 40])]),
    Case::new(&[Some(&[2, 3, 256])]).options(&[OF_64, F32]).ranges(&[("x", 1000.0, 1001.0)]),
    Case::new(&[Some(&[5, 640])]).options(&[OF_128]),
    Case::new(&[Some(&[3, 2])]).options(&[F32]).ranges(&[("x", 0.0, 0.0)]),
    Case::new(&[Some(&[0, 8])]),
    Case::new(&[Some(&[17, 330])]).options(&[OF_128, F32]),
];

const fn of(inputs: &'static [Option<&'static [usize]>]) -> Case {
    Case::new(inputs).ranges(&[("q", 0.0, 256.0)])
}

/// The same back, with and without minima.
pub const BACK: &[Case] = &[
    of(&[Some(&[2, 20]), Some(&[2, 2]), None]),
    of(&[Some(&[2, 3, 128]), Some(&[2, 3, 4]), Some(&[2, 3, 4])]).options(&[OF_64, BF16]),
    of(&[Some(&[5, 165]), Some(&[5, 3]), Some(&[5, 3])])
        .options(&[OF_128, ("dtype", Value::Dtype(Dtype::F16))]),
];

/// Weights of a model.
pub const BENCH: &[Case] =
    &[Case::new(&[Some(&[16_384, 4096])]), Case::new(&[Some(&[16_384, 4096])]).options(&[OF_128])];

/// The same, back.
pub const BENCH_BACK: &[Case] = &[
    of(&[Some(&[16_384, 2048]), Some(&[16_384, 128]), None]).options(&[BF16]),
    of(&[Some(&[16_384, 2048]), Some(&[16_384, 32]), Some(&[16_384, 32])]).options(&[OF_128, BF16]),
];
