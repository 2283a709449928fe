//! Rows of a table by indices.

use moye_device::algorithm::{MAP_THREADS, MapModes, load_vector_if, store_vector_if};
use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// Words of a thread.
pub const WORDS: u32 = 4;

static_layout! { Words = layout!((1, WORDS as i64)); }

/// `out[i, j] = table[indices[i], j]` of words `W`, zeros for an index outside 0 to `rows - 1`.
/// The inputs of `modes` are the indices and the column in the table, whose rows are `ld` words
/// apart. Indices have 64 bits if `wide`.
///
/// # Safety
/// A grid of `ceil(count / (WORDS * MAP_THREADS))` blocks for the words of `modes`. Operands have
/// their elements, the table `rows` rows; `out` overlaps none.
#[kernel(
    threads = MAP_THREADS,
    instances = (embedding_128<u128>, embedding_32<u32>, embedding_16<u16>)
)]
pub unsafe fn embedding<W: Element>(
    indices: Global<i32>,
    table: Global<W>,
    out: GlobalMut<W>,
    modes: MapModes<2>,
    rows: i64,
    ld: i64,
    wide: bool,
) {
    overlap_launches();
    let first = block_idx().x * (MAP_THREADS * WORDS) + thread_idx().x;
    let mut places = [modes.place(first); WORDS as usize];
    for i in 1..WORDS {
        places[i as usize] = modes.place(first + i * MAP_THREADS);
    }
    let exists = places.map(|place| place.elements > 0);
    // All indices are loaded before the rows, and all rows before they are stored.
    let mut row = [0; WORDS as usize];
    if wide {
        for i in 0..row.len() {
            row[i] = indices.cast::<i64>().offset(places[i].inputs[0]).read_if(exists[i]);
        }
    } else {
        for i in 0..row.len() {
            row[i] = i64::from(indices.offset(places[i].inputs[0]).read_if(exists[i]));
        }
    }
    let mut words = Fragment::<W, Words>::zeros(); // (1, WORDS)
    for i in 0..row.len() {
        let is_row = exists[i] && row[i] >= 0 && row[i] < rows;
        load_vector_if(
            is_row,
            table.offset(row[i].wrapping_mul(ld).wrapping_add(places[i].inputs[1])),
            &mut words,
            i,
        );
    }
    for i in 0..row.len() {
        store_vector_if(exists[i], out.offset(places[i].out), &words, i);
    }
}
