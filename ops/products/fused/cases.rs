//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

const fn tile(tile: &'static str) -> (&'static str, Value) {
    ("tile", Value::Choice(tile, super::call::TILES))
}

const SQUARES: (&str, f64, f64) = ("squares_of_a", 1.0, 40.0);

/// With and without a residual and factors; ragged rows, odd columns, no rows.
pub const RESIDUAL: &[Case] = &[
    Case::new(&[Some(&[130, 72]), Some(&[136, 72]), Some(&[130, 136]), Some(&[130, 3])]).ranges(&[SQUARES]),
    Case::new(&[Some(&[5, 40]), Some(&[265, 40]), Some(&[5, 265]), None]).options(&[tile("128x256 pairs")]),
    Case::new(&[Some(&[3, 16]), Some(&[8, 16]), None, Some(&[3, 1])]).ranges(&[SQUARES]),
    // Rows that no tensor map takes.
    Case::new(&[Some(&[4, 12]), Some(&[8, 12]), None, Some(&[4, 1])]).ranges(&[SQUARES]),
    Case::new(&[Some(&[0, 16]), Some(&[8, 16]), None, None]),
];

/// Ragged rows and columns.
pub const E4M3: &[Case] = &[
    Case::new(&[Some(&[70, 72]), Some(&[200, 72])]),
    Case::new(&[Some(&[3, 16]), Some(&[272, 16])]).options(&[tile("128x256 pairs")]),
    Case::new(&[Some(&[0, 16]), Some(&[8, 16])]),
];

const fn int(name: &'static str, value: i64) -> (&'static str, Value) {
    (name, Value::Int(value))
}

/// Heads of each size, both orders of pairs, pages; slots of no rows, and rows of no slot.
pub const QKV: &[Case] = &[
    Case::new(&[Some(&[3, 40]), Some(&[256, 40]), Some(&[3]), Some(&[3]), Some(&[5, 32]), Some(&[5, 32])])
        .values(&[("slots_of_rows", &[6.0, -1.0, 1.0]), ("positions", &[4.0, 0.0, 2.0])])
        .options(&[int("size", 64), int("kv_heads", 1), int("slots", 8), int("page", 4)]),
    Case::new(&[Some(&[3, 16]), Some(&[192, 16]), Some(&[3]), Some(&[3]), Some(&[5, 16]), Some(&[5, 16])])
        .values(&[("slots_of_rows", &[0.0, 9.0, 1.0]), ("positions", &[4.0, 0.0, 2.0])])
        .options(&[
            int("size", 32),
            int("kv_heads", 2),
            int("slots", 4),
            ("interleaved", Value::Bool(true)),
            tile("128x256 pairs"),
        ]),
    Case::new(&[Some(&[2, 16]), Some(&[384, 16]), Some(&[2]), Some(&[2]), Some(&[3, 64]), Some(&[3, 64])])
        .values(&[("slots_of_rows", &[2.0, 1.0]), ("positions", &[1.0, 2.0])])
        .options(&[int("size", 128), int("kv_heads", 1), int("slots", 3)]),
    Case::new(&[Some(&[2, 16]), Some(&[768, 16]), Some(&[2]), Some(&[2]), Some(&[3, 128]), Some(&[3, 128])])
        .values(&[("slots_of_rows", &[2.0, 1.0]), ("positions", &[1.0, 2.0])])
        .options(&[int("size", 256), int("kv_heads", 1), int("slots", 3)]),
    Case::new(&[Some(&[2, 16]), Some(&[96, 16]), Some(&[2]), None, None, None])
        .values(&[("slots_of_rows", &[2.0, 1.0])])
        .options(&[int("size", 32), int("kv_heads", 1), int("slots", 3)]),
];

/// A layer of 4,096 tokens: 32 heads of queries and 8 of keys and values.
pub const BENCH_QKV: &[Case] = &[Case::new(&[
    Some(&[4096, 4096]),
    Some(&[6144, 4096]),
    Some(&[4096]),
    Some(&[4096]),
    Some(&[4096, 64]),
    Some(&[4096, 64]),
])
.values(&[("slots_of_rows", &COUNT), ("positions", &COUNT)])
.options(&[int("size", 128), int("kv_heads", 8), int("slots", 4096)])];

#[allow(clippy::large_const_arrays, reason = "a case borrows it")]
const COUNT: [f64; 4096] = {
    let (mut count, mut i) = ([0.0; 4096], 0);
    while i < 4096 {
        count[i] = i as f64;
        i += 1;
    }
    count
};

/// The projections of a layer of 4,096 tokens.
pub const BENCH_RESIDUAL: &[Case] =
    &[Case::new(&[Some(&[4096, 4096]), Some(&[4096, 4096]), Some(&[4096, 4096]), Some(&[4096, 32])])
        .ranges(&[SQUARES])];

/// The same to e4m3.
pub const BENCH_E4M3: &[Case] = &[Case::new(&[Some(&[4096, 4096]), Some(&[4096, 4096])])];
