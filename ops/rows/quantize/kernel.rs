//! Quantisation to 8 bits with a scale for each tile, and back. The threads of a tile keep its
//! elements in registers between its greatest magnitude and their conversion; of tiles beyond them
//! the rest is read again, from the caches.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::place::{Place, read, values, write};
use moye_device::algorithm::*;
use moye_device::arch::{f32_to_i8_saturating, shuffle_xor};
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Vectors that a thread of a tile holds.
pub const HELD: usize = 4;
/// Groups below this magnitude have scale 1: its inverse scale would be infinite.
pub const LEAST: f32 = 1e-30;

static_layout! {
    /// A value for each warp.
    Warps = layout!(8);
}

/// An 8-bit type: int8, e4m3 or e5m2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Code {
    /// int8, -127 to 127 where the scale is that of the group.
    I8,
    /// e4m3, up to 448.
    E4m3,
    /// e5m2, up to 57,344.
    E5m2,
}

impl Code {
    /// The greatest value.
    pub const fn greatest(self) -> f32 {
        match self {
            Self::I8 => 127.0,
            Self::E4m3 => 448.0,
            Self::E5m2 => 57_344.0,
        }
    }
}

/// The matrices of a launch and their tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct Tiles {
    /// Rows of a matrix.
    pub rows: u32,
    /// Columns of a matrix.
    pub columns: u32,
    /// Rows of a tile.
    pub tile_rows: u32,
    /// Columns of a tile.
    pub tile_columns: u32,
    /// Threads of a tile: 16, 32 or a block.
    pub threads: u32,
    /// The 8-bit type: a [`Code`].
    pub code: u32,
    /// Whether the elements of both sides are vectors at multiples of their size.
    pub aligned: bool,
}

impl Tiles {
    /// Tiles along a row, and of a matrix.
    pub const fn count(self) -> (u32, u32) {
        let across = self.columns.div_ceil(self.tile_columns);
        (across, across * self.rows.div_ceil(self.tile_rows))
    }
}

/// What a launch of [`quantize`] does, if all tiles have one scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Each tile has its scale.
    Tile,
    /// The magnitudes of the tiles alone.
    Magnitudes,
    /// The elements, by the greatest of the magnitudes.
    Elements,
}

/// The bits of an 8-bit float of `FRACTION` bits of fraction nearest to a value, ties to even, at
/// most `greatest` in magnitude: what one instruction of sm_89 and later does.
#[cfg(not(target_feature = "sm_90"))]
#[inline(always)]
fn float8<const FRACTION: u32>(value: f32, greatest: f32) -> u32 {
    let bias = (1 << (6 - FRACTION)) - 1;
    let sign = value.to_bits() >> 24 & 0x80;
    let magnitude = f32::from_bits(value.to_bits() & 0x7fff_ffff);
    let bits = (if magnitude > greatest { greatest } else { magnitude }).to_bits();
    let (cut, unit) = (23 - FRACTION, 127 - bias - FRACTION + 23 + 1);
    let code = if bits >> 23 > 127 - bias {
        ((bits + (1 << (cut - 1)) - 1 + (bits >> cut & 1)) >> cut) - ((127 - bias) << FRACTION)
    } else {
        // The sum with a power of two rounds to the unit of subnormal numbers.
        let power = f32::from_bits(unit << 23);
        (f32::from_bits(bits) + power).to_bits() - power.to_bits()
    };
    if value.is_nan() { 0x7f } else { sign | code }
}

/// Four bytes, the first in the lowest: `f` of each value. Written out: `map` of an array stays a
/// loop.
#[inline(always)]
fn bytes([a, b, c, d]: [f32; 4], f: impl Fn(f32) -> u32) -> u32 {
    f(a) & 0xff | (f(b) & 0xff) << 8 | (f(c) & 0xff) << 16 | f(d) << 24
}

/// Four values as bytes, the first in the lowest.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn encode(code: u32, values: [f32; 4]) -> u32 {
    if code == Code::I8 as u32 {
        bytes(values, |x| f32_to_i8_saturating(x) as u32)
    } else if code == Code::E4m3 as u32 {
        #[cfg(target_feature = "sm_90")]
        let bits = moye_device::arch::f32x4_to_e4m3x4(values);
        #[cfg(not(target_feature = "sm_90"))]
        let bits = bytes(values, |x| float8::<3>(x, Code::E4m3.greatest()));
        bits
    } else {
        #[cfg(target_feature = "sm_90")]
        let bits = moye_device::arch::f32x4_to_e5m2x4(values);
        #[cfg(not(target_feature = "sm_90"))]
        let bits = bytes(values, |x| float8::<2>(x, Code::E5m2.greatest()));
        bits
    }
}

/// The value of a byte.
#[inline(always)]
fn decode(code: u32, byte: u8) -> f32 {
    if code == Code::I8 as u32 {
        f32::from(byte as i8)
    } else if code == Code::E4m3 as u32 {
        // As an f16 with the same bits of fraction it is 2^-8 of the value.
        let magnitude: f32 = f16::from_bits(u16::from(byte & 0x7f) << 7).convert();
        let value = f32::from_bits((magnitude * 256.0).to_bits() | u32::from(byte & 0x80) << 24);
        if byte & 0x7f == 0x7f { f32::NAN } else { value }
    } else {
        f16::from_bits(u16::from(byte) << 8).convert()
    }
}

/// Vectors that a thread holds.
type Held = [[u32; 4]; HELD];

/// A tile, whose threads have its vectors in turn.
#[derive(Clone, Copy)]
struct TileOf<T: Element> {
    x: Global<T>,
    q: GlobalMut<u8>,
    of_x: Place,
    of_q: Place,
    tiles: Tiles,
    /// The first row and column.
    first: (u32, u32),
    rows: u32,
    columns: u32,
}

impl<T: Element + Convert<f32>> TileOf<T> {
    const VECTOR: u32 = (16 / T::BYTES) as u32;

    /// Vectors of a row.
    #[inline(always)]
    fn in_row(self) -> u32 {
        self.columns.div_ceil(Self::VECTOR)
    }

    /// Row and column of a vector, and the number of its elements that exist.
    #[inline(always)]
    fn place(self, i: u32) -> (u32, u32, u32) {
        let (in_row, is_row) = (self.in_row(), self.rows == 1);
        let (row, at) = if is_row { (0, i) } else { (i / in_row, i % in_row) };
        let column = at * Self::VECTOR;
        let existing = if i < self.rows * in_row { (self.columns - column).min(Self::VECTOR) } else { 0 };
        (self.first.0 + row, self.first.1 + column, existing)
    }

    /// The vectors of a thread from one on.
    ///
    /// # Safety
    /// The tile is readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load(self, from: u32) -> Held {
        let mut words = [[0u32; 4]; HELD];
        for (word, i) in words.iter_mut().zip(0..) {
            let (row, column, existing) = self.place(from + i * self.tiles.threads);
            let x = self.x.offset(self.of_x.at(block_idx().y, row, column));
            // SAFETY: the caller's contract; aligned tiles have whole vectors.
            *word = unsafe { read(x, self.of_x.element, existing, self.tiles.aligned) };
        }
        words
    }

    /// Converts and writes the vectors of a thread from one on.
    ///
    /// # Safety
    /// The tile is writable, and no other thread has these vectors.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn store(self, words: &Held, from: u32, inverse: f32) {
        let Self { of_q, tiles, .. } = self;
        for (word, i) in words.iter().zip(0..) {
            let (row, column, existing) = self.place(from + i * tiles.threads);
            let x = values::<T>(word);
            let scaled =
                |i: usize| [x[i] * inverse, x[i + 1] * inverse, x[i + 2] * inverse, x[i + 3] * inverse];
            let q = self.q.offset(of_q.at(block_idx().y, row, column));
            let low = encode(tiles.code, scaled(0));
            // SAFETY: the caller's contract; aligned tiles have whole vectors.
            unsafe {
                if const { 16 / T::BYTES == 8 } {
                    let both = u64::from(encode(tiles.code, scaled(4))) << 32 | u64::from(low);
                    write(q, of_q.element, existing, tiles.aligned, both);
                } else {
                    write(q, of_q.element, existing, tiles.aligned, low);
                }
            }
        }
    }
}

/// The greatest magnitude of vectors.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn greatest<T: Element + Convert<f32>>(words: &Held) -> f32 {
    let mut max = 0.0f32;
    for word in words {
        // By reference: an iterator over the array itself stays a loop.
        for x in &values::<T>(word) {
            max = max.max(x.abs());
        }
    }
    max
}

/// `q = x / scale`, rounded and saturated, with the scale that makes the greatest magnitude of a
/// tile the greatest value of the type. Grid: `(ceil(tiles / (THREADS / threads)), matrices)`.
///
/// # Safety
/// `x` and `q` hold the matrices, `scales` an element for each tile, or one for
/// [`Step::Elements`]; `magnitudes` holds one for each tile and matrix, which a launch with
/// [`Step::Magnitudes`] has written before. What is written is disjoint from `x`.
#[kernel(
    threads = THREADS,
    shared = (scratch: SharedArray<f32, Warps>),
    instances = quantize<f32 | f16 | bf16>,
    table = QuantizeKernels
)]
pub unsafe fn quantize<T: Element + Convert<f32>>(
    x: Global<T>,
    q: GlobalMut<u8>,
    scales: GlobalMut<f32>,
    magnitudes: GlobalMut<f32>,
    tiles: Tiles,
    step: u32,
    of_x: Place,
    of_q: Place,
    of_scales: Place,
) {
    let thread = thread_idx().x;
    let (team, lane) = (thread / tiles.threads, thread % tiles.threads);
    let tile = block_idx().x * (THREADS / tiles.threads) + team;
    let (across, count) = tiles.count();
    let (tile_row, tile_column) = (tile / across, tile % across);
    let first = (tile_row * tiles.tile_rows, tile_column * tiles.tile_columns);
    let columns = tiles.tile_columns.min(tiles.columns - first.1);
    let rows = if tile < count { tiles.tile_rows.min(tiles.rows - first.0) } else { 0 };
    let of = TileOf { x, q, of_x, of_q, tiles, first, rows, columns };
    let (chunk, vectors) = (HELD as u32 * tiles.threads, rows * of.in_row());

    let held = of.load(lane);
    let mut amax = 0.0f32;
    if step == Step::Elements as u32 {
        let all = count * grid_dim().y;
        let mut i = thread;
        while i < all {
            amax = amax.max(magnitudes.read(i));
            i += THREADS;
        }
    } else {
        amax = greatest::<T>(&held);
        let mut next = lane + chunk;
        while next < vectors {
            amax = amax.max(greatest::<T>(&of.load(next)));
            next += chunk;
        }
    }
    amax = lanes_reduce::<15, f32>(amax, f32::max);
    let other = shuffle_xor(FULL_WARP, amax, 16);
    if tiles.threads >= 32 {
        amax = amax.max(other);
    }
    if tiles.threads == THREADS {
        amax = block_reduce(amax, scratch, f32::max);
    }
    let is_first = lane == 0 && tile < count;
    if step == Step::Magnitudes as u32 {
        if is_first {
            magnitudes.write(block_idx().y * count + tile, amax);
        }
        return;
    }

    let limit = if tiles.code == Code::I8 as u32 {
        Code::I8.greatest()
    } else if tiles.code == Code::E4m3 as u32 {
        Code::E4m3.greatest()
    } else {
        Code::E5m2.greatest()
    };
    let (scale, inverse) = if amax < LEAST { (1.0, 1.0) } else { (amax / limit, limit / amax) };
    if is_first && (step == Step::Tile as u32 || tile == 0 && block_idx().y == 0) {
        scales.write(of_scales.at(block_idx().y, tile_row, tile_column), scale);
    }
    of.store(&held, lane, inverse);
    let mut next = lane + chunk;
    while next < vectors {
        of.store(&of.load(next), next, inverse);
        next += chunk;
    }
}

/// `y = scale q`. Grid: `(ceil(vectors / THREADS), matrices)`, for vectors of 16 bytes of `y`.
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
    let vector = const { (16 / T::BYTES) as u32 };
    let in_row = tiles.columns.div_ceil(vector);
    let i = block_idx().x * THREADS + thread_idx().x;
    if i >= in_row * tiles.rows {
        return;
    }
    let (row, column) = (i / in_row, i % in_row * vector);
    let existing = (tiles.columns - column).min(vector);
    let from = q.offset(of_q.at(block_idx().y, row, column));
    let bytes = if const { 16 / T::BYTES == 8 } {
        read::<u8, u64>(from, of_q.element, existing, tiles.aligned)
    } else {
        u64::from(read::<u8, u32>(from, of_q.element, existing, tiles.aligned))
    };
    let mut words = [0u32; 4];
    let elements = words.as_mut_ptr().cast::<T>();
    for i in 0..const { 16 / T::BYTES } {
        // A vector of ragged tiles may have elements of two.
        let tile = (row / tiles.tile_rows, (column + i as u32).min(tiles.columns - 1) / tiles.tile_columns);
        let scale = scales.read(of_scales.at(block_idx().y, tile.0, tile.1));
        elements.add(i).write((decode(tiles.code, (bytes >> (8 * i)) as u8) * scale).convert());
    }
    write::<T, [u32; 4]>(
        y.offset(of_y.at(block_idx().y, row, column)),
        of_y.element,
        existing,
        tiles.aligned,
        words,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use moye_device::number::{F8E4M3, F8E5M2};

    #[test]
    fn software_conversions_are_those_of_the_formats() {
        for bits in (0..=u32::MAX).step_by(65_521) {
            let x = f32::from_bits(bits);
            assert_eq!(float8::<3>(x, 448.0), u32::from(F8E4M3::from_f32(x).to_bits()), "{x:e}");
            assert_eq!(float8::<2>(x, 57_344.0), u32::from(F8E5M2::from_f32(x).to_bits()), "{x:e}");
        }
        for byte in 0..=u8::MAX {
            let values = [
                (decode(Code::E4m3 as u32, byte), F8E4M3::from_bits(byte).to_f32()),
                (decode(Code::E5m2 as u32, byte), F8E5M2::from_bits(byte).to_f32()),
            ];
            for (got, value) in values {
                assert!(got == value || got.is_nan() && value.is_nan(), "{byte:#x}: {got}, not {value}");
            }
        }
    }
}
