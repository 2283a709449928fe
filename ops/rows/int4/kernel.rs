//! Groups of 4-bit elements: a lane has eight of them, and the lanes of a group are neighbours.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::place::{Place, read, values, write};
use moye_device::arch::shuffle_xor;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Units of eight elements of a thread.
pub const HELD: usize = 4;
/// Below this scale all elements are 0: its inverse would be infinite.
pub const LEAST: f32 = 1e-30;

/// The rows of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct Groups {
    /// Rows of a matrix.
    pub rows: u32,
    /// Elements of a row, an even number.
    pub columns: u32,
    /// Elements of a group: 32, 64 or 128.
    pub group: u32,
    /// Units of a row: whole groups.
    pub units: u32,
    /// Whether scales and minima are f32; f16 otherwise.
    pub wide: bool,
    /// Whether units are vectors at multiples of their size, in floats and in bytes.
    pub aligned: bool,
}

impl Groups {
    /// Row and column of a thread's units, and the number of elements of each that exist.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn places(self) -> [(u32, u32, u32); HELD] {
        let first = block_idx().x * (THREADS * HELD as u32) + thread_idx().x;
        let mut places = [(0, 0, 0); HELD];
        for (place, k) in places.iter_mut().zip(0..) {
            let i = first + k * THREADS;
            let (row, column) = (i / self.units, i % self.units * 8);
            let exists = row < self.rows && column < self.columns;
            *place = (row, column, if exists { (self.columns - column).min(8) } else { 0 });
        }
        places
    }
}

/// Scales or minima: f32 or f16.
#[derive(Clone, Copy)]
struct Numbers {
    pointer: GlobalMut<u8>,
    wide: bool,
}

impl Numbers {
    /// The value as it is stored.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn rounded(self, value: f32) -> f32 {
        let half: f16 = value.convert();
        if self.wide { value } else { half.convert() }
    }

    /// # Safety
    /// The number is readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn read(self, at: i64, valid: bool) -> f32 {
        let address = self.pointer.address();
        // SAFETY: the number is readable where `valid`.
        unsafe {
            if self.wide {
                return Global::<f32>::from_address(address).offset(at).read_if(valid);
            }
            Global::<f16>::from_address(address).offset(at).read_if(valid).convert()
        }
    }

    /// # Safety
    /// The number is writable by this thread alone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn write(self, at: i64, value: f32) {
        // SAFETY: the number is this thread's to write.
        unsafe {
            if self.wide {
                self.pointer.cast::<f32>().write(at, value);
            } else {
                self.pointer.cast::<f16>().write(at, value.convert());
            }
        }
    }
}

/// The eight values of a unit.
///
/// # Safety
/// As [`read`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load<T: Element + Convert<f32>>(
    x: Global<T>,
    stride: i64,
    existing: u32,
    aligned: bool,
) -> [f32; 8] {
    let vector = const { (16 / T::BYTES) as u32 };
    // SAFETY: the existing elements are readable.
    unsafe {
        let mut all = values::<T>(&read::<T, [u32; 4]>(x, stride, existing.min(vector), aligned));
        if vector == 4 {
            let next = x.offset(4 * stride);
            let upper = values::<T>(&read::<T, [u32; 4]>(next, stride, existing.saturating_sub(4), aligned));
            (all[4], all[5], all[6], all[7]) = (upper[0], upper[1], upper[2], upper[3]);
        }
        all
    }
}

/// The value of a group from those of its lanes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn of_group(value: f32, group: u32, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut value = value;
    value = f(value, shuffle_xor(FULL_WARP, value, 1));
    value = f(value, shuffle_xor(FULL_WARP, value, 2));
    // The same groups in all lanes: a branch of the whole warp.
    if group >= 64 {
        value = f(value, shuffle_xor(FULL_WARP, value, 4));
    }
    if group == 128 {
        value = f(value, shuffle_xor(FULL_WARP, value, 8));
    }
    value
}

/// Each group of `x` as 4-bit elements, two a byte, the first in the low half. Without `minima`
/// (address 0) an element is `round(x / scale) + 8` with the scale that makes the greatest
/// magnitude 7; with minima `round((x - minimum) / scale)` from 0 to 15. Grid:
/// `(ceil(rows units / (HELD THREADS)), matrices)`.
///
/// # Safety
/// `x` holds the matrices, `q` a byte for each two elements, `scales` and `minima` a number for
/// each group. What is written is disjoint from `x`.
#[kernel(threads = THREADS, instances = quantize_int4<f32 | f16 | bf16>, table = QuantizeKernels)]
pub unsafe fn quantize_int4<T: Element + Convert<f32>>(
    x: Global<T>,
    q: GlobalMut<u8>,
    scales: GlobalMut<u8>,
    minima: GlobalMut<u8>,
    shape: Groups,
    of_x: Place,
    of_q: Place,
    of_scales: Place,
    of_minima: Place,
) {
    let (matrix, Groups { group, wide, aligned, .. }) = (block_idx().y, shape);
    let (places, has_minima) = (shape.places(), minima.address() != 0);
    let [scales, minima] = [scales, minima].map(|pointer| Numbers { pointer, wide });
    let mut held = [[0.0f32; 8]; HELD];
    for (unit, &(row, column, existing)) in held.iter_mut().zip(&places) {
        *unit = load(x.offset(of_x.at(matrix, row, column)), of_x.element, existing, aligned);
        if !aligned {
            // In place of what does not exist is what changes neither extreme.
            for j in 1..8 {
                unit[j] = if (j as u32) < existing { unit[j] } else { unit[0] };
            }
        }
    }
    for (unit, &(row, column, existing)) in held.iter().zip(&places) {
        let (mut low, mut high) = (unit[0], unit[0]);
        for &x in &unit[1..] {
            (low, high) = (low.min(x), high.max(x));
        }
        if existing == 0 {
            (low, high) = (f32::INFINITY, f32::NEG_INFINITY);
        }
        let (low, high) = (of_group(low, group, f32::min), of_group(high, group, f32::max));
        // A group of NaN alone has neither.
        let is_any = low <= high;
        let (range, base, least) = if has_minima {
            (
                if is_any { (high - low) / 15.0 } else { 0.0 },
                if is_any { minima.rounded(low) } else { 0.0 },
                0.0,
            )
        } else {
            (if is_any { high.max(-low) / 7.0 } else { 0.0 }, 0.0, -8.0)
        };
        let scale = scales.rounded(range);
        let inverse = if scale < LEAST { 0.0 } else { 1.0 / scale };
        let mut word = 0u32;
        for (&x, j) in unit.iter().zip(0..) {
            // The maximum of NaN and a number is the number.
            let code = if x.is_nan() { 0.0 } else { ((x - base) * inverse).max(least).min(least + 15.0) };
            // 1.5 * 2^23: from there on consecutive f32 are 1 apart, and a sum is rounded to even.
            let bits = (code + (12_582_912.0 - least)).to_bits();
            word |= (bits & 15) << (4 * j);
        }
        word &= ((1u64 << (4 * existing)) - 1) as u32;
        let to = q.offset(of_q.at(matrix, row, column / 2));
        write::<u8, u32>(to, of_q.element, existing / 2, aligned, word);
        if existing > 0 && column.is_multiple_of(group) {
            scales.write(of_scales.at(matrix, row, column / group), scale);
            if has_minima {
                minima.write(of_minima.at(matrix, row, column / group), base);
            }
        }
    }
}

/// `y = scale (q - 8)`, or with minima `y = scale q + minimum`. Grid as of [`quantize_int4`].
///
/// # Safety
/// As [`quantize_int4`], with `y` instead of `x`, which is what is written.
#[kernel(threads = THREADS, instances = dequantize_int4<f32 | f16 | bf16>, table = DequantizeKernels)]
pub unsafe fn dequantize_int4<T: Element>(
    q: Global<u8>,
    scales: GlobalMut<u8>,
    minima: GlobalMut<u8>,
    y: GlobalMut<T>,
    shape: Groups,
    of_y: Place,
    of_q: Place,
    of_scales: Place,
    of_minima: Place,
) where
    f32: Convert<T>,
{
    let (matrix, Groups { group, wide, aligned, .. }) = (block_idx().y, shape);
    let vector = const { (16 / T::BYTES) as u32 };
    let (places, has_minima) = (shape.places(), minima.address() != 0);
    let [scales, minima] = [scales, minima].map(|pointer| Numbers { pointer, wide });
    let mut held = [(0u32, 0.0f32, 0.0f32); HELD];
    for (unit, &(row, column, existing)) in held.iter_mut().zip(&places) {
        let from = q.offset(of_q.at(matrix, row, column / 2));
        unit.0 = read::<u8, u32>(from, of_q.element, existing / 2, aligned);
        unit.1 = scales.read(of_scales.at(matrix, row, column / group), existing > 0);
        let minimum = minima.read(of_minima.at(matrix, row, column / group), has_minima && existing > 0);
        unit.2 = if has_minima { minimum } else { -8.0 * unit.1 };
    }
    for (&(word, scale, minimum), &(row, column, existing)) in held.iter().zip(&places) {
        for part in 0..8 / vector {
            let mut words = [0u32; 4];
            let elements = words.as_mut_ptr().cast::<T>();
            for j in 0..vector {
                let code = (word >> (4 * (part * vector + j)) & 15) as f32;
                elements.add(j as usize).write((code * scale + minimum).convert());
            }
            let to = y.offset(of_y.at(matrix, row, column + part * vector));
            let existing = existing.saturating_sub(part * vector).min(vector);
            write::<T, [u32; 4]>(to, of_y.element, existing, aligned, words);
        }
    }
}
