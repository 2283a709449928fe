//! Dequantisation of 8-bit elements: several vectors of a thread are in flight.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::code::decode;
use crate::place::{Place, elements, read_all, write};
use crate::tiles::Tiles;
use moye_device::arch::{opaque, overlap_launches};
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Vectors of a thread.
pub const HELD: usize = 4;

/// `y = scale q`. Grid: `(ceil(vectors / (HELD THREADS)), matrices)`, for vectors of 16 bytes of
/// `y`.
///
/// # Safety
/// `q` and `y` hold the matrices, and `scales` an element for each tile. `y` is disjoint from the
/// others.
#[kernel(
    threads = THREADS,
    min_blocks = 4,
    instances = dequantize<f32 | f16 | bf16>,
    table = DequantizeKernels
)]
pub unsafe fn dequantize<T: Element>(
    q: Global<u8>,
    scales: Global<f32>,
    y: GlobalMut<T>,
    tiles: Tiles,
    of_q: Place,
    of_scales: Place,
    of_y: Place,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let (vector, matrix) = (const { (16 / T::BYTES) as u32 }, block_idx().y);
    let in_row = tiles.columns.div_ceil(vector);
    let first = block_idx().x * (THREADS * HELD as u32) + thread_idx().x;
    let mut places = [(0u32, 0u32); HELD];
    for (place, k) in places.iter_mut().zip(0..) {
        let i = first + k * THREADS;
        *place = (i / in_row, i % in_row * vector);
    }
    let existing =
        |row: u32, column: u32| if row < tiles.rows { (tiles.columns - column).min(vector) } else { 0 };
    // Tiles have 1 or 128 rows and 128 columns, or all.
    let tile = |i: u32, extent: u32, all: u32| match extent {
        _ if extent == all => 0,
        1 => i,
        _ => i / 128,
    };
    let scale = |row: u32, column: u32, existing: u32| {
        let (row, column) =
            (tile(row, tiles.tile_rows, tiles.rows), tile(column, tiles.tile_columns, tiles.columns));
        scales.offset(of_scales.at(matrix, row, column)).read_if(existing > 0)
    };
    let (mut from, mut first_scales) = ([(q, 0u32); HELD], [0.0f32; HELD]);
    for (&(row, column), k) in places.iter().zip(0..) {
        let existing = existing(row, column);
        from[k] = (q.offset(of_q.at(matrix, row, column)), existing);
        first_scales[k] = scale(row, column, existing);
    }
    let mut held = [0u64; HELD];
    if const { 16 / T::BYTES == 8 } {
        held = read_all(&from, of_q.element, tiles.aligned);
    } else {
        let words: [u32; HELD] = read_all(&from, of_q.element, tiles.aligned);
        for (held, &word) in held.iter_mut().zip(&words) {
            *held = word.into();
        }
    }
    for (&(row, column), k) in places.iter().zip(0..) {
        let (row, column) = (opaque(row), opaque(column));
        let existing = existing(row, column);
        let (bytes, of_first, mut all) = (held[k], first_scales[k], [0.0f32; 8]);
        // A vector may span two ragged tiles.
        let is_one = tiles.tile_columns >= tiles.columns || tiles.tile_columns.is_multiple_of(vector);
        for part in 0..vector / 4 {
            let values = decode(tiles.code, (bytes >> (32 * part)) as u32);
            for (&value, i) in values.iter().zip(4 * part..) {
                let scale = if is_one { of_first } else { scale(row, column + i, u32::from(i < existing)) };
                all[i as usize] = value * scale;
            }
        }
        let to = y.offset(of_y.at(matrix, row, column));
        write::<T, [u32; 4]>(to, of_y.element, existing, tiles.aligned, elements::<T>(&all));
    }
}
