//! What goes wrong in the functions of the algebra. The words for it are in `fault_text`.

use super::error::LayoutErrorKind;

/// What went wrong, as the inner functions report it: small, and without the operands, which the
/// operation adds.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// More leaves or nodes than a value holds.
    Capacity,
    /// A product or sum beyond 64 bits.
    Overflow,
    /// `left` times `right` is beyond 64 bits.
    TooLarge { what: &'static str, left: i64, by: &'static str, right: i64 },
    /// A basis vector or a wildcard where an integer is needed.
    NotAnInt,
    /// A tuple where an integer is needed.
    NotALeaf,
    /// A mode that is not there.
    NoMode { index: usize, rank: usize },
    /// Modes `begin..end` that are not there.
    NoRange { begin: usize, end: usize, rank: usize },
    /// An extent below 1.
    Extent { extent: i64 },
    /// A number that must be at least `least`.
    Least { what: &'static str, value: i64, least: i64 },
    /// Shape and stride, or two tuples, that nest differently.
    Incongruent { what: &'static str },
    /// Two ranks that must be equal.
    Ranks { left: usize, right: usize },
    /// A coordinate, an order or another guide with a tuple where the shape has an integer.
    TupleForInt { what: &'static str, modes: usize },
    /// A coordinate of another rank than the layout.
    CoordinateRank { given: usize, rank: usize },
    /// An integer of a coordinate, the last one or another, that is not within the extent.
    Coordinate { value: i64, extent: i64, last: bool },
    /// The number of a basis vector that there is not.
    BasisRange { basis: usize },
    /// A leaf that is not there.
    NoLeaf { index: usize, leaves: usize },
    /// More indices of a basis vector than it holds.
    BasisDepth,
    /// A basis vector without an index.
    NoPath,
    /// A stride along a basis vector beyond the `parts` of the requested coordinate.
    CoordinateBasis { basis: usize, parts: usize },
    /// A stride, an integer or along a place within a part of a coordinate, where a flat coordinate
    /// is requested.
    NotFlat { stride: i64, basis: u32 },
    /// Strides with their bases of which one makes a place of the coordinate an integer and the
    /// other a tuple.
    BothKinds { whole: (i64, u32), within: (i64, u32) },
    /// A tile whose mode is the wildcard.
    OpenTile { mode: usize },
    /// A stride that no digit of an index belongs to: it is no multiple of the next smaller one.
    NotNested { stride: i64, smaller: i64 },
    /// A recast: a negative stride within an element of `count`.
    Backwards { stride: i64, count: i64 },
    /// A recast: the offsets within an element of `count` sum to `reach`, beyond it.
    Straddles { reach: i64, count: i64 },
    /// A tiler, profile or coordinate with more modes than what it is applied to.
    TooManyModes { what: &'static str, modes: usize, rank: usize },
    /// Composition: stepping by `stride`, which is `along` in units of mode `mode`, fits no layout.
    /// `values` are the first `known` values of the function.
    Stride { stride: i64, along: i64, mode: usize, extent: i64, count: i64, values: [i64; 4], known: usize },
    /// Composition: `count` elements cannot be split into whole runs of `run`.
    Run { count: i64, run: i64, mode: usize, extent: i64, values: [i64; 4], known: usize },
    /// Composition: the steps carry. The caller finds out where and why.
    Unfit,
    /// Composition: the steps of several modes sum to `reach` in mode `mode` of the first layout.
    Carry { mode: usize, extent: i64, reach: i64 },
    /// Composition: steps of `stride` carry, and together with the other modes' steps they differ
    /// from separate steps.
    Beside { stride: i64 },
    /// Composition with a negative stride through several modes.
    NegativeStride { stride: i64 },
    /// Composition: a step along different basis vectors, which one stride cannot hold.
    Across { left: u32, right: u32, step: i64 },
    /// Integer strides beside strides along basis vectors.
    MixedBasis,
    /// A stride along a basis vector where integers are needed.
    HasBasis,
    /// A basis vector beyond the modes of the layout that it selects from: its index `level`, in a
    /// mode of `rank`.
    NoBasisMode { basis: u32, level: usize, rank: usize },
    /// A layout that must be injective maps two coordinates to one index: the mode of stride
    /// `stride` starts inside what the modes before it reach.
    Overlap { stride: i64, reach: i64 },
    /// A complement or an inverse of a layout with the mode `extent:stride`, whose stride is
    /// negative.
    Downwards { extent: i64, stride: i64 },
    /// A tile with a gap that its copies do not fill: `stride` is no multiple of the `reach` of
    /// smaller strides.
    Gap { stride: i64, reach: i64 },
    /// A complement, of a layout with such a gap, that ends at `end`.
    LeftOut { stride: i64, reach: i64, end: i64, cotarget: i64 },
    /// Neither of two numbers divides the other.
    Indivisible { what: &'static str, left: i64, right: i64 },
    /// `left` is no multiple of `right`.
    NotAMultiple { what: &'static str, left: i64, right: i64 },
    /// A swizzle that takes bits from `base` up which elements `count` times as large do not have,
    /// and changes others.
    HiddenBits { base: i64, count: i64 },
    /// Two swizzles of different shifts, one after the other.
    Shifts { second: i64, first: i64 },
    /// Two swizzles, of which the first changes bits that the second takes.
    TakenTwice { changed: i64, taken: i64 },
    /// The bits that a swizzle would take and change are not side by side.
    BitsApart { source: i64, target: i64 },
    /// A swizzle takes the bit `source` of an index, and a layout that leaves it out keeps the bit
    /// `target`, which the swizzle changes.
    LostBit { source: i64, target: i64 },
    /// An index below `size` that the swizzle takes to `index`, beyond it.
    Leaves { size: i64, index: i64 },
    /// An offset and what is added to it reach `reach` along mode `mode` of the layout that
    /// follows, beyond its extent.
    OffsetCarry { offset: i64, mode: usize, extent: i64, reach: i64 },
    /// An offset in a layout that is to be inverted.
    OffsetInverse { offset: i64 },
    /// A layout that reaches, without a gap, fewer elements than are needed.
    Short { what: &'static str, size: i64, want: i64 },
    /// Two sizes that must be equal.
    Sizes { left: i64, right: i64 },
    /// Something said in full.
    Said { kind: LayoutErrorKind, text: &'static str },
    /// Text that does not parse: what was expected, where [`LayoutError::at_column`] says.
    Parse { expected: &'static str },
}

impl Fault {
    pub const fn kind(&self) -> LayoutErrorKind {
        match self {
            Self::Capacity | Self::BasisDepth => LayoutErrorKind::Capacity,
            Self::Overflow | Self::TooLarge { .. } => LayoutErrorKind::Overflow,
            Self::NotAnInt
            | Self::NotALeaf
            | Self::Incongruent { .. }
            | Self::Ranks { .. }
            | Self::TooManyModes { .. }
            | Self::MixedBasis
            | Self::Across { .. }
            | Self::HasBasis
            | Self::TupleForInt { .. }
            | Self::CoordinateRank { .. }
            | Self::CoordinateBasis { .. }
            | Self::NotFlat { .. }
            | Self::BothKinds { .. }
            | Self::OpenTile { .. }
            | Self::NoBasisMode { .. } => LayoutErrorKind::Profile,
            Self::NoMode { .. }
            | Self::NoRange { .. }
            | Self::NoLeaf { .. }
            | Self::BasisRange { .. }
            | Self::NoPath
            | Self::Coordinate { .. }
            | Self::Extent { .. }
            | Self::Downwards { .. }
            | Self::Least { .. } => LayoutErrorKind::Range,
            Self::Stride { .. }
            | Self::Run { .. }
            | Self::Unfit
            | Self::Carry { .. }
            | Self::Beside { .. }
            | Self::NegativeStride { .. }
            | Self::Indivisible { .. }
            | Self::NotAMultiple { .. }
            | Self::Sizes { .. }
            | Self::HiddenBits { .. }
            | Self::NotNested { .. }
            | Self::Backwards { .. }
            | Self::Straddles { .. }
            | Self::Gap { .. }
            | Self::LeftOut { .. }
            | Self::Shifts { .. }
            | Self::TakenTwice { .. }
            | Self::BitsApart { .. }
            | Self::LostBit { .. }
            | Self::Leaves { .. }
            | Self::OffsetCarry { .. }
            | Self::OffsetInverse { .. }
            | Self::Short { .. } => LayoutErrorKind::Divisibility,
            Self::Overlap { .. } => LayoutErrorKind::NotInjective,
            Self::Said { kind, .. } => *kind,
            // The column is not known here.
            Self::Parse { .. } => LayoutErrorKind::Parse { column: 0 },
        }
    }
}
