//! Dequantisation of 8-bit elements: several vectors of a thread are in flight.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::code::decode;
use crate::place::{Place, read, write};
use crate::tiles::Tiles;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Vectors of a thread.
pub const HELD: usize = 4;

/// `y = scale q`. Grid: `(ceil(vectors / (HELD THREADS)), matrices)`, for vectors of 16 bytes of
/// `y`.
///
/// # Safety
/// `q` and `y` hold the matrices, and `scales` an element for each tile. What is written is
/// disjoint from the others.
#[kernel(threads = THREADS, instances = dequantize<f32 | f16 | bf16>, table = DequantizeKernels)]
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
    let (vector, matrix) = (const { (16 / T::BYTES) as u32 }, block_idx().y);
    let in_row = tiles.columns.div_ceil(vector);
    let first = block_idx().x * (THREADS * HELD as u32) + thread_idx().x;
    let mut places = [(0u32, 0u32, 0u32); HELD];
    for (place, k) in places.iter_mut().zip(0..) {
        let i = first + k * THREADS;
        let (row, column) = (i / in_row, i % in_row * vector);
        *place = (row, column, if row < tiles.rows { (tiles.columns - column).min(vector) } else { 0 });
    }
    let scale = |row: u32, column: u32, existing: u32| {
        let at = of_scales.at(matrix, row / tiles.tile_rows, column / tiles.tile_columns);
        scales.offset(at).read_if(existing > 0)
    };
    let mut held = [(0u64, 0.0f32); HELD];
    for (unit, &(row, column, existing)) in held.iter_mut().zip(&places) {
        let from = q.offset(of_q.at(matrix, row, column));
        unit.0 = if const { 16 / T::BYTES == 8 } {
            read::<u8, u64>(from, of_q.element, existing, tiles.aligned)
        } else {
            u64::from(read::<u8, u32>(from, of_q.element, existing, tiles.aligned))
        };
        unit.1 = scale(row, column, existing);
    }
    for (&(bytes, of_first), &(row, column, existing)) in held.iter().zip(&places) {
        let mut words = [0u32; 4];
        let elements = words.as_mut_ptr().cast::<T>();
        // A vector of ragged tiles may have elements of two.
        let is_one = tiles.tile_columns >= tiles.columns || tiles.tile_columns.is_multiple_of(vector);
        for part in 0..vector / 4 {
            let values = decode(tiles.code, (bytes >> (32 * part)) as u32);
            for (&value, i) in values.iter().zip(4 * part..) {
                let scale = if is_one { of_first } else { scale(row, column + i, u32::from(i < existing)) };
                elements.add(i as usize).write((value * scale).convert());
            }
        }
        let to = y.offset(of_y.at(matrix, row, column));
        write::<T, [u32; 4]>(to, of_y.element, existing, tiles.aligned, words);
    }
}
