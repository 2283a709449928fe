//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

const fn tile(tile: &'static str) -> (&'static str, Value) {
    ("tile", Value::Choice(tile, super::call::TILES))
}

/// Small elements, whose gates are neither 0 nor 1.
const SMALL: &[(&str, f64, f64)] = &[("x", -1.0, 1.0), ("gate_up", -1.0, 1.0)];

const fn case(inputs: &'static [Option<&'static [usize]>]) -> Case {
    Case::new(inputs).ranges(SMALL)
}

/// Ragged rows, odd columns and elements, one of each, none; each tile.
pub const CASES: &[Case] = &[
    case(&[Some(&[70, 72]), Some(&[2 * 136, 72])]),
    case(&[Some(&[130, 40]), Some(&[2 * 133, 40])]).options(&[tile("128x128 pairs")]),
    case(&[Some(&[3, 20]), Some(&[2 * 9, 20])]).options(&[tile("128x128")]),
    case(&[Some(&[140, 200]), Some(&[2 * 152, 200])]).options(&[tile("128x128 mma")]),
    case(&[Some(&[67, 136]), Some(&[2 * 72, 136])]).options(&[tile("64x64 mma")]),
    case(&[Some(&[1, 1]), Some(&[2, 1])]),
    case(&[Some(&[0, 16]), Some(&[16, 16])]),
    case(&[Some(&[2, 0]), Some(&[18, 0])]),
];

/// The MLPs of models of 8 and of 70 billion parameters, of a batch and of few rows.
pub const BENCH: &[Case] = &[
    case(&[Some(&[4096, 4096]), Some(&[2 * 14_336, 4096])]),
    case(&[Some(&[4096, 8192]), Some(&[2 * 28_672, 8192])]),
    case(&[Some(&[64, 4096]), Some(&[2 * 14_336, 4096])]),
    case(&[Some(&[4096, 4096]), Some(&[2 * 14_336, 4096])]).options(&[tile("128x128 mma")]),
];
