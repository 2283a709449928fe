//! The faults of the functions of the algebra: for each its kind, its values, and the sentence with
//! these values, which ends with the rule.
//!
//! The functions return a fault, which is small and has no operands. A higher module, which they do
//! not import, adds the operands, the mode and the advice.

use super::{MAX_BASIS, MAX_BASIS_DEPTH, MAX_LEAVES, MAX_NODES};

/// `?` for constant evaluation.
macro_rules! tri {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Err(error),
        }
    };
}
pub(crate) use tri;

/// The kind of a [`LayoutError`](super::LayoutError), for code that handles some kinds separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayoutErrorKind {
    /// The result needs more integers or nodes than a value holds.
    Capacity,
    /// A size or an offset does not fit in 64 bits.
    Overflow,
    /// An operand has the wrong rank, nesting, or kind of leaf.
    Profile,
    /// An extent, an index or another integer is out of its range.
    Range,
    /// Extents and strides do not fit each other: no layout has the requested function.
    Divisibility,
    /// A layout must be injective but maps two coordinates to one index.
    NotInjective,
    /// Text that is not a layout or a tuple.
    Parse {
        /// The column of the offending character, counted from 1.
        column: usize,
    },
}

/// The values of a sentence, each with the type of its numbers.
macro_rules! values {
    ($($(#[$doc:meta])* $name:ident = $ty:ty;)+) => {
        $(type $name = $ty;)+

        #[derive(Clone, Copy)]
        pub(crate) enum Value {
            $($(#[$doc])* $name($name),)+
        }
    };
}

values! {
    Int = i64;
    Size = usize;
    Word = &'static str;
    /// A stride, and the same in units of the mode that it does not fit.
    Step = (i64, i64);
    /// A stride, possibly along a basis vector.
    Stride = (i64, u32);
    /// A basis vector, or none.
    Basis = u32;
    /// A mode of an operand whose modes are coalesced.
    Mode = usize;
}

/// A sentence and its values, with the names in its braces.
pub(crate) type Sentence = (&'static str, [(&'static str, Value); 4]);

const fn sentence(text: &'static str, given: &[(&'static str, Value)]) -> Sentence {
    let mut values = [("", Value::Word("")); 4];
    values.split_at_mut(given.len()).0.copy_from_slice(given);
    (text, values)
}

/// The text before the first name in braces, then the name and the text after it, if there is one.
pub(crate) const fn next_name(text: &str) -> (&str, Option<(&str, &str)>) {
    let (literal, rest) = until(text, b'{');
    if rest.is_empty() {
        return (literal, None);
    }
    let (name, rest) = until(rest.split_at(1).1, b'}');
    (literal, Some((name, rest.split_at(1).1)))
}

/// The text before the first `byte`, and the text after it.
const fn until(text: &str, byte: u8) -> (&str, &str) {
    let mut end = 0;
    while end < text.len() && text.as_bytes()[end] != byte {
        end += 1;
    }
    text.split_at(end)
}

/// Whether the texts are equal.
pub(crate) const fn is(a: &str, b: &str) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a.as_bytes()[i] == b.as_bytes()[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// Whether a sentence has each of `names` in braces, and no other name.
const fn has_names(text: &str, names: &[&str]) -> bool {
    let (mut rest, mut found) = (text, 0u32);
    while let (_, Some((name, after))) = next_name(rest) {
        let mut i = 0;
        while i < names.len() && !is(names[i], name) {
            i += 1;
        }
        if i == names.len() {
            return false;
        }
        found |= 1 << i;
        rest = after;
    }
    found.count_ones() as usize == names.len()
}

/// Declares the faults, kind by kind: `Name { number: Type, ... } = "the sentence"`.
macro_rules! faults {
    ($($kind:ident { $($name:ident $({ $($field:ident: $ty:ident),+ })? = $text:literal;)+ })+) => {
        #[derive(Clone, Copy)]
        pub(crate) enum Fault {
            $($(#[doc = $text] $name $({ $($field: $ty),+ })?,)+)+
            /// A sentence without numbers.
            Said { kind: LayoutErrorKind, text: &'static str },
            /// Text that does not parse, and what was expected.
            Parse { expected: &'static str },
        }

        // The compiler rejects a name that is not in the sentence, or only there.
        $($(const _: () = assert!(
            has_names($text, &[$($(stringify!($field)),+)?]),
            concat!("the sentence of `", stringify!($name), "` must name its numbers, and nothing else")
        );)+)+

        impl Fault {
            pub const fn kind(&self) -> LayoutErrorKind {
                match self {
                    $($(Self::$name { .. })|+ => LayoutErrorKind::$kind,)+
                    Self::Said { kind, .. } => *kind,
                    // The column is unknown here.
                    Self::Parse { .. } => LayoutErrorKind::Parse { column: 0 },
                }
            }

            pub const fn sentence(&self) -> Sentence {
                match *self {
                    $($(Self::$name $({ $($field),+ })? => {
                        sentence($text, &[$($((stringify!($field), Value::$ty($field))),+)?])
                    })+)+
                    Self::Said { text, .. } => sentence("{text}", &[("text", Value::Word(text))]),
                    Self::Parse { expected } => {
                        sentence("expected {expected}", &[("expected", Value::Word(expected))])
                    }
                }
            }
        }
    };
}

// Constants that the sentences state.
const _: () = assert!(MAX_LEAVES == 32 && MAX_NODES == 64 && MAX_BASIS == 64 && MAX_BASIS_DEPTH == 5);

faults! {
    Capacity {
        Capacity = "the result has more than 32 integers, or more than 64 integers and tuples together, \
            which is what a value holds; coalesce the operands first";
        BasisDepth = "a coordinate would nest deeper than 5 tuples, which is what a basis vector holds; \
            flatten what nests deeper";
    }
    Overflow {
        TooLarge { what: Word, left: Int, by: Word, right: Int } = "{what} {left} times {by} {right} does \
            not fit in 64 bits; the size and the magnitude of every index must be below 2^63";
        Overflow = "a size or an offset does not fit in 64 bits; the size and the magnitude of every index \
            must be below 2^63";
    }
    Profile {
        NotAnInt = "an integer is needed here, not `_`, a multiple of a basis vector, or a tuple";
        Incongruent { what: Word } = "{what} nest differently; they need a tuple for each tuple and an \
            integer for each integer";
        Ranks { left: Size, right: Size } = "the ranks {left} and {right} differ; they must be the same";
        TupleForInt { what: Word, modes: Size } = "the {what} has a tuple of {modes} for an integer extent, \
            which takes an integer";
        CoordinateRank { given: Size, rank: Size } = "the coordinate has {given} elements for a rank of \
            {rank}; it has one for each mode, or is an integer for the whole";
        TooManyModes { what: Word, modes: Size, rank: Size } = "the {what} has {modes} modes for a rank of \
            {rank}; it has at most one for each mode";
        OpenTile { mode: Size } = "the wildcard of mode {mode} leaves the extent of a tile open; a tile has \
            an extent or a layout";
        MixedBasis = "strides along basis vectors (such as 1@0) and integer strides do not give one index";
        HasBasis = "strides along basis vectors (such as 1@0) have no place here; take `along(k)` for the \
            integer layout of coordinate k";
        Across { left: Basis, right: Basis, step: Int } = "a step of {step} goes along {left} and {right} at \
            once, which one stride cannot hold; a tile stays within a mode";
        NoBasisMode { basis: Basis, rank: Size } = "a stride along {basis} selects a mode that is not there; \
            the rank there is {rank}, and an index is below it";
        CoordinateBasis { basis: Size, parts: Size, want: Size } = "a stride is along basis vector {basis}, \
            and only the first {parts} are requested; request at least {want}";
        NotFlat { stride: Stride } = "the stride {stride} is along no element of a flat coordinate; a basis \
            vector of one index, such as 1@0, is";
        BothKinds { whole: Stride, within: Stride } = "the strides {whole} and {within} make a coordinate \
            both an integer and a tuple; it must be one or the other, for all strides along it";
    }
    Range {
        NoMode { index: Size, rank: Size } = "there is no mode {index}; the rank is {rank}";
        NoRange { begin: Size, end: Size, rank: Size } = "there are no modes {begin}..{end}; a range begins \
            at or before its end, which is at most the rank, {rank}";
        NoLeaf { index: Size, leaves: Size } = "there is no leaf {index}; there are {leaves}";
        BasisRange { basis: Int } = "there is no basis vector {basis}; their numbers are 0 to 63";
        Extent { extent: Int } = "the extent {extent} is below 1; a layout's extents are at least 1";
        Least { what: Word, value: Int, least: Int } = "the {what} is {value}; it must be at least {least}";
        Coordinate { value: Int, extent: Int, most: Int } = "{value} is not within the extent {extent}; it \
            is 0 to {most}";
        Downwards { extent: Int, stride: Int, least: Int } = "the mode {extent}:{stride} (modes coalesced) \
            runs down to {least}, and indices are counted from 0 upwards; strides must be positive";
    }
    Divisibility {
        Indivisible { what: Word, left: Int, right: Int } = "the {what} {left} neither divides nor is \
            divided by {right}";
        NotAMultiple { what: Word, left: Int, right: Int } = "the {what} {left} is not a multiple of {right}";
        Sizes { left: Int, right: Int } = "the sizes {left} and {right} differ; the shape must have the size \
            {left}";
        Short { what: Word, size: Int, want: Int } = "only {size} of {want} {what} are reached; each must be \
            reached once, without a gap, as by a compact layout";
        // Compositions.
        Stride { stride: Step, extent: Int, mode: Mode } = "the stride {stride} neither divides nor is \
            divided by the extent {extent} of{mode}";
        Run { count: Int, run: Int, extent: Int, mode: Mode } = "the extent {count} is not a multiple of {run}, \
            the number of steps that stay within the extent {extent} of{mode}";
        Unfit = "the steps fit no layout";
        Carry { mode: Mode, extent: Int, reach: Int } = "the steps sum to {reach} along{mode}, whose extent \
            is {extent}; the steps of all modes together must stay below the extent";
        Beside { stride: Int } = "the steps of stride {stride} carry from one mode into the next; the steps \
            of all modes together must stay within each mode of the first layout";
        NegativeStride { stride: Int } = "the stride {stride} runs backwards through a layout of several \
            modes, which leaves its domain";
        // Complements and inverses.
        Gap { stride: Int, reach: Int } = "the tile's stride {stride} is not a multiple of {reach}, what its \
            modes of smaller stride reach; each stride must be a multiple of what those before it reach";
        LeftOut { stride: Int, reach: Int, end: Int, cotarget: Int } = "the stride {stride} is not a multiple \
            of {reach}, what the smaller strides reach, and copies of the layout end at {end}, below \
            {cotarget}; each stride must be a multiple of what those before it reach";
        NotNested { stride: Int, smaller: Int } = "the stride {stride} is not a multiple of the next smaller \
            stride {smaller}; each stride must be a multiple of what those before it reach";
        // Recasts.
        Backwards { stride: Int, count: Int } = "the stride {stride} runs backwards through the parts of an \
            element of {count}; strides within an element must be positive";
        Straddles { reach: Int, count: Int } = "the strides below {count} sum to {reach} within an element \
            of {count}; together they must stay below {count}";
        // Swizzles.
        HiddenBits { base: Int, count: Int } = "the swizzle takes bits from place {base} up, some of which \
            are within one element of {count}; the count must be at most 2^{base}";
        Shifts { second: Int, first: Int } = "the shifts {second} and {first} differ, and no single swizzle \
            does both";
        TakenTwice { changed: Int, taken: Int } = "the first changes the bits {changed} of an index, and the \
            second takes {taken} of it; the groups of bits must have none in common";
        BitsApart { source: Int, target: Int } = "bits {source} of an index would be taken to change its \
            bits {target}, which are not two groups side by side in the same order, as a swizzle has them";
        LostBit { source: Int, target: Int } = "the first layout leaves out the bit {source} of an index, \
            which the swizzle takes, and keeps the bit {target}, which it changes; it must keep both or \
            neither";
        Leaves { size: Int, index: Int } = "the swizzle takes an index below the size {size} to {index}, \
            beyond it; the size must be a multiple of the block that the swizzle permutes";
        OffsetCarry { offset: Int, reach: Int, mode: Mode, extent: Int } = "the offset {offset} and what is \
            added reach {reach} along{mode}, whose extent is {extent}: it cannot be moved past the layout";
        OffsetInverse { offset: Int } = "the offset {offset} would have to be taken away from an index \
            before the layout is inverted; invert with the offset 0";
    }
    NotInjective {
        Overlap { stride: Int, reach: Int } = "the mode of stride {stride} overlaps the modes of smaller \
            stride, which reach to {reach}; each stride must be a multiple of what those before it reach";
    }
}

#[cfg(test)]
mod tests {
    use super::has_names;

    #[test]
    fn a_sentence_has_all_its_numbers_and_no_other_name() {
        assert!(has_names("the ranks {left} and {right} differ", &["left", "right"]));
        assert!(has_names("{base} is at most 2^{base}", &["base"]) && has_names("without numbers", &[]));
        assert!(!has_names("the ranks {left} and {middle} differ", &["left", "right"]), "an unknown name");
        assert!(!has_names("the rank {left}", &["left", "right"]), "a number that it does not say");
        assert!(!has_names("the ranks {left} and {left} differ", &["left", "right"]), "a name twice");
    }
}
