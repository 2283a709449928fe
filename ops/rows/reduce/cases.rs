//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Axes, Case, Value};

const LAST: &[(&str, Value)] = &[("axis", Value::Axes(Axes::new([-1])))];
const FIRST: &[(&str, Value)] = &[("axis", Value::Axes(Axes::new([0])))];
const MIDDLE: &[(&str, Value)] = &[("axis", Value::Axes(Axes::new([1])))];

const OUTER: &[(&str, Value)] = &[("axis", Value::Axes(Axes::new([0, -1])))];
const INNER: &[(&str, Value)] = &[("axis", Value::Axes(Axes::new([1, 2])))];
const EVERY_OTHER: &[(&str, Value)] = &[("axis", Value::Axes(Axes::new([0, 2, 4])))];

/// Rows of each share of threads, in slices and whole, along each axis, and whole arrays.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[1, 1])]).options(LAST),
    Case::new(&[Some(&[3, 40, 7])]).options(MIDDLE),
    Case::new(&[Some(&[5, 1000])]),
    Case::new(&[Some(&[9, 257])]).options(LAST),
    Case::new(&[Some(&[40, 12])]).options(LAST),
    Case::new(&[Some(&[2, 3, 5])]),
    Case::new(&[Some(&[2, 3000])]).options(LAST),
    Case::new(&[Some(&[0, 7])]).options(LAST),
    Case::new(&[Some(&[300, 70])]).options(FIRST),
    Case::new(&[Some(&[1, 20_011])]).options(LAST),
    Case::new(&[Some(&[300])]).options(FIRST),
    Case::new(&[Some(&[2200, 37])]).options(LAST),
    // Vectors across rows, of one block and of two.
    Case::new(&[Some(&[3, 39, 136])]).options(MIDDLE),
    Case::new(&[Some(&[301, 264])]).options(FIRST),
    // Several axes: around a mode, next to each other, and with a launch for each index of a mode.
    Case::new(&[Some(&[5, 3, 7])]).options(OUTER),
    Case::new(&[Some(&[3, 40, 7])]).options(INNER),
    Case::new(&[Some(&[2, 0, 3])]).options(OUTER),
    Case::new(&[Some(&[2, 3, 4, 2, 5])]).options(EVERY_OTHER),
    Case::new(&[Some(&[2, 40, 300])]).options(OUTER),
];

/// The cases of one axis or the whole array, for argmax and argmin.
pub const OF_INDICES: &[Case] = CASES.split_at(14).0;

/// 64 MB and more of bf16: rows of a head to rows of a vocabulary, columns, and a whole array.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[131_072, 128])]).options(LAST),
    Case::new(&[Some(&[32_768, 1024])]).options(LAST),
    Case::new(&[Some(&[8192, 8192])]).options(LAST),
    Case::new(&[Some(&[512, 131_072])]).options(LAST),
    Case::new(&[Some(&[256, 262_144])]).options(LAST),
    Case::new(&[Some(&[8192, 8192])]).options(FIRST),
    Case::new(&[Some(&[8192, 8192])]),
];
