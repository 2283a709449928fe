//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Dtype, Value};

const fn value(value: i64) -> Value {
    Value::Int(value)
}

const INT8: (&str, Value) = ("dtype", Value::Dtype(Dtype::I8));
const E5M2: (&str, Value) = ("dtype", Value::Dtype(Dtype::E5m2));
const WHOLE: (&str, Value) = ("tile_rows", value(0));
const BLOCK: (&str, Value) = ("tile_columns", value(128));
const TILE: &[(&str, Value)] = &[("tile_rows", value(128)), BLOCK];

/// Each type with each kind of tile, ragged and whole.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[1, 1])]),
    Case::new(&[Some(&[3, 256])]).options(&[BLOCK]),
    Case::new(&[Some(&[2, 130, 136])]).options(TILE),
    Case::new(&[Some(&[5, 300])]).options(&[WHOLE, INT8]),
    Case::new(&[Some(&[2, 3, 257])]).options(&[INT8, BLOCK]),
    Case::new(&[Some(&[1, 9000])]).options(&[E5M2]),
    Case::new(&[Some(&[300])]).options(&[INT8]),
    Case::new(&[Some(&[3, 40])]).options(&[WHOLE, E5M2]).ranges(&[("x", 0.0, 0.0)]),
    Case::new(&[Some(&[4, 9000])]).options(&[WHOLE]),
    Case::new(&[Some(&[260, 136])]).options(TILE),
    Case::new(&[Some(&[130, 257])]).options(TILE),
];

/// Activations of a model with each kind of tile, and with the transpose.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[16_384, 4096])]).bare(),
    Case::new(&[Some(&[16_384, 4096])]).bare().options(&[BLOCK]),
    Case::new(&[Some(&[16_384, 4096])]).bare().options(TILE),
    Case::new(&[Some(&[16_384, 4096])]).bare().options(&[WHOLE]),
    Case::new(&[Some(&[16_384, 4096])]).options(TILE),
    Case::new(&[Some(&[524_288, 128])]).bare(),
    Case::new(&[Some(&[65_536, 1024])]).bare(),
    Case::new(&[Some(&[2048, 32_768])]).bare(),
    Case::new(&[Some(&[8192, 8192])]).bare(),
    Case::new(&[Some(&[512, 131_072])]).bare(),
    Case::new(&[Some(&[256, 262_144])]).bare(),
];
