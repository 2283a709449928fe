//! Layouts, tuples and tilers from text.

use core::str::FromStr;

use super::error::{Fault, LayoutError, tri};
use super::int_tuple::{ANY, IntTuple, MAX_BASIS, NO_BASIS, TupleBuilder};
use super::layout::{Layout, of_shape_and_stride};
use super::make;
use super::text::Text;

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

impl FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        Self::parse(text)
    }
}

impl FromStr for IntTuple {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        Self::parse(text)
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
        let layout = if self.eat(b':') {
            let stride = tri!(self.tuple());
            tri!(self.end());
            if !shape.profile.same(&stride.profile) {
                return Err(Fault::Incongruent { what: "shape and stride" });
            }
            of_shape_and_stride(&shape, &stride)
        } else {
            tri!(self.end());
            make::col_major(&shape)
        };
        match layout {
            Err(Fault::NotAnInt) => {
                Err(Fault::Parse { column: start, expected: "a shape of integers, and a stride without `_`" })
            }
            other => other,
        }
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
