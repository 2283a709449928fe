//! Constants that the compiler derives from a layout: tables of offsets, the digits of a thread index, runs.

use super::static_layout::{Divisors, StaticLayout, gcd};
use crate::layout::{Layout, Swizzle, Text, coalesce};
use core::marker::PhantomData;

/// The most elements that one thread can name in one tensor.
pub(crate) const MAX_ELEMENTS: usize = 512;

/// Offsets of the elements of `L` along one axis (`AXIS`), or plain ones for a layout of offsets.
pub(crate) struct Offsets<L, const AXIS: usize>(PhantomData<L>);

/// Stands for "no axis": the layout's strides are plain numbers.
pub(crate) const PLAIN: usize = usize::MAX;

/// The layout of one axis of a layout of coordinates; the layout itself where it has plain strides.
pub(crate) const fn along(layout: Layout, axis: usize) -> Layout {
    if axis == PLAIN { layout } else { layout.along(axis) }
}

impl<L: StaticLayout, const AXIS: usize> Offsets<L, AXIS> {
    pub(crate) const TABLE: [i32; MAX_ELEMENTS] = {
        let layout = coalesce(along(L::LAYOUT, AXIS));
        let size = layout.size() as usize;
        if size > MAX_ELEMENTS {
            let mut text = Text::<400>::new();
            text.str("a thread's part of the tensor, ");
            text.layout(&L::LAYOUT);
            text.str(", has ");
            text.int(size as i64);
            text.str(" elements, and a copy or product unrolls at most ");
            text.int(MAX_ELEMENTS as i64);
            text.str(": spread the tile over more threads, or loop over parts of it");
            panic!("{}", text.as_str());
        }
        let mut table = [0; MAX_ELEMENTS];
        let mut i = 0;
        while i < size {
            table[i] = layout.at(i as i64) as i32;
            i += 1;
        }
        table
    };
}

/// One digit of an index: `(index / divide % modulo) * stride`.
#[derive(Clone, Copy)]
pub(crate) struct Digit {
    divide: u32,
    modulo: u32,
    stride: i32,
}

/// The index's digits along one axis.
pub(crate) struct Digits<L, const AXIS: usize>(PhantomData<L>);

const MAX_DIGITS: usize = 16;

impl<L: StaticLayout, const AXIS: usize> Digits<L, AXIS> {
    const TABLE: ([Digit; MAX_DIGITS], usize) = {
        let layout = coalesce(along(L::LAYOUT, AXIS)).flatten();
        let mut digits = [Digit { divide: 1, modulo: 1, stride: 0 }; MAX_DIGITS];
        let mut count = 0;
        let mut divide = 1;
        let mut leaf = 0;
        while leaf < layout.rank() {
            let mode = layout.mode(leaf);
            let (extent, stride) = (mode.size(), mode.at(1));
            if extent > 1 {
                if stride != 0 {
                    // The highest digit needs no remainder: the index is below the size.
                    let modulo = if leaf + 1 == layout.rank() { 0 } else { extent as u32 };
                    digits[count] = Digit { divide, modulo, stride: stride as i32 };
                    count += 1;
                }
                divide *= extent as u32;
            }
            leaf += 1;
        }
        (digits, count)
    };

    /// Where the layout leads from `index`, which is below its size.
    #[inline(always)]
    pub(crate) fn offset(index: u32) -> i32 {
        let mut offset = 0;
        let mut i = 0;
        while i < Self::TABLE.1 {
            let digit = Self::TABLE.0[i];
            let value = index / digit.divide;
            let value = if digit.modulo == 0 { value } else { value % digit.modulo };
            offset += value as i32 * digit.stride;
            i += 1;
        }
        offset
    }
}

/// For each axis, the greatest number of which every value of the layout is a multiple (0: it does not move).
pub(crate) const fn steps(layout: Layout) -> Divisors {
    let mut result = Divisors::UNMOVED;
    let mut axis = 0;
    while axis < Divisors::AXES {
        if layout.is_coordinate() || axis == 0 {
            let line = coalesce(if layout.is_coordinate() { layout.along(axis) } else { layout }).flatten();
            let mut leaf = 0;
            while leaf < line.rank() {
                let mode = line.mode(leaf);
                if mode.size() > 1 {
                    result.0[axis] = gcd(result.0[axis], mode.at(1).unsigned_abs());
                }
                leaf += 1;
            }
        }
        axis += 1;
    }
    result
}

/// The bits below one block of the swizzle that an origin may have set after one more shift by `layout`, given those that
/// it had: all ones where sums may carry, so that nothing is known. 0 where there is no swizzle and nobody asks.
pub(crate) const fn moved(before: u64, layout: Layout, swizzle: Swizzle) -> u64 {
    if swizzle.bits() == 0 {
        return 0;
    }
    let mut bits = before;
    let line = coalesce(layout).flatten();
    let mut leaf = 0;
    while leaf < line.rank() {
        let mode = line.mode(leaf);
        let mut own = 0;
        let mut i = 0;
        while i < mode.size() {
            own |= mode.at(i) as u64 & block_mask(swizzle);
            i += 1;
        }
        if bits & own != 0 {
            return u64::MAX;
        }
        bits |= own;
        leaf += 1;
    }
    bits
}

/// The bits of an offset within one aligned block that the swizzle keeps to itself.
pub(crate) const fn block_mask(swizzle: Swizzle) -> u64 {
    (1 << (swizzle.bits() + swizzle.base() + swizzle.shift().abs())) - 1
}

/// Whether the offsets of `layout` set no bit within a block of the swizzle that the origin may have set: then the sum of
/// both is their exclusive or, and the swizzle, which is linear over it, may be taken of each by itself.
pub(crate) const fn is_linear(layout: Layout, moved: u64, swizzle: Swizzle) -> bool {
    let mut i = 0;
    while i < layout.size() {
        if layout.at(i) as u64 & block_mask(swizzle) & moved != 0 {
            return false;
        }
        i += 1;
    }
    true
}

/// The most consecutive elements, a power of two up to `most`: every group of that many, starting at a multiple of it,
/// advances by one along `axis` and not at all along the others, and starts at a multiple of the group's length.
pub(crate) const fn run(layout: Layout, axis: usize, rank: usize, origin: Divisors, most: usize) -> usize {
    let size = layout.size() as usize;
    let mut length = most;
    while length > 1 {
        if size.is_multiple_of(length) && is_run(layout, axis, rank, origin, length) {
            return length;
        }
        length /= 2;
    }
    1
}

const fn is_run(layout: Layout, axis: usize, rank: usize, origin: Divisors, length: usize) -> bool {
    let plain = axis == PLAIN;
    let moved = if plain { origin.0[0] } else { origin.0[axis] };
    if moved % length as u64 != 0 {
        return false;
    }
    let size = layout.size() as usize;
    let mut other = 0;
    while other < (if plain { 1 } else { rank }) {
        let line = coalesce(if plain { layout } else { layout.along(other) });
        let step = if plain || other == axis { 1 } else { 0 };
        let mut start = 0;
        while start < size {
            let first = line.at(start as i64);
            if step == 1 && first % length as i64 != 0 {
                return false;
            }
            let mut i = 1;
            while i < length {
                if line.at((start + i) as i64) != first + step * i as i64 {
                    return false;
                }
                i += 1;
            }
            start += length;
        }
        other += 1;
    }
    true
}
