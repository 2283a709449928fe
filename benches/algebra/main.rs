//! The layout algebra at run time, a request at a time. `in_pycute.py` beside this file measures NVIDIA's pycute on the
//! same inputs.

use divan::{Bencher, black_box};
use moye_device::layout::*;

fn main() {
    divan::main();
}

/// Has a result made, and does not copy it: a layout is some 600 bytes, and the harness would copy what it is given.
fn look<T>(result: &T) {
    black_box(result);
}

#[divan::bench(sample_count = 101, sample_size = 2000)]
fn composition_of_layouts(bencher: Bencher) {
    let (a, b) = (layout!((6, 2):(8, 2)), layout!((4, 3):(3, 1)));
    bencher.bench_local(|| look(&try_composition(*black_box(&a), *black_box(&b))));
}

#[divan::bench(sample_count = 101, sample_size = 2000)]
fn complement_of_a_tile(bencher: Bencher) {
    let tile = layout!((2, 4):(1, 6));
    bencher.bench_local(|| look(&try_complement(*black_box(&tile), black_box(192))));
}

#[divan::bench(sample_count = 101, sample_size = 2000)]
fn zipped_divide_of_a_matrix(bencher: Bencher) {
    let (matrix, tile) = (layout!((4096, 4096):(4096, 1)), tiler!((128, 64)));
    bencher.bench_local(|| look(&try_zipped_divide(*black_box(&matrix), *black_box(&tile))));
}

#[divan::bench(sample_count = 101, sample_size = 2000)]
fn thread_value_layout(bencher: Bencher) {
    let (threads, values) = (layout!((16, 8):(8, 1)), layout!((1, 4)));
    bencher.bench_local(|| look(&try_make_layout_tv(*black_box(&threads), *black_box(&values))));
}

#[divan::bench(sample_count = 101, sample_size = 2000)]
fn evaluation(bencher: Bencher) {
    let layout = layout!(((4, 8), (2, 2, 2)):((32, 1), (16, 8, 256)));
    bencher.bench_local(|| black_box(&layout).at(black_box(77)));
}
