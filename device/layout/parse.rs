//! Layouts, tuples, tilers and swizzles from text.

use core::str::FromStr;

use super::composed::ComposedLayout;
use super::error::{Fault, LayoutError, tri};
use super::int_tuple::{ANY, IntTuple, MAX_BASIS, NO_BASIS, TupleBuilder};
use super::layout::{Layout, of_shape_and_stride};
use super::make;
use super::swizzle::Swizzle;
use super::text::Text;
use super::tiler::Tiler;

impl Layout {
    /// The layout that `text` describes: `(4,(2,2)):(2,(1,8))`, or a shape alone for the compact column-major one.
    /// Spaces are free, a trailing comma is allowed, integers may be written as CuTe prints static ones (`_4`).
    ///
    /// # Errors
    /// Where the text is no layout: the error names the column and what was expected there.
    pub const fn parse(text: &str) -> Result<Self, LayoutError> {
        let mut reader = Reader::new(text);
        match reader.layout() {
            Ok(layout) => Ok(layout),
            Err(fault) => Err(reader.error("layout", fault)),
        }
    }
}

impl IntTuple {
    /// The tuple that `text` describes: `5`, `(4,(2,2))`, `(_,1@0)`.
    ///
    /// # Errors
    /// Where the text is no tuple: the error names the column and what was expected there.
    pub const fn parse(text: &str) -> Result<Self, LayoutError> {
        let mut reader = Reader::new(text);
        match reader.whole_tuple() {
            Ok(tuple) => Ok(tuple),
            Err(fault) => Err(reader.error("tuple", fault)),
        }
    }
}

impl Tiler {
    /// The tiler that `text` describes: a layout with its strides (`(2,4):(1,8)`), an integer `n` for `n:1`, `_`, or a
    /// tuple of such (`(4:2,_,(64,32))`). A tuple is by mode; only its strides make it a layout.
    ///
    /// ```
    /// use moye_device::layout::{Tiler, tiler};
    /// assert_eq!("(3:4, 8)".parse(), Ok(tiler!((3:4, 8:1))));
    /// assert!(Tiler::parse("(3:4, 8").unwrap_err().text().contains("column 8: expected `,` or `)`"));
    /// ```
    ///
    /// # Errors
    /// Where the text is no tiler: the error names the column and what was expected there.
    pub const fn parse(text: &str) -> Result<Self, LayoutError> {
        let mut reader = Reader::new(text);
        match reader.whole_tiler() {
            Ok(tiler) => Ok(tiler),
            Err(fault) => Err(reader.error("tiler", fault)),
        }
    }
}

impl Swizzle {
    /// The swizzle that `text` describes, as CuTe prints it: `Sw<3,4,3>`.
    ///
    /// ```
    /// use moye_device::layout::Swizzle;
    /// assert_eq!("Sw<3,4,3>".parse(), Ok(Swizzle::new(3, 4, 3)));
    /// ```
    ///
    /// # Errors
    /// Where the text is no swizzle: the error names the column and what was expected there. Where the numbers make
    /// none: see [`try_new`](Self::try_new).
    pub const fn parse(text: &str) -> Result<Self, LayoutError> {
        let mut reader = Reader::new(text);
        match reader.whole_swizzle() {
            Ok(swizzle) => Ok(swizzle),
            Err(fault) => Err(reader.error("swizzle", fault)),
        }
    }
}

impl ComposedLayout {
    /// The composed layout that `text` describes, as CuTe prints it: `Sw<3,4,3> o 0 o (8,64):(64,1)`. The layout may be
    /// a shape alone, as for [`Layout::parse`].
    ///
    /// ```
    /// use moye_device::layout::{ComposedLayout, Swizzle, layout};
    /// let smem = ComposedLayout::new(Swizzle::new(3, 4, 3), 0, layout!((8, 64):(64, 1)));
    /// assert_eq!("Sw<3,4,3> o 0 o (8,64):(64,1)".parse(), Ok(smem));
    /// ```
    ///
    /// # Errors
    /// Where the text is no composed layout: the error names the column and what was expected there. Where an index
    /// would be negative: see [`try_new`](Self::try_new).
    pub const fn parse(text: &str) -> Result<Self, LayoutError> {
        let mut reader = Reader::new(text);
        match reader.whole_composed() {
            Ok(composed) => Ok(composed),
            Err(fault) => Err(reader.error("composed layout", fault)),
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

/// The layout of a shape, and a stride if there is one, that begin at `column`.
const fn made(column: usize, shape: &IntTuple, stride: Option<&IntTuple>) -> Result<Layout, Fault> {
    let layout = match stride {
        Some(stride) => of_shape_and_stride(shape, stride),
        None => make::col_major(shape),
    };
    match layout {
        Err(Fault::NotAnInt) => {
            Err(Fault::Parse { column, expected: "a shape of integers, and a stride without `_`" })
        }
        other => other,
    }
}

/// Nesting beyond this is refused before it overflows anything.
const DEEPEST: usize = 60;

pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The error of a parse, with the text.
    pub const fn error(&self, what: &str, fault: Fault) -> LayoutError {
        let mut text = Text::new();
        text.str(what);
        text.str(" \"");
        // A long text is cut so that the reason still has room.
        if self.text.len() <= 200 {
            text.str(self.text);
        } else {
            text.str("...");
        }
        text.str("\"");
        LayoutError::after(text, fault)
    }

    const fn layout(&mut self) -> Result<Layout, Fault> {
        let start = self.column();
        let shape = tri!(self.tuple());
        if self.eat(b':') {
            let stride = tri!(self.tuple());
            tri!(self.end());
            return made(start, &shape, Some(&stride));
        }
        tri!(self.end());
        made(start, &shape, None)
    }

    const fn whole_tiler(&mut self) -> Result<Tiler, Fault> {
        let mut builder = Layout::start();
        let mut by_mode = 0;
        tri!(self.tiler(&mut builder, &mut by_mode, 0));
        tri!(self.end());
        Ok(Tiler { layout: builder, by_mode })
    }

    /// Adds the tiler that comes next.
    const fn tiler(&mut self, builder: &mut Layout, by_mode: &mut u64, depth: usize) -> Result<(), Fault> {
        let start = self.column();
        let from = self.at;
        // A tuple is the shape of a layout if strides follow. If not, or if there is more in it than a shape holds, it
        // is read again as a tuple of tilers.
        if let Ok(shape) = self.tuple() {
            let layout = if self.eat(b':') {
                let stride = tri!(self.tuple());
                tri!(made(start, &shape, Some(&stride)))
            } else if !shape.is_int() {
                self.at = from;
                return self.tilers(builder, by_mode, depth);
            } else {
                match Tiler::try_shape(shape) {
                    Ok(tiler) => tiler.layout,
                    Err(_) => {
                        return Err(Fault::Parse { column: start, expected: "an extent of at least 1" });
                    }
                }
            };
            return builder.push_layout(&layout);
        }
        self.at = from;
        self.tilers(builder, by_mode, depth)
    }

    /// Adds the tuple of tilers that comes next.
    const fn tilers(&mut self, builder: &mut Layout, by_mode: &mut u64, depth: usize) -> Result<(), Fault> {
        if depth == DEEPEST {
            return Err(Fault::Parse { column: self.column(), expected: "fewer nested tuples" });
        }
        if !self.eat(b'(') {
            return Err(Fault::Parse { column: self.column(), expected: "a layout, an extent, `_` or `(`" });
        }
        let node = tri!(builder.push_tuple(0));
        *by_mode |= 1 << node;
        let mut rank = 0;
        while !self.eat(b')') {
            tri!(self.tiler(builder, by_mode, depth + 1));
            rank += 1;
            if !self.eat(b',') {
                if self.eat(b')') {
                    break;
                }
                return Err(Fault::Parse { column: self.column(), expected: "`,` or `)`" });
            }
        }
        builder.set_rank(node, rank);
        Ok(())
    }

    const fn whole_swizzle(&mut self) -> Result<Swizzle, Fault> {
        let numbers = tri!(self.swizzle());
        tri!(self.end());
        Swizzle::of(numbers[0], numbers[1], numbers[2])
    }

    /// The numbers of the swizzle that comes next.
    const fn swizzle(&mut self) -> Result<[i64; 3], Fault> {
        let column = self.column();
        if !(self.eat(b'S') && self.eat(b'w') && self.eat(b'<')) {
            return Err(Fault::Parse { column, expected: "a swizzle, such as `Sw<3,4,3>`" });
        }
        let mut numbers = [0; 3];
        let mut i = 0;
        while i < 3 {
            let column = self.column();
            numbers[i] = match self.int(column) {
                Ok(number) => number,
                Err(Fault::Parse { column, .. }) => {
                    return Err(Fault::Parse { column, expected: "an integer of at most 64 bits" });
                }
                Err(fault) => return Err(fault),
            };
            if i < 2 && !self.eat(b',') {
                return Err(Fault::Parse { column: self.column(), expected: "`,`" });
            }
            i += 1;
        }
        if !self.eat(b'>') {
            return Err(Fault::Parse { column: self.column(), expected: "`>`" });
        }
        Ok(numbers)
    }

    const fn whole_composed(&mut self) -> Result<ComposedLayout, Fault> {
        let numbers = tri!(self.swizzle());
        tri!(self.after());
        let column = self.column();
        let offset = match self.int(column) {
            Ok(offset) => offset,
            Err(Fault::Parse { column, .. }) => {
                return Err(Fault::Parse { column, expected: "an offset, an integer of at most 64 bits" });
            }
            Err(fault) => return Err(fault),
        };
        tri!(self.after());
        let layout = tri!(self.layout());
        ComposedLayout::of(tri!(Swizzle::of(numbers[0], numbers[1], numbers[2])), offset, layout)
    }

    /// Reads the `o` between two parts of a composed layout.
    const fn after(&mut self) -> Result<(), Fault> {
        if self.eat(b'o') {
            return Ok(());
        }
        Err(Fault::Parse { column: self.column(), expected: "`o`" })
    }

    const fn whole_tuple(&mut self) -> Result<IntTuple, Fault> {
        let tuple = tri!(self.tuple());
        tri!(self.end());
        Ok(tuple)
    }

    pub const fn tuple(&mut self) -> Result<IntTuple, Fault> {
        let mut builder = TupleBuilder::new();
        tri!(self.node(&mut builder, 0));
        Ok(builder.tuple)
    }

    const fn node(&mut self, builder: &mut TupleBuilder, depth: usize) -> Result<(), Fault> {
        if !self.eat(b'(') {
            let (value, basis) = tri!(self.leaf());
            return builder.leaf(value, basis);
        }
        if depth == DEEPEST {
            return Err(Fault::Parse { column: self.at, expected: "fewer nested tuples" });
        }
        let node = builder.tuple.profile.len();
        tri!(builder.open(0));
        let mut rank = 0;
        while !self.eat(b')') {
            tri!(self.node(builder, depth + 1));
            rank += 1;
            if !self.eat(b',') {
                if self.eat(b')') {
                    break;
                }
                return Err(Fault::Parse { column: self.column(), expected: "`,` or `)`" });
            }
        }
        builder.tuple.profile.set_rank(node, rank);
        Ok(())
    }

    const fn leaf(&mut self) -> Result<(i64, u8), Fault> {
        let start = self.column();
        if self.eat(b'_') && !self.number_is_next() {
            return Ok((0, ANY));
        }
        let value = tri!(self.int(start));
        if !self.eat(b'@') {
            return Ok((value, NO_BASIS));
        }
        let column = self.column();
        let basis = tri!(self.int(column));
        if basis < 0 || basis >= MAX_BASIS as i64 {
            return Err(Fault::Parse { column, expected: "a basis number from 0 to 63" });
        }
        Ok((value, if value == 0 { NO_BASIS } else { basis as u8 }))
    }

    const fn int(&mut self, start: usize) -> Result<i64, Fault> {
        let negative = self.eat(b'-');
        if !self.number_is_next() {
            return Err(Fault::Parse { column: self.column(), expected: "an integer, `_` or `(`" });
        }
        let bytes = self.text.as_bytes();
        let mut value = 0i64;
        while self.at < bytes.len() && bytes[self.at].is_ascii_digit() {
            let digit = (bytes[self.at] - b'0') as i64;
            let digit = if negative { -digit } else { digit };
            value = match value.checked_mul(10) {
                Some(value) => match value.checked_add(digit) {
                    Some(value) => value,
                    None => {
                        return Err(Fault::Parse {
                            column: start,
                            expected: "an integer of at most 64 bits",
                        });
                    }
                },
                None => {
                    return Err(Fault::Parse { column: start, expected: "an integer of at most 64 bits" });
                }
            };
            self.at += 1;
        }
        Ok(value)
    }

    /// Whether a digit, or a minus, comes next without a space.
    const fn number_is_next(&self) -> bool {
        let bytes = self.text.as_bytes();
        self.at < bytes.len() && (bytes[self.at].is_ascii_digit() || bytes[self.at] == b'-')
    }

    const fn skip_spaces(&mut self) {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() && bytes[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
    }

    /// The column of the next character that is no space, counted from 1 in characters.
    const fn column(&mut self) -> usize {
        self.skip_spaces();
        let bytes = self.text.as_bytes();
        let mut column = 1;
        let mut i = 0;
        while i < self.at {
            // Continuation bytes of UTF-8 begin no character.
            if bytes[i] & 0xC0 != 0x80 {
                column += 1;
            }
            i += 1;
        }
        column
    }

    const fn eat(&mut self, byte: u8) -> bool {
        self.skip_spaces();
        let bytes = self.text.as_bytes();
        if self.at < bytes.len() && bytes[self.at] == byte {
            self.at += 1;
            return true;
        }
        false
    }

    const fn end(&mut self) -> Result<(), Fault> {
        let column = self.column();
        if self.at < self.text.len() {
            return Err(Fault::Parse { column, expected: "the end" });
        }
        Ok(())
    }
}
