//! Lists and groups that stress the kernels, and benchmark cases.

use crate::grouped::cases::UNEVEN_64;
use moye_runtime::operation::{Case, Dtype, Value};

const F32: (&str, Value) = ("dtype", Value::Dtype(Dtype::F32));
const F16: (&str, Value) = ("dtype", Value::Dtype(Dtype::F16));
/// The operands of which results may be f16.
const E4M3: &[Dtype] = &[Dtype::E4m3];

const fn list(inputs: &'static [Option<&'static [usize]>]) -> Case {
    const FROM: f64 = 0.25;
    Case::new(inputs).ranges(&[
        ("scale_a0", FROM, 4.0),
        ("scale_b0", FROM, 4.0),
        ("scale_a1", FROM, 4.0),
        ("scale_b1", FROM, 4.0),
        ("scale_a2", FROM, 4.0),
        ("scale_b2", FROM, 4.0),
        ("scale_a3", FROM, 4.0),
        ("scale_b3", FROM, 4.0),
    ])
}

/// Lists: of whole tiles, ragged ones and none; scales of blocks, rows and all; a gap.
pub const PAIRS: &[Case] = &[
    list(&[
        Some(&[130, 144]),
        Some(&[136, 144]),
        Some(&[130, 2]),
        Some(&[2, 2]),
        Some(&[1, 16]),
        Some(&[9, 16]),
        Some(&[1, 1]),
        Some(&[1, 1]),
        Some(&[0, 32]),
        Some(&[5, 32]),
        Some(&[0, 1]),
        Some(&[1, 1]),
        Some(&[65, 48]),
        Some(&[257, 48]),
        Some(&[65, 1]),
        Some(&[3, 1]),
    ]),
    list(&[
        Some(&[3, 0]),
        Some(&[5, 0]),
        Some(&[1, 1]),
        Some(&[1, 1]),
        None,
        None,
        None,
        None,
        Some(&[17, 130]),
        Some(&[20, 130]),
        Some(&[17, 2]),
        Some(&[1, 2]),
        None,
        None,
        None,
        None,
    ])
    .options(&[F32]),
    list(&[
        Some(&[70, 144]),
        Some(&[24, 144]),
        Some(&[70, 2]),
        Some(&[1, 2]),
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
    ])
    .options(&[F16])
    .only(E4M3),
];

/// Four projections of a large model's layer.
pub const BENCH_PAIRS: &[Case] = &[list(&[
    Some(&[4096, 7168]),
    Some(&[4096, 7168]),
    Some(&[4096, 56]),
    Some(&[32, 56]),
    Some(&[4096, 7168]),
    Some(&[2112, 7168]),
    Some(&[4096, 56]),
    Some(&[17, 56]),
    Some(&[4096, 2048]),
    Some(&[7168, 2048]),
    Some(&[4096, 16]),
    Some(&[56, 16]),
    Some(&[512, 7168]),
    Some(&[4096, 7168]),
    Some(&[512, 56]),
    Some(&[32, 56]),
])];

const fn along(inputs: &'static [Option<&'static [usize]>]) -> Case {
    Case::new(inputs).ranges(&[("scale_a", 0.25, 4.0), ("scale_b", 0.25, 4.0)])
}

/// Groups that share a block of 128 rows, that begin and end with one, with a row, without rows;
/// NaN values of another group; scales of rows, blocks and all.
pub const ALONG: &[Case] = &[
    along(&[Some(&[300, 40]), Some(&[300, 24]), Some(&[3, 40]), Some(&[3, 24]), Some(&[5])])
        .values(&[("ends", &[3.0, 3.0, 129.0, 256.0, 300.0])]),
    along(&[Some(&[256, 136]), Some(&[256, 264]), Some(&[2, 1]), Some(&[2, 3]), Some(&[3])])
        .values(&[("ends", &[128.0, 256.0, 256.0])])
        .options(&[F32]),
    along(&[Some(&[140, 24]), Some(&[140, 40]), Some(&[2, 24]), Some(&[2, 40]), Some(&[2])])
        .values(&[("ends", &[130.0, 140.0])])
        .options(&[F16])
        .only(E4M3),
    along(&[Some(&[3, 1]), Some(&[3, 9]), Some(&[1, 1]), Some(&[1, 1]), Some(&[2])])
        .values(&[("ends", &[2.0, 3.0]), ("a", &[1.0, 2.0, f64::NAN])]),
    along(&[Some(&[0, 8]), Some(&[0, 16]), Some(&[1, 8]), Some(&[1, 1]), Some(&[2])])
        .values(&[("ends", &[0.0, 0.0])]),
];

/// Gradients of 64 experts' weights.
pub const BENCH_ALONG: &[Case] =
    &[along(&[Some(&[8192, 4096]), Some(&[8192, 2048]), Some(&[64, 4096]), Some(&[64, 2048]), Some(&[64])])
        .values(&[("ends", &UNEVEN_64)])];
