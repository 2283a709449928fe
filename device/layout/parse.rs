//! Parsing of the notation of layouts: tuples, layouts, tilers, swizzles and composed layouts.
//!
//! This is its only parser. `moye eval`, `moye draw` and the Python package use it for the literals
//! in their expressions ([`Notation::parse_prefix`]).

use core::str::FromStr;

use super::composed::ComposedLayout;
use super::error::LayoutError;
use super::int_tuple::IntTuple;
use super::layout::Layout;
use super::reader::Reader;
use super::swizzle::Swizzle;
use super::tiler::Tiler;

impl Layout {
    /// The layout that `text` describes: `(4,(2,2)):(2,(1,8))`, or only a shape for the compact
    /// column-major layout. Spaces are ignored, a trailing comma is allowed, and integers may be
    /// written as CuTe prints static ones (`_4`).
    ///
    /// # Errors
    /// If the text is not a layout: the error names the column and what was expected there. If
    /// shape and stride do not form a layout: the column of the extent, the stride or the tuple
    /// that does not fit.
    pub const fn parse(text: &str) -> Result<Self, LayoutError> {
        let mut reader = Reader::new(text);
        match reader.whole_layout() {
            Ok(layout) => Ok(layout),
            Err(fault) => Err(reader.error("layout", fault)),
        }
    }
}

impl IntTuple {
    /// The tuple that `text` describes: `5`, `(4,(2,2))`, `(_,1@0)`.
    ///
    /// # Errors
    /// If the text is not a tuple: the error names the column and what was expected there.
    pub const fn parse(text: &str) -> Result<Self, LayoutError> {
        let mut reader = Reader::new(text);
        match reader.whole_tuple() {
            Ok(tuple) => Ok(tuple),
            Err(fault) => Err(reader.error("tuple", fault)),
        }
    }

    /// The tuple at the start of `text`, and its length in bytes: for languages with tuples as
    /// literals.
    ///
    /// ```
    /// use moye_device::layout::{IntTuple, tuple};
    /// assert_eq!(IntTuple::parse_prefix("(4, 1@0):2"), Ok((tuple!((4, 1@0)), 8)));
    /// assert_eq!(IntTuple::parse_prefix("(4, x)").unwrap_err().column(), Some(5));
    /// ```
    ///
    /// # Errors
    /// Same as [`parse`](Self::parse).
    pub const fn parse_prefix(text: &str) -> Result<(Self, usize), LayoutError> {
        let mut reader = Reader::new(text);
        match reader.read() {
            Ok(read) => Ok((*read.tuple(), reader.at())),
            Err(fault) => Err(reader.error("tuple", fault)),
        }
    }
}

impl Tiler {
    /// The tiler that `text` describes: a layout with its strides (`(2,4):(1,8)`), an integer `n`
    /// for `n:1`, `_`, or a tuple of tilers (`(4:2,_,(64,32))`). A tuple without strides is a tiler
    /// by mode, not a layout.
    ///
    /// ```
    /// use moye_device::layout::{Tiler, tiler};
    /// assert_eq!("(3:4, 8)".parse(), Ok(tiler!((3:4, 8:1))));
    /// assert!(Tiler::parse("(3:4, 8").unwrap_err().text().contains("column 8: expected `,` or `)`"));
    /// ```
    ///
    /// # Errors
    /// If the text is not a tiler: the error names the column and what was expected there.
    pub const fn parse(text: &str) -> Result<Self, LayoutError> {
        let mut reader = Reader::new(text);
        match reader.whole_tiler() {
            Ok(tiler) => Ok(tiler),
            Err(fault) => Err(reader.error("tiler", fault)),
        }
    }
}

impl Swizzle {
    /// The swizzle that `text` describes, as CuTe prints it: `Sw<3,4,3>`, in Python `S<3,4,3>`.
    /// `Swizzle<3,4,3>` is also accepted, and parentheses instead of angle brackets.
    ///
    /// ```
    /// use moye_device::layout::Swizzle;
    /// assert_eq!("Sw<3,4,3>".parse(), Ok(Swizzle::new(3, 4, 3)));
    /// assert_eq!("Swizzle(3, 4, 3)".parse(), Ok(Swizzle::new(3, 4, 3)));
    /// ```
    ///
    /// # Errors
    /// If the text is not a swizzle, or its integers are invalid (see [`try_new`](Self::try_new)):
    /// the error names the column.
    pub const fn parse(text: &str) -> Result<Self, LayoutError> {
        let mut reader = Reader::new(text);
        match reader.whole_swizzle() {
            Ok(swizzle) => Ok(swizzle),
            Err(fault) => Err(reader.error("swizzle", fault)),
        }
    }
}

impl ComposedLayout {
    /// The composed layout that `text` describes, as CuTe prints it:
    /// `Sw<3,4,3> o 0 o (8,64):(64,1)`. The layout may be only a shape, as for [`Layout::parse`],
    /// and an offset of 0 may be omitted before a layout with its stride.
    ///
    /// ```
    /// use moye_device::layout::{ComposedLayout, Swizzle, layout};
    /// let smem = ComposedLayout::new(Swizzle::new(3, 4, 3), 0, layout!((8, 64):(64, 1)));
    /// assert_eq!("Sw<3,4,3> o 0 o (8,64):(64,1)".parse(), Ok(smem));
    /// ```
    ///
    /// # Errors
    /// If the text is not a composed layout, or an index would be negative (see
    /// [`try_new`](Self::try_new)): the error names the column.
    pub const fn parse(text: &str) -> Result<Self, LayoutError> {
        let mut reader = Reader::new(text);
        match reader.whole_composed() {
            Ok(composed) => Ok(composed),
            Err(fault) => Err(reader.error("composed layout", fault)),
        }
    }
}

/// A literal, as [`parse_prefix`](Self::parse_prefix) reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// It is destructured at once, and there is no heap.
#[allow(clippy::large_enum_variant)]
pub enum Notation {
    /// An integer, a shape, a stride or a coordinate, with wildcards.
    Tuple(IntTuple),
    /// A layout with its stride.
    Layout(Layout),
    /// A swizzle.
    Swizzle(Swizzle),
    /// A swizzle, an offset and a layout.
    Composed(ComposedLayout),
}

impl Notation {
    /// The longest literal at the start of `text`, and its length in bytes: for languages with
    /// layouts as literals.
    ///
    /// ```
    /// use moye_device::layout::{Notation, layout, tuple};
    /// assert_eq!(Notation::parse_prefix("4:2(3)"), Ok((Notation::Layout(layout!(4:2)), 3)));
    /// assert_eq!(Notation::parse_prefix("(4, 1@0):x"), Ok((Notation::Tuple(tuple!((4, 1@0))), 8)));
    /// assert_eq!(Notation::parse_prefix("(4,0):(1,4)").unwrap_err().column(), Some(4));
    /// ```
    ///
    /// # Errors
    /// If the text begins with no literal, or with a shape and a stride, or a swizzle and a layout,
    /// that do not fit: the error names the column.
    pub const fn parse_prefix(text: &str) -> Result<(Self, usize), LayoutError> {
        let mut reader = Reader::new(text);
        match reader.notation() {
            Ok(value) => Ok((value, reader.at())),
            Err(fault) => Err(reader.error("layout", fault)),
        }
    }
}

macro_rules! from_str {
    ($($name:ident)+) => {$(
        impl FromStr for $name {
            type Err = LayoutError;

            fn from_str(text: &str) -> Result<Self, LayoutError> {
                Self::parse(text)
            }
        }
    )+};
}

from_str!(IntTuple Layout Tiler Swizzle ComposedLayout);
