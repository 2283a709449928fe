//! Groups of 4-bit elements: a lane holds units of eight elements, and the lanes of a group are
//! neighbours.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::place::{Place, elements, read_all, values, write};
use moye_device::arch::{opaque, overlap_launches, shuffle_xor};
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Units of eight elements of a thread.
pub const HELD: usize = 4;
/// The bits of 1.5 * 2^23, from which on consecutive f32 are 1 apart.
const ONE: u32 = 0x4b40_0000;
/// Below this scale all elements are 0: its inverse would be infinite.
pub const LEAST: f32 = 1e-30;

/// The rows of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct Groups {
    /// Rows of a matrix; contiguous ones of whole groups are one row.
    pub rows: u32,
    /// Elements of a row, an even number.
    pub columns: u32,
    /// The logarithm of the elements of a group: 5, 6 or 7.
    pub log_group: u32,
    /// Units of a row: whole groups.
    pub units: u32,
    /// Whether scales and minima are f32; f16 otherwise.
    pub wide: bool,
    /// Whether two units are vectors at multiples of their size, in floats and in bytes.
    pub aligned: bool,
}

impl Groups {
    /// Row and column of a thread's units, `ADJACENT` next to each other, and the number of
    /// elements of each that exist.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn places<const ADJACENT: u32>(self) -> [(u32, u32, u32); HELD] {
        let first = block_idx().x * (THREADS * HELD as u32) + thread_idx().x * ADJACENT;
        let mut places = [(0, 0, 0); HELD];
        for (place, k) in places.iter_mut().zip(0..) {
            let i = first + k / ADJACENT * (THREADS * ADJACENT) + k % ADJACENT;
            let (row, unit) = if self.rows == 1 { (0, i) } else { (i / self.units, i % self.units) };
            let column = unit * 8;
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
    /// The value rounded to its stored type.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn rounded(self, value: f32) -> f32 {
        let half: f16 = value.convert();
        if self.wide { value } else { half.convert() }
    }

    /// The value of these bits.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn of_bits(self, bits: u32) -> f32 {
        if self.wide { f32::from_bits(bits) } else { f16::from_bits(bits as u16).convert() }
    }

    /// The bits of the elements at valid places, and 0 for the others.
    ///
    /// # Safety
    /// The elements at valid places are readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn read_all(self, places: &[(i64, bool); HELD]) -> [u32; HELD] {
        let (mut all, address) = ([0u32; HELD], self.pointer.address());
        // SAFETY: the elements are readable where `valid`.
        unsafe {
            if self.wide {
                for (bits, &(at, valid)) in all.iter_mut().zip(places) {
                    *bits = Global::<u32>::from_address(address).offset(at).read_if(valid);
                }
                return all;
            }
            for (bits, &(at, valid)) in all.iter_mut().zip(places) {
                *bits = Global::<u16>::from_address(address).offset(at).read_if(valid).into();
            }
        }
        all
    }

    /// # Safety
    /// The element is writable, and no other thread accesses it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn write(self, at: i64, value: f32) {
        // SAFETY: the element is writable, and no other thread accesses it.
        unsafe {
            if self.wide {
                self.pointer.cast::<f32>().write(at, value);
            } else {
                self.pointer.cast::<f16>().write(at, value.convert());
            }
        }
    }
}

/// A vector of each of a thread's units.
type Vectors = [[u32; 4]; HELD];

/// The vectors of a thread's units, two of each where elements have 32 bits.
///
/// # Safety
/// The existing elements of the units are readable.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load<T: Element>(
    x: Global<T>,
    of_x: Place,
    places: &[(u32, u32, u32); HELD],
    aligned: bool,
) -> (Vectors, Vectors) {
    let (mut lower, mut upper) = ([(x, 0u32); HELD], [(x, 0u32); HELD]);
    for (&(row, column, existing), k) in places.iter().zip(0..) {
        let x = x.offset(of_x.at(block_idx().y, row, column));
        lower[k] = (x, existing.min(const { (16 / T::BYTES) as u32 }));
        upper[k] = (x.offset(4 * of_x.element), existing.saturating_sub(4));
    }
    // SAFETY: the existing elements are readable.
    unsafe {
        let lower = read_all(&lower, of_x.element, aligned);
        if const { T::BYTES == 2 } {
            return (lower, [[0; 4]; HELD]);
        }
        (lower, read_all(&upper, of_x.element, aligned))
    }
}

/// The eight values of a unit from its vectors.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn unit<T: Element + Convert<f32>>(lower: &[u32; 4], upper: &[u32; 4]) -> [f32; 8] {
    let mut all = values::<T>(lower);
    if const { T::BYTES == 4 } {
        let upper = values::<T>(upper);
        (all[4], all[5], all[6], all[7]) = (upper[0], upper[1], upper[2], upper[3]);
    }
    all
}

/// Reduces the values of a group's lanes, each of which holds two units.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn of_group(value: f32, log_group: u32, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut value = value;
    value = f(value, shuffle_xor(FULL_WARP, value, 1));
    // The same groups in all lanes: a branch of the whole warp.
    if log_group > 5 {
        value = f(value, shuffle_xor(FULL_WARP, value, 2));
    }
    if log_group > 6 {
        value = f(value, shuffle_xor(FULL_WARP, value, 4));
    }
    value
}

/// Each group of `x` as 4-bit elements, two a byte, the first in the low half. Without `minima`
/// (address 0) an element is `round(x / scale) + 8` with the scale that makes the greatest
/// magnitude 7; with minima `round((x - minimum) / scale)` from 0 to 15. Grid:
/// `(ceil(rows units / (HELD THREADS)), matrices)`.
///
/// # Safety
/// `x` holds the matrices, `q` a byte for each two elements, `scales` and `minima` an element
/// for each group. The results are disjoint from `x`.
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
    overlap_launches();
    let (matrix, Groups { log_group, wide, aligned, .. }) = (block_idx().y, shape);
    let (places, has_minima) = (shape.places::<2>(), minima.address() != 0);
    let [scales, minima] = [scales, minima].map(|pointer| Numbers { pointer, wide });
    let (lower, upper) = load(x, of_x, &places, aligned);
    for pair in 0..HELD / 2 {
        let (first, (row, column, mut existing)) = (2 * pair, places[2 * pair]);
        existing += places[first + 1].2;
        let (low, high) =
            (unit::<T>(&lower[first], &upper[first]), unit::<T>(&lower[first + 1], &upper[first + 1]));
        let mut all = [0.0f32; 16];
        for j in 0..8 {
            (all[j], all[j + 8]) = (low[j], high[j]);
        }
        if !aligned {
            // Missing elements repeat the first one, which changes neither extreme.
            #[allow(clippy::needless_range_loop, reason = "loops over arrays of the kernel unroll")]
            for j in 0..16 {
                all[j] = if (j as u32) < existing { all[j] } else { low[0] };
            }
        }
        // `max` and `min` ignore NaN, which changes neither extreme.
        let (scale, base, least, far) = if has_minima {
            let (mut low, mut high) = (all[0], all[0]);
            for &x in &all[1..] {
                (low, high) = (low.min(x), high.max(x));
            }
            if existing == 0 {
                (low, high) = (f32::INFINITY, f32::NEG_INFINITY);
            }
            let (low, high) = (of_group(low, log_group, f32::min), of_group(high, log_group, f32::max));
            // A group of only NaN has no extremes.
            let (low, range) = if low <= high { (minima.rounded(low), high - low) } else { (0.0, 0.0) };
            (scales.rounded(range / 15.0), low, 0.0, [low, high])
        } else {
            let mut magnitude = 0.0f32;
            for x in &all {
                magnitude = magnitude.max(x.abs());
            }
            let magnitude = of_group(magnitude, log_group, f32::max);
            (scales.rounded(magnitude / 7.0), 0.0, -8.0, [-magnitude, magnitude])
        };
        let inverse = if scale < LEAST { 0.0 } else { 1.0 / scale };
        let code = |x: f32| (x - base) * inverse;
        // The sum is NaN if any element is.
        let mut sum = 0.0f32;
        for x in &all {
            sum += x;
        }
        // Rarely taken: rounding of the scale or the minimum, or values that are not finite.
        // Clamping every element would double the time.
        let is_within = code(far[0]) > least - 0.5 && code(far[1]) < least + 15.5;
        if !is_within || sum.is_nan() {
            for x in &mut all {
                let limited = code(*x).max(least).min(least + 15.0);
                *x = if x.is_nan() { 0.0 } else { limited };
            }
        } else {
            for x in &mut all {
                *x = code(*x);
            }
        }
        let mut words = [0u32; 2];
        for (&code, j) in all.iter().zip(0..) {
            // The addition rounds to nearest even.
            let bits = (code + (f32::from_bits(ONE) - least)).to_bits();
            words[j / 8] = words[j / 8].wrapping_add(bits << (4 * (j % 8)));
        }
        // Subtract the bits of ONE from each summand.
        let of_one = ONE.wrapping_mul(0x1111_1111);
        let mut word =
            u64::from(words[1].wrapping_sub(of_one)) << 32 | u64::from(words[0].wrapping_sub(of_one));
        if !aligned && existing < 16 {
            word &= (1u64 << (4 * existing)) - 1;
        }
        let to = q.offset(of_q.at(matrix, row, column / 2));
        write::<u8, u64>(to, of_q.element, existing / 2, aligned, word);
        if existing > 0 && column & ((1 << log_group) - 1) == 0 {
            scales.write(of_scales.at(matrix, row, column >> log_group), scale);
            if has_minima {
                minima.write(of_minima.at(matrix, row, column >> log_group), base);
            }
        }
    }
}

/// `y = scale (q - 8)`, or with minima `y = scale q + minimum`. Same grid as [`quantize_int4`].
///
/// # Safety
/// Same contract as [`quantize_int4`], but `y` is written instead of `x` read.
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
    overlap_launches();
    let (matrix, Groups { log_group, wide, aligned, .. }) = (block_idx().y, shape);
    let (places, has_minima) = (shape.places::<1>(), minima.address() != 0);
    let [scales, minima] = [scales, minima].map(|pointer| Numbers { pointer, wide });
    let (mut from, mut of_group) = ([(q, 0u32); HELD], [[(0i64, false); HELD]; 2]);
    for (&(row, column, existing), k) in places.iter().zip(0..) {
        from[k] = (q.offset(of_q.at(matrix, row, column / 2)), existing / 2);
        let (is_there, group) = (existing > 0, column >> log_group);
        of_group[0][k] = (of_scales.at(matrix, row, group), is_there);
        of_group[1][k] = (of_minima.at(matrix, row, group), is_there && has_minima);
    }
    let words: [u32; HELD] = read_all(&from, of_q.element, aligned);
    let (scale_bits, minimum_bits) = (scales.read_all(&of_group[0]), minima.read_all(&of_group[1]));
    for (&(row, column, existing), k) in places.iter().zip(0..) {
        let (word, scale) = (opaque(words[k]), scales.of_bits(opaque(scale_bits[k])));
        let minimum = minima.of_bits(opaque(minimum_bits[k]));
        let minimum = if has_minima { minimum } else { -8.0 * scale };
        let mut all = [0.0f32; 8];
        for (value, j) in all.iter_mut().zip(0..) {
            let code = f32::from_bits(ONE | word >> (4 * j) & 15) - f32::from_bits(ONE);
            *value = code * scale + minimum;
        }
        let mut part = 0;
        while part < const { T::BYTES / 2 } {
            let vector = const { (16 / T::BYTES) as u32 };
            let first = part as u32 * vector;
            let to = y.offset(of_y.at(matrix, row, column + first));
            let existing = existing.saturating_sub(first).min(vector);
            write::<T, [u32; 4]>(to, of_y.element, existing, aligned, elements(&all));
            (all[0], all[1], all[2], all[3]) = (all[4], all[5], all[6], all[7]);
            part += 1;
        }
    }
}
