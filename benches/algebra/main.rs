//! The layout algebra at run time, one request at a time; then the same requests alternating with
//! NVIDIA's pycute, if the Python in the variable `PYTHON` (by default `python3`) has it.
//! `in_pycute.py` beside this file measures pycute.

mod pycute;

use divan::black_box;
use moye_device::layout::*;

/// The requests to both sides.
const REQUESTS: [(&str, fn()); 5] = [
    ("composition_of_layouts", composition_of_layouts),
    ("complement_of_a_tile", complement_of_a_tile),
    ("zipped_divide_of_a_matrix", zipped_divide_of_a_matrix),
    ("thread_value_layout", thread_value_layout),
    ("evaluation", evaluation),
];

fn main() {
    divan::main();
    // Other arguments filter the benchmarks, or request another action.
    if std::env::args().skip(1).eq(["--bench"]) {
        pycute::compare(&REQUESTS);
    }
}

/// Forces the computation of a result without copying it: a layout is some 600 bytes, and the
/// harness would copy its argument.
fn look<T>(result: &T) {
    black_box(result);
}

#[divan::bench(sample_count = 101, sample_size = 2000)]
fn composition_of_layouts() {
    const A: Layout = layout!((6, 2):(8, 2));
    const B: Layout = layout!((4, 3):(3, 1));
    look(&try_composition(*black_box(&A), *black_box(&B)));
}

#[divan::bench(sample_count = 101, sample_size = 2000)]
fn complement_of_a_tile() {
    const TILE: Layout = layout!((2, 4):(1, 6));
    look(&try_complement(*black_box(&TILE), black_box(192)));
}

#[divan::bench(sample_count = 101, sample_size = 2000)]
fn zipped_divide_of_a_matrix() {
    const MATRIX: Layout = layout!((4096, 4096):(4096, 1));
    const TILE: Tiler = tiler!((128, 64));
    look(&try_zipped_divide(*black_box(&MATRIX), *black_box(&TILE)));
}

#[divan::bench(sample_count = 101, sample_size = 2000)]
fn thread_value_layout() {
    const THREADS: Layout = layout!((16, 8):(8, 1));
    const VALUES: Layout = layout!((1, 4));
    look(&try_make_layout_tv(*black_box(&THREADS), *black_box(&VALUES)));
}

#[divan::bench(sample_count = 101, sample_size = 2000)]
fn evaluation() {
    const LAYOUT: Layout = layout!(((4, 8), (2, 2, 2)):((32, 1), (16, 8, 256)));
    look(&black_box(&LAYOUT).at(black_box(77)));
}
