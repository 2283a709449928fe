//! The sentence for each fault: the two numbers and the rule.

use super::super::basis::{NO_BASIS, depth, outermost};
use super::super::fault::Fault;
use super::super::text::Text;
use super::super::{MAX_BASIS, MAX_BASIS_DEPTH, MAX_LEAVES, MAX_NODES};
use super::Place;
use Value::{Along, Difference, Function, I, Mode, Path, S, Scaled, U};

/// A value in a sentence.
#[derive(Clone, Copy)]
enum Value<'a> {
    I(i64),
    U(usize),
    S(&'a str),
    /// "basis vector 0@1", "none (an integer)".
    Along(u32),
    /// A stride along a basis vector.
    Scaled(i64, u32),
    /// The mode that the first indices of a basis vector lead to.
    Path(u32, usize),
    /// The mode of this number at the place: " mode 0 (modes coalesced) of (4,6):(100,310)".
    Mode(usize),
    /// Where two tuples differ at the place: " at mode 1: 3 beside (1,2)".
    Difference,
    /// The first values of a function, the number of them that are known, and how many it has.
    Function(&'a [i64; 4], usize, i64),
}

/// The rule of strides that a complement or an inverse can go through.
const NESTED: &str = "each stride must be a multiple of what those before it reach";

/// Writes the template with the values in place of its `{}`.
const fn fill<const N: usize>(text: &mut Text<N>, place: &Place, template: &str, values: &[Value]) {
    let mut rest = template.as_bytes();
    let mut next = 0;
    loop {
        let mut end = 0;
        while end < rest.len() && rest[end] != b'{' {
            end += 1;
        }
        let (literal, behind) = rest.split_at(end);
        if let Ok(literal) = core::str::from_utf8(literal) {
            text.str(literal);
        }
        if behind.is_empty() {
            return;
        }
        write(text, place, values[next]);
        next += 1;
        (_, rest) = behind.split_at(2);
    }
}

const fn write<const N: usize>(text: &mut Text<N>, place: &Place, value: Value) {
    match value {
        I(value) => text.int(value),
        U(value) => text.size(value),
        S(value) => text.str(value),
        Along(NO_BASIS) => text.str("none (an integer)"),
        Along(basis) => {
            text.str("basis vector ");
            text.basis(basis);
        }
        Scaled(value, basis) => text.scaled(value, basis),
        Path(basis, levels) => text.mode_before(basis, levels),
        Mode(mode) => place.write_mode(text, mode),
        Difference => place.write_difference(text),
        Function(_, 0, _) => {}
        Function(values, known, count) => {
            text.str(", so that no layout has the function (");
            text.ints(values.split_at(known).0);
            text.str(if known as i64 == count { ")" } else { ", ...)" });
        }
    }
}

/// The sentence for each kind of fault, and the values in it.
macro_rules! sentences {
    ($text:ident, $place:ident, $fault:expr; $($pattern:pat $(if $guard:expr)? => $template:literal [$($value:expr),*];)+) => {
        match $fault {
            $($pattern $(if $guard)? => fill($text, $place, $template, &[$($value),*]),)+
        }
    };
}

impl Fault {
    /// Writes what went wrong at `place`, which is written before it.
    pub(super) const fn write<const N: usize>(&self, text: &mut Text<N>, place: &Place) {
        sentences! { text, place, *self;
            Fault::Capacity =>
                "the result has more than {} integers, or more than {} integers and tuples together, which is what a \
                value holds; coalesce the operands first" [U(MAX_LEAVES), U(MAX_NODES)];
            Fault::TooLarge { what, left, by, right } =>
                "{} {} times {} {} does not fit in 64 bits; the size and the magnitude of every index must be below \
                2^63" [S(what), I(left), S(by), I(right)];
            Fault::Overflow =>
                "a size or an offset does not fit in 64 bits; the size and the magnitude of every index must be \
                below 2^63" [];
            Fault::NotAnInt => "an integer is needed here, not `_`, a multiple of a basis vector, or a tuple" [];
            Fault::NotALeaf => "an integer is needed where there is a tuple" [];
            Fault::NoMode { index, rank } => "there is no mode {}; the rank is {}" [U(index), U(rank)];
            Fault::NoRange { begin, end, rank } =>
                "there are no modes {}..{}; a range begins at or before its end, which is at most the rank, {}"
                    [U(begin), U(end), U(rank)];
            Fault::Extent { extent } => "the extent {} is below 1; a layout's extents are at least 1" [I(extent)];
            Fault::Least { what, value, least } =>
                "the {} is {}; it must be at least {}" [S(what), I(value), I(least)];
            Fault::Incongruent { what } =>
                "{} nest differently{}; they need a tuple for each tuple and an integer for each integer"
                    [S(what), Difference];
            Fault::Ranks { left, right } => "the ranks {} and {} differ; they must be the same" [U(left), U(right)];
            Fault::TupleForInt { what, modes } =>
                "the {} has a tuple of {} for an integer extent, which takes an integer" [S(what), U(modes)];
            Fault::CoordinateRank { given, rank } =>
                "the coordinate has {} elements for a rank of {}; it has one for each mode, or is an integer for the \
                whole" [U(given), U(rank)];
            Fault::TooManyModes { what, modes, rank } =>
                "the {} has {} modes for a rank of {}; it has at most one for each mode" [S(what), U(modes), U(rank)];
            Fault::Stride { stride, along, mode, extent, count, values, known } if along == stride =>
                "the stride {} neither divides nor is divided by the extent {} of{}{}"
                    [I(stride), I(extent), Mode(mode), Function(&values, known, count)];
            Fault::Stride { stride, along, mode, extent, count, values, known } =>
                "the stride {}, which is {} along mode {}, neither divides nor is divided by the extent {} of{}{}"
                    [I(stride), I(along), U(mode), I(extent), Mode(mode), Function(&values, known, count)];
            Fault::Unfit => "the steps fit no layout" [];
            Fault::Run { count, run, mode, extent, values, known } =>
                "the extent {} is no multiple of {}, the number of steps that stay within the extent {} of{}{}"
                    [I(count), I(run), I(extent), Mode(mode), Function(&values, known, count)];
            Fault::Carry { mode, extent, reach } =>
                "the modes of {} sum to {} along{}{}, whose extent is {}, so that a mode alone does not step as it \
                does beside the others; the steps of all modes together must stay below the extent"
                    [S(place.steps), I(reach), Mode(mode), S(if place.within.is_none() { " of the first" } else { "" }), I(extent)];
            Fault::Beside { stride } =>
                "the steps of stride {} carry from one mode into the next, so that they do not step beside the other \
                modes of {} as they do alone; the steps of all modes together must stay within each mode of the first"
                    [I(stride), S(place.steps)];
            Fault::NegativeStride { stride } =>
                "the stride {} runs backwards through a layout of several modes, which leaves its domain" [I(stride)];
            Fault::MixedBasis =>
                "strides along basis vectors (such as 1@0) and integer strides do not give one index" [];
            Fault::Across { left, right, step } =>
                "a step of {} goes along {} and {} at once, which one stride cannot hold; a tile stays within a mode"
                    [I(step), Along(left), Along(right)];
            Fault::HasBasis =>
                "strides along basis vectors (such as 1@0) have no place here; take `along(k)` for the integer \
                layout of coordinate k" [];
            Fault::NoBasisMode { basis, level: 0, rank } =>
                "a stride along {} selects a mode that is not there; the rank is {}, and a basis vector is below it"
                    [Along(basis), U(rank)];
            Fault::NoBasisMode { basis, level, rank } =>
                "a stride along {} selects a mode that is not there; the rank of mode {} is {}, and an index is \
                below it" [Along(basis), Path(basis, level), U(rank)];
            Fault::Coordinate { value, extent, last: true } =>
                "{} is not within the extent {}; it is at least 0" [I(value), I(extent)];
            Fault::Coordinate { value, extent, last: false } =>
                "{} is not within the extent {}; it is 0 to {}" [I(value), I(extent), I(extent - 1)];
            Fault::BasisRange { basis: usize::MAX } =>
                "there is no basis vector below 0; their numbers are 0 to {}" [U(MAX_BASIS - 1)];
            Fault::BasisRange { basis } =>
                "there is no basis vector {}; their numbers are 0 to {}" [U(basis), U(MAX_BASIS - 1)];
            Fault::BasisDepth =>
                "a coordinate would nest deeper than {} tuples, which is what a basis vector holds; flatten what \
                nests deeper" [U(MAX_BASIS_DEPTH)];
            Fault::NoPath => "a basis vector has at least one index" [];
            Fault::NoLeaf { index, leaves } => "there is no leaf {}; there are {}" [U(index), U(leaves)];
            Fault::CoordinateBasis { basis, parts } =>
                "a stride is along basis vector {}, and only the first {} are requested; request at least {}"
                    [U(basis), U(parts), U(basis + 1)];
            Fault::NotFlat { stride, basis: NO_BASIS } =>
                "the stride {} is an integer, along no basis vector" [I(stride)];
            Fault::NotFlat { stride, basis } =>
                "the stride {} is within element {} of the coordinate, which is a tuple"
                    [Scaled(stride, basis), U(outermost(basis))];
            Fault::BothKinds { whole: (stride, NO_BASIS), within } =>
                "the strides {} and {} make the coordinate both an integer and a tuple; it must be one or the other, \
                for all strides along it" [I(stride), Scaled(within.0, within.1)];
            Fault::BothKinds { whole, within } =>
                "the strides {} and {} make element {} of the coordinate both an integer and a tuple; it must be one \
                or the other, for all strides along it"
                    [Scaled(whole.0, whole.1), Scaled(within.0, within.1), Path(whole.1, depth(whole.1))];
            Fault::OpenTile { mode } =>
                "the wildcard of mode {} leaves the extent of a tile open; a tile has an extent or a layout"
                    [U(mode)];
            Fault::NotNested { stride, smaller } =>
                "the stride {} is no multiple of the next smaller stride {}, so that no digit of an index is a \
                coordinate; {}" [I(stride), I(smaller), S(NESTED)];
            Fault::Backwards { stride, count } =>
                "the stride {} runs backwards through the parts of an element of {}; strides within an element must \
                be positive" [I(stride), I(count)];
            Fault::Straddles { reach, count } =>
                "the strides below {} sum to {} within an element of {}; together they must stay below {}"
                    [I(count), I(reach), I(count), I(count)];
            Fault::Overlap { stride, reach } =>
                "the mode of stride {} overlaps the modes of smaller stride, which reach to {}; {}"
                    [I(stride), I(reach), S(NESTED)];
            Fault::Downwards { extent, stride } =>
                "the mode {}:{} (modes coalesced) runs down to {}, and complements and inverses count from 0 \
                upwards; strides must be positive" [I(extent), I(stride), I(stride * (extent - 1))];
            Fault::Gap { stride, reach } =>
                "the tile's stride {} is no multiple of {}, what its modes of smaller stride reach; {}"
                    [I(stride), I(reach), S(NESTED)];
            // Up to a multiple of what they reach, whole copies fill the gap.
            Fault::LeftOut { stride, reach, end, cotarget } =>
                "the stride {} is no multiple of {}, what the modes of smaller stride reach, so that no copies of \
                the layout that do not meet reach {}, and they end at {}, below {}; {}"
                    [I(stride), I(reach), I(stride - stride % reach), I(end), I(cotarget), S(NESTED)];
            Fault::Indivisible { what, left, right } =>
                "the {} {} neither divides nor is divided by {}" [S(what), I(left), I(right)];
            Fault::NotAMultiple { what, left, right } =>
                "the {} {} is no multiple of {}" [S(what), I(left), I(right)];
            Fault::HiddenBits { base, count } =>
                "the swizzle takes bits from place {} up, some of which are within one element of {}; the count must \
                be at most {}" [I(base), I(count), I(1 << base)];
            Fault::Shifts { second, first } =>
                "the shifts {} and {} differ, and no single swizzle does both" [I(second), I(first)];
            Fault::TakenTwice { changed, taken } =>
                "the first changes the bits {} of an index, and the second takes {} of it; the groups of bits must \
                have none in common" [I(changed), I(taken)];
            Fault::BitsApart { source, target } =>
                "bits {} of an index would be taken to change its bits {}, which are not two groups side by side in \
                the same order, as a swizzle has them" [I(source), I(target)];
            Fault::LostBit { source, target } =>
                "the swizzle takes the bit {} of an index, which the first layout leaves out, and changes the bit \
                {}, which it keeps; it must keep both or neither" [I(source), I(target)];
            Fault::Leaves { size, index } =>
                "the swizzle takes an index below the size {} to {}, beyond it; the size must be a multiple of the \
                block that the swizzle permutes" [I(size), I(index)];
            Fault::OffsetCarry { offset, mode, extent, reach } =>
                "the offset {} and what is added to it reach {} along mode {} (modes coalesced) of the first layout, \
                whose extent is {}, so that the offset cannot be moved past the layout"
                    [I(offset), I(reach), U(mode), I(extent)];
            Fault::OffsetInverse { offset } =>
                "the offset {} would have to be taken away from an index before the layout is inverted; invert with \
                the offset 0" [I(offset)];
            Fault::Short { what, size, want } =>
                "only {} of {} {} are reached; each must be reached once, without a gap, as by a compact layout"
                    [I(size), I(want), S(what)];
            Fault::Sizes { left, right } =>
                "the sizes {} and {} differ; the shape must have the size {}" [I(left), I(right), I(left)];
            Fault::Said { text: said, .. } => "{}" [S(said)];
            Fault::Parse { expected } => "expected {}" [S(expected)];
        }
    }
}
