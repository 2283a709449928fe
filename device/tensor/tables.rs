//! Constants that the compiler derives from a layout: tables of offsets, the digits of a thread
//! index, runs.

use super::at::{MAX_PLACES, PlaceKinds};
use super::static_layout::{Divisors, StaticLayout, gcd};
use crate::layout::{Layout, Swizzle, Text, coalesce};
use core::marker::PhantomData;

/// The most elements of one tensor that a thread can index.
pub(crate) const MAX_ELEMENTS: usize = 512;

/// A copy or another loop over the elements of a thread's part is unrolled, or it does not compile.
/// Every such function uses this constant, so that the compiler reports a mistake once.
pub(crate) struct Unrolled<L>(PhantomData<L>);

impl<L: StaticLayout> Unrolled<L> {
    pub(crate) const CHECKED: () = {
        let layout = L::LAYOUT;
        if layout.size() > MAX_ELEMENTS as i64 {
            let mut text = Text::<400>::new();
            text.str("a copy, or a loop over the elements of a tensor, is unrolled for at most ");
            text.int(MAX_ELEMENTS as i64);
            text.str(" elements of a thread, and ");
            text.layout(&layout);
            text.str(" has ");
            text.int(layout.size());
            text.str(": spread the tile over more threads, or loop over parts of it");
            super::refuse(&text);
        }
    };
}

/// Offsets of the elements of `L` along one axis (`AXIS`), or plain offsets for a layout of
/// offsets: for unrolled loops, in which each is a constant.
pub(crate) struct Offsets<L, const AXIS: usize>(PhantomData<L>);

/// Means "no axis": the layout's strides are integers, not coordinates.
pub(crate) const PLAIN: usize = usize::MAX;

/// The layout along one axis of a layout of coordinates; the layout itself if its
/// strides are integers.
pub(crate) const fn along(layout: Layout, axis: usize) -> Layout {
    if axis == PLAIN { layout } else { layout.along(axis) }
}

impl<L: StaticLayout, const AXIS: usize> Offsets<L, AXIS> {
    pub(crate) const TABLE: [i32; MAX_ELEMENTS] = {
        let () = Unrolled::<L>::CHECKED;
        let layout = coalesce(along(L::LAYOUT, AXIS));
        let mut table = [0; MAX_ELEMENTS];
        table[0] = layout.at(0) as i32;
        // The previous entries, moved by each further step of the next mode.
        let leaves = layout.leaves();
        let (mut filled, mut leaf) = (1, 0);
        while leaf < leaves {
            let step = layout.step(leaf);
            let end = filled * layout.shape[leaf] as usize;
            let (mut from, mut to) = (0, filled);
            while to < end {
                table[to] = (table[from] as i64 + step) as i32;
                from += 1;
                to += 1;
            }
            filled = end;
            leaf += 1;
        }
        table
    };

    /// The offset of an element, without a bounds check of the table.
    ///
    /// # Safety
    /// The layout has an element `index`.
    #[inline(always)]
    pub(crate) unsafe fn of(index: usize) -> i32 {
        // SAFETY: the table has all elements of the layout, or it does not compile.
        unsafe { core::hint::assert_unchecked(index < MAX_ELEMENTS) };
        Self::TABLE[index]
    }
}

/// One digit of an index: `(index / divide % modulo) * stride`.
#[derive(Clone, Copy)]
pub(crate) struct Digit {
    divide: u32,
    modulo: u32,
    stride: i32,
}

impl Digit {
    /// The digit of an index in the simulator, where the table is not a constant: most digits need
    /// neither a division nor a remainder.
    fn of(self, index: u32) -> i32 {
        let value = if self.divide == 1 { index } else { index / self.divide };
        (if self.modulo == 0 { value } else { value % self.modulo }) as i32
    }
}

/// The digits of a layout, and their number.
type Table<T> = ([T; MAX_DIGITS], usize);

/// [`Digits::times`] in the simulator: one function instead of one for each layout, which would be
/// a sixth of a kernel's compiled code.
#[inline(never)]
fn led_to((digits, count): &Table<Digit>, index: u32, factor: i32) -> i32 {
    digits.iter().take(*count).map(|digit| digit.of(index) * (digit.stride * factor)).sum()
}

/// [`SliceDigits::by_block`] in the simulator, for the same reason as [`led_to`].
#[inline(never)]
fn led_by_block((digits, count): &Table<SliceDigit>, places: [u32; MAX_PLACES], factor: i32) -> (i32, i32) {
    let (mut outside, mut inside) = (0, 0);
    for &SliceDigit { mode, digit, outside: whole, .. } in digits.iter().take(*count) {
        let value = digit.of(places[mode]);
        if whole {
            outside += value * (digit.stride * factor);
        } else {
            inside += value * digit.stride;
        }
    }
    (outside, inside)
}

/// The index's digits along one axis.
pub(crate) struct Digits<L, const AXIS: usize>(PhantomData<L>);

const MAX_DIGITS: usize = crate::layout::MAX_LEAVES;

impl<L: StaticLayout, const AXIS: usize> Digits<L, AXIS> {
    const TABLE: Table<Digit> = {
        let layout = coalesce(along(L::LAYOUT, AXIS));
        let mut digits = [Digit { divide: 1, modulo: 1, stride: 0 }; MAX_DIGITS];
        let mut count = 0;
        let mut divide = 1;
        let leaves = layout.leaves();
        let mut leaf = 0;
        while leaf < leaves {
            let (extent, stride) = (layout.shape[leaf], layout.step(leaf));
            leaf += 1;
            if stride != 0 {
                // The highest digit needs no remainder: the index is below the size.
                let modulo = if leaf == leaves { 0 } else { extent as u32 };
                digits[count] = Digit { divide, modulo, stride: stride as i32 };
                count += 1;
            }
            divide *= extent as u32;
        }
        (digits, count)
    };

    /// The layout's offset at `index`, which is below its size.
    #[inline(always)]
    pub(crate) fn offset(index: u32) -> i32 {
        Self::times(index, 1)
    }

    /// [`offset`](Self::offset) times a constant, which is folded into each stride.
    #[inline(always)]
    pub(crate) fn times(index: u32, factor: i32) -> i32 {
        if cfg!(not(target_arch = "nvptx64")) {
            return led_to(&Self::TABLE, index, factor);
        }
        let mut offset = 0;
        let mut i = 0;
        while i < Self::TABLE.1 {
            let digit = Self::TABLE.0[i];
            let value = index / digit.divide;
            let value = if digit.modulo == 0 { value } else { value % digit.modulo };
            offset += value as i32 * (digit.stride * factor);
            i += 1;
        }
        offset
    }
}

/// One digit of a place of a slice: `(place[mode] / divide % modulo) * stride`.
#[derive(Clone, Copy)]
struct SliceDigit {
    mode: usize,
    digit: Digit,
    /// Whether it moves by whole blocks of the swizzle.
    outside: bool,
    /// Whether it is the first of its mode.
    first: bool,
}

/// The digits of the coordinates of a slice along one axis; `K` defines which modes of `L` are
/// fixed.
pub(crate) struct SliceDigits<L, K, const AXIS: usize>(PhantomData<(L, K)>);

impl<L: StaticLayout, K: PlaceKinds, const AXIS: usize> SliceDigits<L, K, AXIS> {
    const TABLE: Table<SliceDigit> = {
        let digit = Digit { divide: 1, modulo: 1, stride: 0 };
        let none = SliceDigit { mode: 0, digit, outside: true, first: true };
        let mut digits = [none; MAX_DIGITS];
        let (mut count, mut mode) = (0, 0);
        let inside = if L::SWIZZLE.bits() == 0 { 0 } else { block_mask(L::SWIZZLE) };
        while mode < L::LAYOUT.rank() && mode < K::FIXED.len() {
            if K::FIXED[mode] {
                let before = count;
                let layout = coalesce(along(L::LAYOUT.mode(mode), AXIS));
                let leaves = layout.leaves();
                let (mut divide, mut leaf) = (1, 0);
                while leaf < leaves {
                    let (extent, stride) = (layout.shape[leaf], layout.step(leaf));
                    leaf += 1;
                    if stride != 0 {
                        let modulo = if leaf == leaves { 0 } else { extent as u32 };
                        let digit = Digit { divide, modulo, stride: stride as i32 };
                        let last = mode + 1 == L::LAYOUT.rank();
                        let outside = last && stride as u64 & inside == 0;
                        digits[count] = SliceDigit { mode, digit, outside, first: count == before };
                        count += 1;
                    }
                    divide *= extent as u32;
                }
            }
            mode += 1;
        }
        (digits, count)
    };

    /// The offset of the coordinates from the origin.
    #[inline(always)]
    pub(crate) fn offset(places: [u32; MAX_PLACES]) -> i32 {
        let (outside, inside) = Self::by_block(places, 1);
        outside + inside
    }

    /// [`offset`](Self::offset) in two parts: whole blocks of the swizzle along the last mode,
    /// times `factor`, and the rest.
    ///
    /// The last mode is the stage, known at run time. Constants in the modes before it, including
    /// whole blocks, are added after the swizzle, so that the swizzle is computed once for all of
    /// them.
    #[inline(always)]
    pub(crate) fn by_block(places: [u32; MAX_PLACES], factor: i32) -> (i32, i32) {
        if cfg!(not(target_arch = "nvptx64")) {
            return led_by_block(&Self::TABLE, places, factor);
        }
        let (mut outside, mut inside) = (0, 0);
        let mut i = 0;
        while i < Self::TABLE.1 {
            let SliceDigit { mode, digit, outside: whole, .. } = Self::TABLE.0[i];
            let value = places[mode] / digit.divide;
            let value = if digit.modulo == 0 { value } else { value % digit.modulo };
            if whole {
                outside += value as i32 * (digit.stride * factor);
            } else {
                inside += value as i32 * digit.stride;
            }
            i += 1;
        }
        (outside, inside)
    }

    /// `origin` moved by [`offset`](Self::offset), once for each mode, starting with the last.
    ///
    /// A place in the last mode, the stage, is known at run time. Constants in the modes before it
    /// become immediates of the accesses; a sum over all modes would be scaled to bytes for each
    /// access.
    #[inline(always)]
    pub(crate) fn moved<P>(mut origin: P, places: [u32; MAX_PLACES], by: impl Fn(P, i32) -> P) -> P {
        // The simulator has no immediates.
        if cfg!(not(target_arch = "nvptx64")) {
            return by(origin, Self::offset(places));
        }
        let (mut offset, mut i) = (0, Self::TABLE.1);
        while i > 0 {
            i -= 1;
            let SliceDigit { mode, digit, first, .. } = Self::TABLE.0[i];
            let value = places[mode] / digit.divide;
            let value = if digit.modulo == 0 { value } else { value % digit.modulo };
            offset += value as i32 * digit.stride;
            if first {
                origin = by(origin, offset);
                offset = 0;
            }
        }
        origin
    }
}

/// For each axis, the greatest common divisor of the layout's values (0: it does not move).
pub(crate) const fn steps(layout: Layout) -> Divisors {
    let mut result = Divisors::UNMOVED;
    let coordinate = layout.is_coordinate();
    let mut axis = 0;
    while axis < if coordinate { Divisors::AXES } else { 1 } {
        let line = if coordinate { layout.along(axis) } else { layout };
        let leaves = line.leaves();
        let mut leaf = 0;
        while leaf < leaves {
            if line.shape[leaf] > 1 && line.stride[leaf] != 0 {
                result.0[axis] = gcd(result.0[axis], line.step(leaf).unsigned_abs());
            }
            leaf += 1;
        }
        axis += 1;
    }
    result
}

/// The bits within one block of the swizzle that an origin may have set after one more shift by
/// `layout`, given the bits before: all ones if sums may carry, so that no bit is known. 0 without
/// a swizzle, which does not use the value.
pub(crate) const fn moved(before: u64, layout: Layout, swizzle: Swizzle) -> u64 {
    if swizzle.bits() == 0 {
        return 0;
    }
    let mut bits = before;
    let line = coalesce(layout);
    let leaves = line.leaves();
    let mut leaf = 0;
    while leaf < leaves {
        let own = bits_of(&line, leaf) & block_mask(swizzle);
        if bits & own != 0 {
            return u64::MAX;
        }
        bits |= own;
        leaf += 1;
    }
    bits
}

/// The bits that multiples of a leaf's stride may have set.
const fn bits_of(line: &Layout, leaf: usize) -> u64 {
    let extent = line.shape[leaf];
    if extent == 1 {
        return 0;
    }
    let step = line.step(leaf);
    // If extent and stride are powers of two, the last element has all the bits.
    if extent & (extent - 1) == 0 && step > 0 && step & (step - 1) == 0 {
        return ((extent - 1) * step) as u64;
    }
    let (mut bits, mut index, mut i) = (0, 0, 1);
    while i < extent {
        index += step;
        bits |= index as u64;
        i += 1;
    }
    bits
}

/// The bits of an offset within one block of the swizzle.
pub(crate) const fn block_mask(swizzle: Swizzle) -> u64 {
    (1 << (swizzle.bits() + swizzle.base() + swizzle.shift().abs())) - 1
}

/// Whether the offsets of `layout` set no bit within a block of the swizzle that the origin may
/// have set: then their sum is their exclusive or, and the swizzle, which is linear over XOR, may
/// be applied to each separately.
pub(crate) const fn is_linear(layout: Layout, moved: u64, swizzle: Swizzle) -> bool {
    let kept = block_mask(swizzle) & moved;
    if kept == 0 {
        return true;
    }
    let line = coalesce(layout);
    let leaves = line.leaves();
    let (mut all, mut carries, mut leaf) = (0, false, 0);
    while leaf < leaves {
        let own = bits_of(&line, leaf);
        carries = carries || all & own != 0;
        all |= own;
        leaf += 1;
    }
    // The sum of modes that share no bit has no carry, so all of its bits are bits of a mode.
    if !carries {
        return all & kept == 0;
    }
    let size = line.size();
    let mut i = 0;
    while i < size {
        if line.at(i) as u64 & kept != 0 {
            return false;
        }
        i += 1;
    }
    true
}

/// [`is_linear`] for an origin that slices have stepped by offsets with the bits `stepped`, which
/// are kept separate: these, the origin's and the layout's share no bit within a block.
pub(crate) const fn is_linear_after(layout: Layout, moved: u64, stepped: u64, swizzle: Swizzle) -> bool {
    let stepped = stepped & block_mask(swizzle);
    is_linear(layout, moved, swizzle) && stepped & moved == 0 && is_linear(layout, stepped, swizzle)
}

/// The longest run of consecutive elements, a power of two up to `most`. Every group of this
/// length, from an index that is a multiple of it, advances by one along `axis` and not along other
/// axes, and starts at a multiple of its length.
pub(crate) const fn run(layout: Layout, axis: usize, rank: usize, origin: Divisors, most: usize) -> usize {
    let size = layout.size() as u64;
    let together = together(&layout, axis, rank, gcd(size, origin.0[if axis == PLAIN { 0 } else { axis }]));
    let mut length = most;
    while length > 1 {
        if together.is_multiple_of(length as u64) {
            return length;
        }
        length /= 2;
    }
    1
}

/// The number, a divisor of `bound`, whose divisors are the lengths of the groups that [`run`]
/// looks for.
///
/// Along each axis, modes are coalesced: the first one is longer than 1, and the second does not
/// continue it. So a group that crosses the first mode's end breaks, and a group of two or more
/// elements advances by the first mode's stride.
const fn together(layout: &Layout, axis: usize, rank: usize, bound: u64) -> u64 {
    let plain = axis == PLAIN;
    let mut bound = bound;
    let mut other = 0;
    while bound > 1 && other < (if plain { 1 } else { rank }) {
        let line = coalesce(if plain { *layout } else { layout.along(other) });
        let step = (plain || other == axis) as i64;
        // Strides along basis vectors do not yield an index.
        if line.at(0) + line.step(0) != step {
            return 1;
        }
        bound = gcd(bound, line.shape[0] as u64);
        let leaves = line.leaves();
        let mut leaf = 1;
        // Every group starts at a multiple of its length.
        while leaf < leaves && step == 1 {
            bound = gcd(bound, line.step(leaf).unsigned_abs());
            leaf += 1;
        }
        other += 1;
    }
    bound
}
