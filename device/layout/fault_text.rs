//! The words for what goes wrong.

use super::basis::{NO_BASIS, depth, outermost};
use super::fault::Fault;
use super::numbers::values_of;
use super::place::Place;
use super::text::Text;

/// Writes literals and, by the method of [`Text`] that each is wrapped in, values.
macro_rules! say {
    (@ $text:ident) => {};
    ($text:ident $(, $($rest:tt)+)?) => {
        $(say!(@ $text $($rest)+);)?
    };
    (@ $text:ident $literal:literal $(, $($rest:tt)*)?) => {
        $text.str($literal);
        $(say!(@ $text $($rest)*);)?
    };
    (@ $text:ident $method:ident($($value:expr),+) $(, $($rest:tt)*)?) => {
        $text.$method($($value),+);
        $(say!(@ $text $($rest)*);)?
    };
}

/// "basis vector 1", "basis vector 0@1", "none (an integer)".
const fn along<const N: usize>(text: &mut Text<N>, basis: u32) {
    if basis == NO_BASIS {
        say!(text, "none (an integer)");
    } else {
        say!(text, "basis vector ", basis(basis));
    }
}

/// The rule of strides that a complement or an inverse can go through.
const NESTED: &str = "each stride must be a multiple of what those before it reach";

impl Fault {
    /// Writes what went wrong at `place`, which is written before it.
    pub const fn write<const N: usize>(&self, text: &mut Text<N>, place: &Place) {
        match *self {
            Self::Capacity => {
                say!(
                    text, "the result has more than ", int(super::MAX_LEAVES as i64),
                    " integers, or more than ", int(super::MAX_NODES as i64),
                    " integers and tuples together, which is what a value holds; coalesce the ",
                    "operands first",
                );
            }
            Self::TooLarge { what, left, by, right } => {
                say!(
                    text, str(what), " ", int(left), " times ", str(by), " ", int(right),
                    " does not fit in 64 bits; the size and the magnitude of every index must ",
                    "be below 2^63",
                );
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
                say!(text, "there is no mode ", size(index), "; the rank is ", int(rank as i64));
            }
            Self::NoRange { begin, end, rank } => {
                say!(
                    text, "there are no modes ", size(begin), "..", size(end),
                    "; a range begins at or before its end, which is at most the rank, ",
                    int(rank as i64),
                );
            }
            Self::Extent { extent } => {
                say!(
                    text, "the extent ", int(extent),
                    " is below 1; a layout's extents are at least 1",
                );
            }
            Self::Least { what, value, least } => {
                say!(
                    text, "the ", str(what), " is ", int(value), "; it must be at least ",
                    int(least),
                );
            }
            Self::Incongruent { what } => {
                say!(text, str(what), " nest differently");
                place.write_difference(text);
                say!(text, "; they need a tuple for each tuple and an integer for each integer");
            }
            Self::Ranks { left, right } => {
                say!(
                    text, "the ranks ", int(left as i64), " and ", int(right as i64),
                    " differ; they must be the same",
                );
            }
            Self::TupleForInt { what, modes } => {
                say!(
                    text, "the ", str(what), " has a tuple of ", int(modes as i64),
                    " for an integer extent, which takes an integer",
                );
            }
            Self::CoordinateRank { given, rank } => {
                say!(
                    text, "the coordinate has ", int(given as i64), " elements for a rank of ",
                    int(rank as i64), "; it has one for each mode, or is an integer for the whole",
                );
            }
            Self::TooManyModes { what, modes, rank } => {
                say!(
                    text, "the ", str(what), " has ", int(modes as i64), " modes for a rank of ",
                    int(rank as i64), "; it has at most one for each mode",
                );
            }
            Self::Stride { stride, along, mode, extent, count, values, known } => {
                say!(text, "the stride ", int(stride));
                if along != stride {
                    say!(text, ", which is ", int(along), " along mode ", int(mode as i64), ",");
                }
                say!(text, " neither divides nor is divided by the extent ", int(extent), " of");
                place.write_mode(text, mode);
                values_of(text, &values, known, count);
            }
            Self::Unfit => text.str("the steps fit no layout"),
            Self::Run { count, run, mode, extent, values, known } => {
                say!(
                    text, "the extent ", int(count), " is no multiple of ", int(run),
                    ", the number of steps that stay within the extent ", int(extent), " of",
                );
                place.write_mode(text, mode);
                values_of(text, &values, known, count);
            }
            Self::Carry { mode, extent, reach } => {
                say!(
                    text, "the modes of ", str(place.steps()), " sum to ", int(reach), " along",
                );
                place.write_mode(text, mode);
                if place.is_in_first() {
                    say!(text, " of the first");
                }
                say!(
                    text, ", whose extent is ", int(extent),
                    ", so that a mode alone does not step as it does beside the others; the ",
                    "steps of all modes together must stay below the extent",
                );
            }
            Self::Beside { stride } => {
                say!(
                    text, "the steps of stride ", int(stride),
                    " carry from one mode into the next, so that they do not step beside the ",
                    "other modes of ", str(place.steps()),
                    " as they do alone; the steps of all modes together must stay within each ",
                    "mode of the first",
                );
            }
            Self::NegativeStride { stride } => {
                say!(
                    text, "the stride ", int(stride),
                    " runs backwards through a layout of several modes, which leaves its ",
                    "domain; reverse the first layout's strides instead",
                );
            }
            Self::MixedBasis => text.str(
                "strides along basis vectors (such as 1@0) and integer strides do not give one index",
            ),
            Self::Across { left, right, step } => {
                say!(text, "a step of ", int(step), " goes along ");
                along(text, left);
                say!(text, " and ");
                along(text, right);
                say!(text, " at once, which one stride cannot hold; a tile stays within a mode");
            }
            Self::HasBasis => text.str(
                "strides along basis vectors (such as 1@0) have no place here; take `along(k)` for the integer layout of \
                 coordinate k, with the strides along k, and 0 for the others",
            ),
            Self::NoBasisMode { basis, level, rank } => {
                say!(
                    text, "a stride along basis vector ", basis(basis),
                    " selects a mode that is not there; the rank ",
                );
                if level > 0 {
                    say!(text, "of mode ", mode_before(basis, level), " ");
                }
                say!(
                    text, "is ", int(rank as i64),
                    str(if level > 0 { ", and an index is below it" } else { ", and a basis vector is below it" }),
                );
            }
            Self::Coordinate { value, extent, last } => {
                say!(text, int(value), " is not within the extent ", int(extent));
                if last {
                    say!(text, "; it is at least 0");
                } else {
                    say!(text, "; it is 0 to ", int(extent - 1));
                }
            }
            Self::BasisRange { basis } => {
                if basis == usize::MAX {
                    say!(text, "there is no basis vector below 0");
                } else {
                    say!(text, "there is no basis vector ", size(basis));
                }
                say!(text, "; their numbers are 0 to ", int(super::MAX_BASIS as i64 - 1));
            }
            Self::BasisDepth => {
                say!(
                    text, "a coordinate would nest deeper than ",
                    int(super::MAX_BASIS_DEPTH as i64),
                    " tuples, which is what a basis vector holds; flatten what nests deeper",
                );
            }
            Self::NoPath => text.str("a basis vector has at least one index"),
            Self::NoLeaf { index, leaves } => {
                say!(text, "there is no leaf ", size(index), "; there are ", int(leaves as i64));
            }
            Self::CoordinateBasis { basis, parts } => {
                say!(
                    text, "a stride is along basis vector ", size(basis), ", and only the first ",
                    size(parts), " are requested; request at least ", size(basis + 1),
                );
            }
            Self::NotFlat { stride, basis: NO_BASIS } => {
                say!(
                    text, "the stride ", int(stride),
                    " is an integer, along no basis vector; `at` gives the layout's index",
                );
            }
            Self::NotFlat { stride, basis } => {
                say!(
                    text, "the stride ", scaled(stride, basis), " is within element ",
                    size(outermost(basis)),
                    " of the coordinate, which is a tuple; `coordinate_of` gives nested ",
                    "coordinates, and `along(", size(outermost(basis)),
                    ")` the layout of that element",
                );
            }
            Self::BothKinds { whole, within } => {
                say!(
                    text, "the strides ", scaled(whole.0, whole.1), " and ",
                    scaled(within.0, within.1), " make ",
                );
                if whole.1 != NO_BASIS {
                    say!(text, "element ", mode_before(whole.1, depth(whole.1)), " of ");
                }
                say!(
                    text,
                    "the coordinate both an integer and a tuple; it must be one or the other, ",
                    "for all strides along it",
                );
            }
            Self::OpenTile { mode } => {
                say!(
                    text, "the wildcard of mode ", int(mode as i64),
                    " leaves the extent of a tile open; a tile has an extent or a layout",
                );
            }
            Self::NotNested { stride, smaller } => {
                say!(
                    text, "the stride ", int(stride),
                    " is no multiple of the next smaller stride ", int(smaller),
                    ", so that no digit of an index is a coordinate; ", str(NESTED),
                );
            }
            Self::Backwards { stride, count } => {
                say!(
                    text, "the stride ", int(stride),
                    " runs backwards through the parts of an element of ", int(count),
                    "; strides within an element must be positive",
                );
            }
            Self::Straddles { reach, count } => {
                say!(
                    text, "the strides below ", int(count), " sum to ", int(reach),
                    " within an element of ", int(count),
                    ", so that a group begins in one element and ends in the next; together ",
                    "they must stay below ", int(count),
                );
            }
            Self::Overlap { stride, reach } => {
                say!(
                    text, "the mode of stride ", int(stride),
                    " overlaps the modes of smaller stride, which reach to ", int(reach), "; ",
                    str(NESTED),
                );
            }
            Self::Downwards { extent, stride } => {
                say!(
                    text, "the mode ", int(extent), ":", int(stride),
                    " (modes coalesced) runs down to ", int(stride * (extent - 1)),
                    ", and complements and inverses count from 0 upwards; strides must be positive",
                );
            }
            Self::Gap { stride, reach } => {
                say!(
                    text, "the tile's stride ", int(stride), " is no multiple of ", int(reach),
                    ", what its modes of smaller stride reach, so that the end of each gap ",
                    "would be in no tile; ", str(NESTED),
                );
            }
            Self::LeftOut { stride, reach, end, cotarget } => {
                say!(
                    text, "the stride ", int(stride), " is no multiple of ", int(reach),
                    ", what the modes of smaller stride reach, so that no copies of the layout ",
                    "that do not meet reach ",
                );
                // Up to here whole copies fill the gap.
                say!(
                    text, int(stride - stride % reach), ", and they end at ", int(end), ", below ",
                    int(cotarget), "; ", str(NESTED),
                );
            }
            Self::Indivisible { what, left, right } => {
                say!(
                    text, "the ", str(what), " ", int(left), " neither divides nor is divided by ",
                    int(right),
                );
            }
            Self::NotAMultiple { what, left, right } => {
                say!(text, "the ", str(what), " ", int(left), " is no multiple of ", int(right));
            }
            Self::HiddenBits { base, count } => {
                say!(
                    text, "the swizzle takes bits from place ", int(base),
                    " up, some of which are within one element of ", int(count),
                    ", and changes bits that are not; the count must be at most ", int(1 << base),
                );
            }
            Self::Shifts { second, first } => {
                say!(
                    text, "the shifts ", int(second), " and ", int(first),
                    " differ, and no single swizzle does both",
                );
            }
            Self::TakenTwice { changed, taken } => {
                say!(
                    text, "the first changes the bits ", int(changed),
                    " of an index, and the second takes ", int(taken),
                    " of it, which no single swizzle does; the groups of bits must have none in ",
                    "common",
                );
            }
            Self::BitsApart { source, target } => {
                say!(
                    text, "bits ", int(source), " of an index would be taken to change its bits ",
                    int(target),
                    ", which are not two groups side by side in the same order, as a swizzle ",
                    "has them; applied one after the other (`apply`, `at`), the operands need ",
                    "no single swizzle",
                );
            }
            Self::LostBit { source, target } => {
                say!(
                    text, "the swizzle takes the bit ", int(source),
                    " of an index, which the first layout leaves out, and changes the bit ",
                    int(target), ", which it keeps; it must keep both or neither",
                );
            }
            Self::Leaves { size, index } => {
                say!(
                    text, "the swizzle takes an index below the size ", int(size), " to ",
                    int(index),
                    ", beyond it; the size must be a multiple of the block that the swizzle ",
                    "permutes",
                );
            }
            Self::OffsetCarry { offset, mode, extent, reach } => {
                say!(
                    text, "the offset ", int(offset), " and what is added to it reach ",
                    int(reach), " along mode ", int(mode as i64),
                    " (modes coalesced) of the first layout, whose extent is ", int(extent),
                    ", so that the offset cannot be moved past the layout",
                );
            }
            Self::OffsetInverse { offset } => {
                say!(
                    text, "the offset ", int(offset),
                    " would have to be taken away from an index before the layout is inverted, ",
                    "and no swizzle o offset o layout does that; invert with the offset 0, and ",
                    "add the offset to what is asked",
                );
            }
            Self::Short { what, size, want } => {
                say!(
                    text, "only ", int(size), " of ", int(want), " ", str(what),
                    " are reached; each must be reached once, without a gap, as by a compact layout",
                );
            }
            Self::Sizes { left, right } => {
                say!(
                    text, "the sizes ", int(left), " and ", int(right),
                    " differ; the shape must have the size ", int(left),
                );
            }
            Self::Said { text: said, .. } => text.str(said),
            Self::Parse { expected } => {
                say!(text, "expected ", str(expected));
            }
        }
    }
}
