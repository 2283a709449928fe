//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Dtype, Value};

const SCALES: &[(&str, f64, f64)] = &[("scale_a", 0.25, 4.0), ("scale_b", 0.25, 4.0)];

const fn case(inputs: &'static [Option<&'static [usize]>]) -> Case {
    Case::new(inputs).ranges(SCALES)
}

const fn tile(tile: &'static str) -> (&'static str, Value) {
    ("tile", Value::Choice(tile, super::call::TILES))
}

/// Ragged, tiny and empty shapes; scales of blocks, rows and the whole matrix; each tile. Operands
/// are e4m3: `tests/operations.rs` has cases of other types.
pub const CASES: &[Case] = &[
    case(&[Some(&[70, 144]), Some(&[200, 144]), Some(&[70, 2]), Some(&[2, 2]), None]),
    case(&[Some(&[1, 16]), Some(&[1, 16]), Some(&[1, 1]), Some(&[1, 1]), None]),
    case(&[Some(&[130, 272]), Some(&[264, 272]), Some(&[130, 1]), Some(&[3, 3]), None])
        .options(&[("dtype", Value::Dtype(Dtype::F16)), tile("128x256")]),
    case(&[Some(&[200, 272]), Some(&[136, 272]), Some(&[200, 3]), Some(&[2, 3]), None])
        .options(&[tile("192x128")]),
    // By group.
    case(&[Some(&[150, 144]), Some(&[3, 136, 144]), Some(&[150, 2]), Some(&[3, 2, 2]), Some(&[3])])
        .values(&[("ends", &[3.0, 3.0, 150.0])])
        .options(&[tile("128x256")]),
    case(&[Some(&[2, 70, 48]), Some(&[2, 24, 48]), Some(&[2, 70, 1]), Some(&[2, 1, 1]), Some(&[2])])
        .values(&[("ends", &[70.0, 5.0])])
        .options(&[tile("128x128")]),
    case(&[Some(&[3, 0]), Some(&[5, 0]), Some(&[1, 1]), Some(&[1, 1]), None]),
    case(&[Some(&[0, 32]), Some(&[5, 32]), Some(&[0, 1]), Some(&[1, 1]), None]),
];

const ENDS: &[f64] = &[4096.0, 8192.0, 12_288.0, 16_384.0, 20_480.0, 24_576.0, 28_672.0, 32_768.0];

/// The products of a large model's layers.
pub const BENCH: &[Case] = &[
    case(&[Some(&[4096, 2048]), Some(&[7168, 2048]), Some(&[4096, 16]), Some(&[56, 16]), None]),
    case(&[Some(&[4096, 7168]), Some(&[4096, 7168]), Some(&[4096, 56]), Some(&[32, 56]), None]),
    case(&[Some(&[4096, 1536]), Some(&[24_576, 1536]), Some(&[4096, 12]), Some(&[192, 12]), None]),
    case(&[Some(&[4096, 7168]), Some(&[2112, 7168]), Some(&[4096, 56]), Some(&[17, 56]), None]),
    case(&[Some(&[4096, 16_384]), Some(&[7168, 16_384]), Some(&[4096, 128]), Some(&[56, 128]), None]),
    // Groups of 4,096 rows.
    case(&[
        Some(&[32_768, 2048]),
        Some(&[8, 7168, 2048]),
        Some(&[32_768, 16]),
        Some(&[8, 56, 16]),
        Some(&[8]),
    ])
    .values(&[("ends", ENDS)])
    .bare(),
    case(&[
        Some(&[32_768, 7168]),
        Some(&[8, 4096, 7168]),
        Some(&[32_768, 56]),
        Some(&[8, 32, 56]),
        Some(&[8]),
    ])
    .values(&[("ends", ENDS)])
    .bare(),
    case(&[Some(&[64, 16_384]), Some(&[7168, 16_384]), Some(&[64, 128]), Some(&[56, 128]), None]),
];
