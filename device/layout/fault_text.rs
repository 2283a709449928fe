//! The words for what goes wrong.

use super::basis::{NO_BASIS, depth, outermost};
use super::fault::Fault;
use super::numbers::{Beyond, Divisors, alternatives, multiples_around, strides, values_of};
use super::place::{BY_ITSELF, Place};
use super::text::Text;

/// "basis vector 1", "basis vector 0@1", "none (an integer)".
const fn along<const N: usize>(text: &mut Text<N>, basis: u32) {
    if basis == NO_BASIS {
        text.str("none (an integer)");
    } else {
        text.str("basis vector ");
        text.basis(basis);
    }
}

/// "a stride of 2 or 4 would work": the multiples of `reach` next to `stride` that the operation
/// accepts. Returns whether there are any.
const fn strides_around<const N: usize>(text: &mut Text<N>, place: &Place, stride: i64, reach: i64) -> bool {
    let below = stride - stride % reach;
    let lower = below > 0 && place.takes_stride(stride, below);
    let upper = match below.checked_add(reach) {
        Some(above) => place.takes_stride(stride, above),
        None => false,
    };
    if !lower && !upper {
        return false;
    }
    text.str("a stride of ");
    if lower && upper {
        multiples_around(text, stride, reach);
    } else {
        text.int(if lower { below } else { below + reach });
    }
    text.str(" would work");
    true
}

impl Fault {
    /// Writes what went wrong at `place`, which is written before it.
    pub const fn write<const N: usize>(&self, text: &mut Text<N>, place: &Place) {
        match *self {
            Self::Capacity => {
                text.str("the result has more than ");
                text.int(super::MAX_LEAVES as i64);
                text.str(" integers, or more than ");
                text.int(super::MAX_NODES as i64);
                text.str(
                    " integers and tuples together, which is what a value holds; coalesce the operands first",
                );
            }
            Self::TooLarge { what, left, by, right } => {
                text.str(what);
                text.str(" ");
                text.int(left);
                text.str(" times ");
                text.str(by);
                text.str(" ");
                text.int(right);
                text.str(" does not fit in 64 bits; the size and the magnitude of every index must be below 2^63");
            }
            Self::Overflow => text.str(
                "a size or an offset does not fit in 64 bits; the size and the magnitude of every index must be below \
                 2^63",
            ),
            Self::NotAnInt => {
                text.str("an integer is needed here, not `_`, a multiple of a basis vector, or a tuple")
            }
            Self::NotALeaf => text.str("an integer is needed where there is a tuple"),
            Self::NoMode { index, rank } => {
                text.str("there is no mode ");
                text.size(index);
                text.str("; the rank is ");
                text.int(rank as i64);
            }
            Self::NoRange { begin, end, rank } => {
                text.str("there are no modes ");
                text.size(begin);
                text.str("..");
                text.size(end);
                text.str("; a range begins at or before its end, which is at most the rank, ");
                text.int(rank as i64);
            }
            Self::Extent { extent } => {
                text.str("the extent ");
                text.int(extent);
                text.str(" is below 1; a layout's extents are at least 1");
            }
            Self::Least { what, value, least } => {
                text.str("the ");
                text.str(what);
                text.str(" is ");
                text.int(value);
                text.str("; it must be at least ");
                text.int(least);
            }
            Self::Incongruent { what } => {
                text.str(what);
                text.str(" nest differently");
                place.write_difference(text);
                text.str(
                    "; they need a tuple for each tuple and an integer for each integer",
                );
            }
            Self::Ranks { left, right } => {
                text.str("the ranks ");
                text.int(left as i64);
                text.str(" and ");
                text.int(right as i64);
                text.str(" differ; they must be the same");
            }
            Self::TupleForInt { what, modes } => {
                text.str("the ");
                text.str(what);
                text.str(" has a tuple of ");
                text.int(modes as i64);
                text.str(" for an integer extent; an integer would work");
            }
            Self::CoordinateRank { given, rank } => {
                text.str("the coordinate has ");
                text.int(given as i64);
                text.str(" elements for a rank of ");
                text.int(rank as i64);
                text.str("; one for each mode would work, or an integer for the whole");
            }
            Self::TooManyModes { what, modes, rank } => {
                text.str("the ");
                text.str(what);
                text.str(" has ");
                text.int(modes as i64);
                text.str(" modes for a rank of ");
                text.int(rank as i64);
                text.str("; at most ");
                text.int(rank as i64);
                text.str(" would work");
            }
            Self::Stride { stride, along, inner, mode, extent, count, values, known, would, beyond } => {
                text.str("the stride ");
                text.int(stride);
                if along != stride {
                    text.str(", which is ");
                    text.int(along);
                    text.str(" along mode ");
                    text.int(mode as i64);
                    text.str(",");
                }
                text.str(" neither divides nor is divided by the extent ");
                text.int(extent);
                text.str(" of");
                place.write_mode(text, mode);
                values_of(text, &values, known, count);
                if place.is_of_shape() {
                    if !place.write_shapes(text) {
                        place.write_condition(text);
                    }
                } else if place.is_one_of_several() {
                    let beyond = if beyond > 0 { Beyond::Multiples(beyond) } else { Beyond::Nothing };
                    if strides(text, extent, inner, would, beyond) {
                        text.str(BY_ITSELF);
                    }
                } else if place.is_checked() {
                    let mut kept = 0;
                    let mut tries = place.tries();
                    let mut divisors = Divisors::of(extent);
                    while let Some(divisor) = divisors.next()
                        && tries > 0
                    {
                        let bit = 1 << (divisors.found - 1);
                        if would & bit != 0 {
                            tries -= 1;
                            if place.takes(Some(count), stride, (None, divisor * inner)) {
                                kept |= bit;
                            }
                        }
                    }
                    let takes = beyond > 0 && place.takes(Some(count), stride, (None, beyond));
                    let beyond = if takes { Beyond::One(beyond) } else { Beyond::Nothing };
                    if !strides(text, extent, inner, kept, beyond) && !place.write_tiles(text) {
                        place.write_condition(text);
                    }
                } else {
                    let beyond = if beyond > 0 { Beyond::Multiples(beyond) } else { Beyond::Nothing };
                    strides(text, extent, inner, would, beyond);
                }
            }
            Self::Unfit => text.str("the steps fit no layout"),
            Self::Run { stride, count, run, whole, last, mode, extent, values, known } => {
                text.str("the extent ");
                text.int(count);
                text.str(" is no multiple of ");
                text.int(run);
                text.str(", the number of steps that stay within the extent ");
                text.int(extent);
                text.str(" of");
                place.write_mode(text, mode);
                values_of(text, &values, known, count);
                if place.is_of_shape() {
                    if !place.write_shapes(text) {
                        place.write_condition(text);
                    }
                    return;
                }
                let one_of_several = place.is_one_of_several();
                if place.is_checked() && !one_of_several {
                    if place.takes(Some(count), stride, (Some(run), stride)) {
                        text.str("; an extent of ");
                        text.int(run);
                        text.str(" would work");
                    } else if !place.write_tiles(text) {
                        place.write_condition(text);
                    }
                    return;
                }
                text.str(if whole { "; an extent of at most " } else { "; an extent of " });
                text.int(run);
                text.str(if last { " or a multiple of it would work" } else { " would work" });
                if one_of_several {
                    text.str(BY_ITSELF);
                }
            }
            Self::Carry { mode, extent, reach } => {
                text.str("the modes of ");
                text.str(place.steps());
                text.str(" sum to ");
                text.int(reach);
                text.str(" along");
                place.write_mode(text, mode);
                if place.is_in_first() {
                    text.str(" of the first");
                }
                text.str(", whose extent is ");
                text.int(extent);
                text.str(", so that a mode alone steps differently than together with the others");
                if !place.write_shapes(text) {
                    text.str("; the steps of all modes together must stay below the extent");
                }
            }
            Self::Beside { stride } => {
                text.str("the steps of stride ");
                text.int(stride);
                text.str(" carry from one mode into the next, so that together with the other modes of ");
                text.str(place.steps());
                text.str(" they differ from separate steps");
                if !place.write_shapes(text) {
                    text.str("; the steps of all modes together must stay within each mode of the first");
                }
            }
            Self::NegativeStride { stride } => {
                text.str("the stride ");
                text.int(stride);
                text.str(
                    " runs backwards through a layout of several modes, which leaves its domain; reverse the \
                          first layout's strides instead",
                );
            }
            Self::MixedBasis => text.str(
                "strides along basis vectors (such as 1@0) and integer strides do not give one index",
            ),
            Self::Across { left, right, step, stride, count } => {
                text.str("a step of ");
                text.int(step);
                text.str(" goes along ");
                along(text, left);
                text.str(" and ");
                along(text, right);
                text.str(" at once, which one stride cannot hold");
                if place.is_of_shape() {
                    if !place.write_shapes(text) {
                        place.write_condition(text);
                    }
                    return;
                }
                let (below, above) = place.steps_around(count, stride);
                let one_of_several = place.is_one_of_several();
                let mut numbers = [0; 2];
                let mut found = 0;
                if below > 0 && (one_of_several || place.takes(Some(count), stride, (None, below))) {
                    numbers[found] = below;
                    found += 1;
                }
                if above > 0 && (one_of_several || place.takes(Some(count), stride, (None, above))) {
                    numbers[found] = above;
                    found += 1;
                }
                if found > 0 {
                    text.str("; a stride of ");
                    let (numbers, _) = numbers.split_at(found);
                    alternatives(text, numbers, true);
                    text.str(" would work");
                    if one_of_several {
                        text.str(BY_ITSELF);
                    }
                } else if !place.write_tiles(text) {
                    text.str("; tiles that stay within a mode would work");
                }
            }
            Self::HasBasis => text.str(
                "strides along basis vectors (such as 1@0) have no place here; take `along(k)` for the integer layout of \
                 coordinate k, with the strides along k, and 0 for the others",
            ),
            Self::NoBasisMode { basis, level, rank } => {
                text.str("a stride along basis vector ");
                text.basis(basis);
                text.str(" selects a mode that is not there; the rank ");
                if level > 0 {
                    text.str("of mode ");
                    text.mode_before(basis, level);
                    text.str(" ");
                }
                text.str("is ");
                text.int(rank as i64);
                text.str(if level > 0 {
                    ", and an index below it would work"
                } else {
                    ", and a basis vector below it would work"
                });
            }
            Self::Coordinate { value, extent, last } => {
                text.int(value);
                text.str(" is not within the extent ");
                text.int(extent);
                if last {
                    text.str("; 0 or more would work");
                } else {
                    text.str("; 0 to ");
                    text.int(extent - 1);
                    text.str(" would work");
                }
            }
            Self::BasisRange { basis } => {
                if basis == usize::MAX {
                    text.str("there is no basis vector below 0");
                } else {
                    text.str("there is no basis vector ");
                    text.size(basis);
                }
                text.str("; their numbers are 0 to ");
                text.int(super::MAX_BASIS as i64 - 1);
            }
            Self::BasisDepth => {
                text.str("a coordinate would nest deeper than ");
                text.int(super::MAX_BASIS_DEPTH as i64);
                text.str(" tuples, which is what a basis vector holds; flatten what nests deeper");
            }
            Self::NoPath => text.str("a basis vector has at least one index"),
            Self::NoLeaf { index, leaves } => {
                text.str("there is no leaf ");
                text.size(index);
                text.str("; there are ");
                text.int(leaves as i64);
            }
            Self::CoordinateBasis { basis, parts } => {
                text.str("a stride is along basis vector ");
                text.size(basis);
                text.str(", and only the first ");
                text.size(parts);
                text.str(" are requested; request at least ");
                text.size(basis + 1);
            }
            Self::NotFlat { stride, basis: NO_BASIS } => {
                text.str("the stride ");
                text.int(stride);
                text.str(" is an integer, along no basis vector; `at` gives the layout's index");
            }
            Self::NotFlat { stride, basis } => {
                text.str("the stride ");
                text.scaled(stride, basis);
                text.str(" is within element ");
                text.size(outermost(basis));
                text.str(" of the coordinate, which is a tuple; `coordinate_of` gives nested coordinates, and `along(");
                text.size(outermost(basis));
                text.str(")` the layout of that element");
            }
            Self::BothKinds { whole, within, instead } => {
                text.str("the strides ");
                text.scaled(whole.0, whole.1);
                text.str(" and ");
                text.scaled(within.0, within.1);
                text.str(" make ");
                if whole.1 != NO_BASIS {
                    text.str("element ");
                    text.mode_before(whole.1, depth(whole.1));
                    text.str(" of ");
                }
                text.str("the coordinate both an integer and a tuple; ");
                match instead {
                    Some(instead) if place.takes_basis(whole, instead) => {
                        text.scaled(whole.0, instead);
                        text.str(" beside ");
                        text.scaled(within.0, within.1);
                        text.str(" would work");
                    }
                    _ => text.str("it must be the one or the other, for all strides along it"),
                }
            }
            Self::OpenTile { mode } => {
                text.str("the wildcard of mode ");
                text.int(mode as i64);
                text.str(" leaves the extent of a tile open; an extent or a layout would work");
            }
            Self::NotNested { stride, smaller, reach } => {
                text.str("the stride ");
                text.int(stride);
                text.str(" is no multiple of the next smaller stride ");
                text.int(smaller);
                text.str(", so that no digit of an index is a coordinate; ");
                // Disjoint from the modes of smaller stride, and a multiple of it; their reach is
                // one.
                if place.takes_stride(stride, reach) {
                    text.str("a stride of ");
                    text.int(reach);
                    if place.is_largest(stride) {
                        text.str(" or a larger multiple of ");
                        text.int(smaller);
                    }
                    text.str(" would work");
                } else {
                    text.str(place.apart());
                }
            }
            Self::Backwards { stride, count } => {
                text.str("the stride ");
                text.int(stride);
                text.str(" runs backwards through the parts of an element of ");
                text.int(count);
                if place.takes_turned(-stride) {
                    text.str("; the stride ");
                    text.int(-stride);
                    text.str(" from the other end would work");
                } else {
                    text.str("; strides within an element must be positive");
                }
            }
            Self::Straddles { reach, count } => {
                text.str("the strides below ");
                text.int(count);
                text.str(" sum to ");
                text.int(reach);
                text.str(" within an element of ");
                text.int(count);
                text.str(", so that a group begins in one element and ends in the next; together they must stay below ");
                text.int(count);
            }
            Self::Overlap { stride, reach } => {
                text.str("the mode of stride ");
                text.int(stride);
                text.str(" overlaps the modes of smaller stride, which reach to ");
                text.int(reach);
                if place.takes_stride(stride, reach) {
                    text.str("; a stride of ");
                    text.int(reach);
                    text.str(" would work");
                } else {
                    text.str("; ");
                    text.str(place.apart());
                }
            }
            Self::Downwards { extent, stride, turned } => {
                let end = stride * (extent - 1);
                text.str("the mode ");
                text.int(extent);
                text.str(":");
                text.int(stride);
                text.str(" (modes coalesced) runs down to ");
                text.int(end);
                text.str(", and complements and inverses count from 0 upwards; ");
                if turned {
                    text.str("they take modes of negative stride counted from the other end, this one as ");
                    text.int(extent);
                    text.str(":");
                    text.int(-stride);
                    text.str(" with ");
                    text.int(end);
                    text.str(" added to each index");
                } else {
                    text.str(
                        "they take positive strides that nest (each a multiple of the reach of those before it), as these \
                         do not from their other end either",
                    );
                }
            }
            Self::Gap { stride, reach } => {
                text.str("the tile's stride ");
                text.int(stride);
                text.str(" is no multiple of ");
                text.int(reach);
                text.str(", what its modes of smaller stride reach, so that the end of each gap would be in no tile; ");
                if !strides_around(text, place, stride, reach) {
                    text.str("each stride of a tile must be a multiple of what those before it reach");
                }
            }
            Self::LeftOut { stride, reach, end, cotarget } => {
                text.str("the stride ");
                text.int(stride);
                text.str(" is no multiple of ");
                text.int(reach);
                text.str(", what the modes of smaller stride reach, so that no copies of the layout that do not meet reach ");
                // Up to here whole copies fill the gap.
                text.int(stride - stride % reach);
                text.str(", and they end at ");
                text.int(end);
                text.str(", below ");
                text.int(cotarget);
                text.str("; ");
                if !strides_around(text, place, stride, reach) {
                    text.str(place.apart());
                }
            }
            Self::Indivisible { what, left, right, divisors, modes } => {
                text.str("the ");
                text.str(what);
                text.str(" ");
                text.int(left);
                text.str(" neither divides nor is divided by ");
                text.int(right);
                if place.is_checked() {
                    let mut would = 0;
                    let mut smaller = Divisors::of(right);
                    while let Some(divisor) = smaller.next() {
                        would |= (place.takes_stride(left, divisor) as u8) << (smaller.found - 1);
                    }
                    let multiples = place.takes_stride(left, right);
                    let beyond = if multiples { Beyond::Multiples(right) } else { Beyond::Nothing };
                    if !strides(text, right, 1, would, beyond) {
                        text.str("; each stride must be a divisor or a multiple of it, and the sum of the smaller ones must not reach it");
                    }
                    return;
                }
                text.str(if divisors { "; a divisor or a multiple of " } else { "; a multiple of " });
                text.int(right);
                text.str(if modes { " would work for this mode" } else { " would work" });
            }
            Self::NotAMultiple { what, left, right } => {
                text.str("the ");
                text.str(what);
                text.str(" ");
                text.int(left);
                text.str(" is no multiple of ");
                text.int(right);
                if place.is_of_shape() {
                    if !place.write_shapes(text) {
                        text.str("; a multiple is needed, and of those nearby none has a layout beside the other modes");
                    }
                    return;
                }
                text.str("; ");
                multiples_around(text, left, right);
                text.str(" would work");
            }
            Self::HiddenBits { base, count } => {
                text.str("the swizzle takes bits from place ");
                text.int(base);
                text.str(" up, some of which are within one element of ");
                text.int(count);
                text.str(", and changes bits that are not; a count of at most ");
                text.int(1 << base);
                text.str(" would work");
            }
            Self::Shifts { second, first } => {
                text.str("the shifts ");
                text.int(second);
                text.str(" and ");
                text.int(first);
                text.str(" differ, and no single swizzle does both; two of the same shift would work");
            }
            Self::TakenTwice { changed, taken } => {
                text.str("the first changes the bits ");
                text.int(changed);
                text.str(" of an index, and the second takes ");
                text.int(taken);
                text.str(" of it, which no single swizzle does; groups of bits without one in common would work");
            }
            Self::BitsApart { source, target } => {
                text.str("bits ");
                text.int(source);
                text.str(" of an index would be taken to change its bits ");
                text.int(target);
                text.str(
                    ", which are not two groups side by side in the same order, as a swizzle has them; applied one after \
                     the other (`apply`, `at`), the operands need no single swizzle",
                );
            }
            Self::LostBit { source, target } => {
                text.str("the swizzle takes the bit ");
                text.int(source);
                text.str(" of an index, which the first layout leaves out, and changes the bit ");
                text.int(target);
                text.str(", which it keeps; a layout that keeps both or neither would work");
            }
            Self::Leaves { size, index } => {
                text.str("the swizzle takes an index below the size ");
                text.int(size);
                text.str(" to ");
                text.int(index);
                text.str(", beyond it; a size that is a multiple of the block that the swizzle permutes would work");
            }
            Self::OffsetCarry { offset, mode, extent, reach } => {
                text.str("the offset ");
                text.int(offset);
                text.str(" and what is added to it reach ");
                text.int(reach);
                text.str(" along mode ");
                text.int(mode as i64);
                text.str(" (modes coalesced) of the first layout, whose extent is ");
                text.int(extent);
                text.str(", so that the offset cannot be moved past the layout; the offset 0 would work");
            }
            Self::OffsetInverse { offset } => {
                text.str("the offset ");
                text.int(offset);
                text.str(
                    " would have to be taken away from an index before the layout is inverted, and no swizzle o offset \
                     o layout does that; invert with the offset 0, and add the offset to what is asked",
                );
            }
            Self::Short { what, size, want } => {
                text.str("only ");
                text.int(size);
                text.str(" of ");
                text.int(want);
                text.str(" ");
                text.str(what);
                text.str(" are reached, each once and without a gap; ");
                if let Some(compact) = place.would() {
                    text.keep(40);
                    text.layout(&compact);
                    text.give_rest();
                    text.str(", or ");
                }
                text.str("a compact layout of any order would work");
            }
            Self::Sizes { left, right } => {
                text.str("the sizes ");
                text.int(left);
                text.str(" and ");
                text.int(right);
                text.str(" differ; the shape must have the size ");
                text.int(left);
            }
            Self::Said { text: said, .. } => text.str(said),
            Self::Parse { expected } => {
                text.str("expected ");
                text.str(expected);
            }
        }
    }
}
