//! Rotary position embedding: a thread computes the angles of a vector of pairs once, and rotates
//! them in several heads.
#![allow(non_snake_case, reason = "CuTe's names")]

use moye_device::algorithm::{MAP_THREADS, MapModes, load_vector_if, store_vector_if};
use moye_device::arch::overlap_launches;
use moye_device::kernel::{KernelParam, ParamType};
use moye_device::prelude::*;

/// Heads whose vectors are loaded before they are used.
pub const GROUP: u32 = 2;
/// Factors of [`RopeAngles`]: at most `2^POWERS` pairs.
pub const POWERS: usize = 10;

static_layout! {
    /// A thread's elements: (vector, (part of the pairs, head)).
    Wide<T: Element> = layout!(((16 / T::BYTES) as i64, 2 * GROUP as i64));
    Narrow = layout!((1, 2 * GROUP as i64));
}

/// The angles by position and pair: `position * first * ratio^pair` turns.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RopeAngles {
    /// `1 / (2 pi)`.
    pub first: f64,
    /// `ratio^(2^i)`.
    pub powers: [f64; POWERS],
}

// SAFETY: `repr(C)` and aligned to 8 bytes, with fields that mean the same on host and device.
unsafe impl KernelParam for RopeAngles {
    const TYPE: ParamType = ParamType::Struct { name: "RopeAngles", size: size_of::<Self>() };
}

/// Strides and options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct RopeForm {
    /// Stride between the heads of the tensor.
    pub head: i64,
    /// Stride between the heads of the result.
    pub head_out: i64,
    /// Offset from the first elements of a thread's pairs to the second; with vectors of adjacent
    /// pairs, to the second vector.
    pub part: i64,
    /// `part` in the result.
    pub part_out: i64,
    /// Stride between the rows of cosines.
    pub cos_row: i64,
    /// Stride between the columns of cosines.
    pub cos_column: i64,
    /// Stride between the rows of sines.
    pub sin_row: i64,
    /// Stride between the columns of sines.
    pub sin_column: i64,
    /// Rows of cosines and sines. Positions past the last row yield NaN.
    pub rows: i64,
    /// The number of heads.
    pub heads: u32,
    /// Heads of a block, a multiple of [`GROUP`].
    pub heads_of_block: u32,
    /// Whether operands allow vectors of 16 bytes: 1 or 0.
    pub vectors: u32,
    /// Whether pairs are adjacent elements: 1 or 0.
    pub adjacent: u32,
    /// Whether it is the inverse rotation: 1 or 0.
    pub inverse: u32,
    /// Whether positions have 64 bits: 1 or 0.
    pub wide_positions: u32,
    /// Whether cosines and sines are f32: 1 or 0.
    pub f32_tables: u32,
    /// Reserved: 0.
    pub reserved: u32,
}

/// Sine and cosine of a number of turns, within 2^-22.
#[inline(always)]
fn sin_cos_turns(turns: f64) -> (f32, f32) {
    // Added to a value below 2^51, it rounds to the nearest integer.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let quarters = 4.0 * (turns - ((turns + ROUND) - ROUND)) as f32;
    let quarter = (quarters + 12_582_912.0) - 12_582_912.0;
    let x = (quarters - quarter) * core::f32::consts::FRAC_PI_2;
    let z = x * x;
    let sin = z.fma(2.755_731_9e-6, -1.984_127e-4).fma(z, 8.333_333e-3).fma(z, -0.166_666_67);
    let sin = (sin * z).fma(x, x);
    let cos = z.fma(2.480_158_7e-5, -1.388_888_9e-3).fma(z, 4.166_666_6e-2).fma(z, -0.5).fma(z, 1.0);
    match quarter as i32 & 3 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

/// Rotates the pairs of each head of `x` by the angle of their token's position: `(a, b)` becomes
/// `(a cos - b sin, b cos + a sin)`. Without positions their address is 0, and each token's index
/// is its position; without cosines and sines they are those of `angles`.
///
/// The modes exclude heads: a place is a vector of pairs of the first head, whose inputs are the
/// offsets of the element in `x` and of the position, and the indices of token and pair.
///
/// # Safety
/// A grid of `(ceil(count / MAP_THREADS), ceil(heads / heads_of_block))` blocks for the vectors of
/// `modes`. Operands have their elements; `out` is `x` or overlaps no operand. With `form.vectors`
/// all vectors of 16 bytes are aligned.
#[kernel(threads = MAP_THREADS, instances = rope<f32 | f16 | bf16>, table = RopeKernels)]
pub unsafe fn rope<T: Element + Convert<f32>>(
    x: Global<T>,
    positions: Global<i32>,
    cos: Global<T>,
    sin: Global<T>,
    out: GlobalMut<T>,
    modes: MapModes<4>,
    angles: RopeAngles,
    form: RopeForm,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let place = modes.place(block_idx().x * MAP_THREADS + thread_idx().x);
    let (exists, [from, position, token, pair]) = (place.elements > 0, place.inputs);
    let position = if positions.address() == 0 {
        token
    } else if form.wide_positions == 1 {
        positions.cast::<i64>().offset(position).read_if(exists)
    } else {
        i64::from(positions.offset(position).read_if(exists))
    };
    let tables = [cos, sin];
    let (x, out) = (x.offset(from), out.offset(place.out));
    if form.vectors == 1 {
        let angles = cos_sin::<T, Wide<T>>(tables, angles, form, exists, position, pair);
        rotate::<T, Wide<T>>(x, out, form, exists, angles);
    } else {
        let angles = cos_sin::<T, Narrow>(tables, angles, form, exists, position, pair);
        rotate::<T, Narrow>(x, out, form, exists, angles);
    }
}

/// Rotates vectors of `L` of the block's heads, from the first head's element on.
///
/// # Safety
/// Same contract as [`rope`], where the vectors `exist`.
#[inline(always)]
unsafe fn rotate<T: Element + Convert<f32>, L: StaticLayout>(
    x: Global<T>,
    out: GlobalMut<T>,
    form: RopeForm,
    exist: bool,
    (cos, sin): ([f32; 8], [f32; 8]),
) where
    f32: Convert<T>,
{
    let vector = const { L::LAYOUT.extent(0) as usize };
    let turned = |a: f32, b: f32, i: usize| (a.fma(cos[i], -(b * sin[i])), b.fma(cos[i], a * sin[i]));
    let first = block_idx().y * form.heads_of_block;
    for group in 0..form.heads_of_block / GROUP {
        let head = |i: usize| {
            let head = first + group * GROUP + i as u32;
            (exist && head < form.heads, i64::from(head))
        };
        let mut rX = Fragment::<T, L>::zeros(); // (vector, (part, head))
        for i in 0..GROUP as usize {
            let ((valid, head), at) = (head(i), 2 * i * vector);
            let from = x.offset(head * form.head);
            // SAFETY: the vectors of a head that exists are readable.
            unsafe {
                load_vector_if(valid, from, &mut rX, at);
                load_vector_if(valid, from.offset(form.part), &mut rX, at + vector);
            }
        }
        let mut rY = rX.convert::<f32>(); // (vector, (part, head))
        for i in 0..GROUP as usize {
            let at = 2 * i * vector;
            if vector > 1 && form.adjacent == 1 {
                for j in 0..vector {
                    let (a, b) = (at + 2 * j, at + 2 * j + 1);
                    (rY[a], rY[b]) = turned(rY[a], rY[b], j);
                }
            } else {
                for j in 0..vector {
                    let (a, b) = (at + j, at + vector + j);
                    (rY[a], rY[b]) = turned(rY[a], rY[b], j);
                }
            }
        }
        let rY = rY.convert::<T>();
        for i in 0..GROUP as usize {
            let ((valid, head), at) = (head(i), 2 * i * vector);
            let to = out.offset(head * form.head_out);
            // SAFETY: the vectors of a head that exists are writable.
            unsafe {
                store_vector_if(valid, to, &rY, at);
                store_vector_if(valid, to.offset(form.part_out), &rY, at + vector);
            }
        }
    }
}

/// Cosines and sines of the pairs of a vector, with the sign of the rotation.
///
/// # Safety
/// The tables have `form.rows` rows of all pairs, where the pairs `exist`.
#[inline(always)]
unsafe fn cos_sin<T: Element + Convert<f32>, L: StaticLayout>(
    [cos_table, sin_table]: [Global<T>; 2],
    angles: RopeAngles,
    form: RopeForm,
    exist: bool,
    position: i64,
    pair: i64,
) -> ([f32; 8], [f32; 8]) {
    let vector = const { L::LAYOUT.extent(0) as usize };
    let (mut cos, mut sin) = ([0.0; 8], [0.0; 8]);
    if cos_table.address() == 0 {
        let mut angle = angles.first;
        for bit in 0..POWERS {
            angle *= if pair >> bit & 1 == 1 { angles.powers[bit] } else { 1.0 };
        }
        for i in 0..vector {
            (sin[i], cos[i]) = sin_cos_turns(position as f64 * angle);
            angle *= angles.powers[0];
        }
    } else {
        let is_row = position >= 0 && position < form.rows;
        let read = |table: Global<T>, row: i64, column: i64| {
            let offset = position.wrapping_mul(row).wrapping_add(column);
            // SAFETY: it is an element of the table.
            let value = unsafe {
                match form.f32_tables {
                    1 => table.cast::<f32>().offset(offset).read_if(exist && is_row),
                    _ => table.offset(offset).read_if(exist && is_row).convert(),
                }
            };
            if is_row { value } else { f32::NAN }
        };
        for i in 0..vector {
            let column = pair + i as i64;
            cos[i] = read(cos_table, form.cos_row, column * form.cos_column);
            sin[i] = read(sin_table, form.sin_row, column * form.sin_column);
        }
    }
    (cos, sin.map(|sin| if form.inverse == 1 { -sin } else { sin }))
}
