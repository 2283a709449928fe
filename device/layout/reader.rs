//! The grammar of the layout notation.

use super::basis::{MAX_BASIS, WHOLE, within};
use super::composed::ComposedLayout;
use super::error::LayoutError;
use super::fault::{Fault, tri};
use super::int_tuple::{ANY, IntTuple, NO_BASIS, TupleBuilder};
use super::layout::{Layout, of_shape_and_stride};
use super::make;
use super::parse::Notation;
use super::profile::MAX_NODES;
use super::swizzle::Swizzle;
use super::text::Text;
use super::tiler::Tiler;

/// Deeper nesting is rejected before it overflows anything.
const DEEPEST: usize = 60;

/// A parsed tuple, and the position of each of its nodes.
pub(crate) struct Read {
    builder: TupleBuilder,
    places: [usize; MAX_NODES],
}

impl Read {
    pub(crate) const fn tuple(&self) -> &IntTuple {
        &self.builder.tuple
    }

    const fn place_of_leaf(&self, leaf: usize) -> usize {
        self.places[self.tuple().profile.node_of(leaf)]
    }
}

/// The layout of a shape, and a stride if there is one.
const fn made(shape: &Read, stride: Option<&Read>) -> Result<Layout, Fault> {
    match stride {
        Some(stride) => of_shape_and_stride(shape.tuple(), stride.tuple()),
        None => make::col_major(shape.tuple()),
    }
}

/// The position that prevents a shape and a stride from forming a layout: the first of their nodes
/// that nests differently, or the first integer that violates the invariants.
const fn misfit(shape: &Read, stride: Option<&Read>) -> usize {
    if let Some(stride) = stride {
        let node = shape.tuple().profile.first_difference(&stride.tuple().profile);
        if node < stride.tuple().profile.len() {
            return stride.places[node];
        }
    }
    let mut size = 1i64;
    // The part that was parsed, with extents of 1 from there on.
    let mut part = Layout::start();
    part.profile = shape.tuple().profile;
    part.shape = [1; super::MAX_LEAVES];
    let mut leaf = 0;
    while leaf < part.leaves() {
        let place = shape.place_of_leaf(leaf);
        let extent = match shape.tuple().int_at(leaf) {
            Ok(extent) if extent > 0 => extent,
            _ => return place,
        };
        size = match size.checked_mul(extent) {
            Some(size) => size,
            None => return place,
        };
        if let Some(stride) = stride {
            part.shape[leaf] = extent;
            part.stride[leaf] = stride.tuple().value[leaf];
            if stride.tuple().basis[leaf] == ANY || part.check().is_err() {
                return stride.place_of_leaf(leaf);
            }
        }
        leaf += 1;
    }
    shape.places[0]
}

/// The index of the integer that makes a swizzle invalid.
const fn swizzle_misfit(numbers: &[i64; 3]) -> usize {
    let [bits, base, _] = *numbers;
    if bits < 0 || bits > 62 {
        0
    } else if base < 0 || base > 62 {
        1
    } else {
        // The shift must be at least the number of bits, and leave both groups below bit 63.
        2
    }
}

pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// The position of a fault: of the current item, or of one that does not fit.
    fault: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, at: 0, fault: 0 }
    }

    /// The number of bytes consumed.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// The error for a fault, with the text and the column.
    pub(crate) const fn error(&self, what: &str, fault: Fault) -> LayoutError {
        let mut text = Text::of_operands();
        text.str(what);
        text.str(" \"");
        // A long text is truncated so that the reason still fits.
        if self.text.len() <= 200 {
            text.str(self.text);
        } else {
            text.str("...");
        }
        text.str("\"");
        LayoutError::at_column(text, self.column(self.fault), fault)
    }

    /// The fault that the next character is not `what`.
    const fn expected(&mut self, what: &'static str) -> Fault {
        let place = self.next();
        self.expected_at(place, what)
    }

    /// The fault that the character at `place` is not `what`.
    const fn expected_at(&mut self, place: usize, what: &'static str) -> Fault {
        self.fault = place;
        Fault::Parse { expected: what }
    }

    /// The fault, located at `place`.
    const fn of(&mut self, place: usize, fault: Fault) -> Fault {
        self.fault = place;
        fault
    }

    pub(crate) const fn notation(&mut self) -> Result<Notation, Fault> {
        let start = self.next();
        if start < self.text.len() && self.text.as_bytes()[start] == b'S' {
            let swizzle = tri!(self.swizzle());
            let end = self.at;
            return match self.composed(swizzle) {
                Ok(composed) => Ok(Notation::Composed(composed)),
                // A swizzle that is not part of a composed layout.
                Err(Fault::Parse { .. }) => {
                    self.at = end;
                    Ok(Notation::Swizzle(swizzle))
                }
                Err(fault) => Err(fault),
            };
        }
        let shape = tri!(self.read());
        let end = self.at;
        if self.eat(b':') {
            match self.read() {
                Ok(stride) => return Ok(Notation::Layout(tri!(self.make(&shape, Some(&stride))))),
                Err(Fault::Parse { .. }) => self.at = end,
                Err(fault) => return Err(fault),
            }
        }
        Ok(Notation::Tuple(*shape.tuple()))
    }

    pub(crate) const fn whole_layout(&mut self) -> Result<Layout, Fault> {
        let layout = tri!(self.layout());
        tri!(self.end());
        Ok(layout)
    }

    /// Parses a shape, and its stride if there is one.
    const fn layout(&mut self) -> Result<Layout, Fault> {
        let shape = tri!(self.read());
        if !self.eat(b':') {
            return self.make(&shape, None);
        }
        let stride = tri!(self.read());
        self.make(&shape, Some(&stride))
    }

    const fn make(&mut self, shape: &Read, stride: Option<&Read>) -> Result<Layout, Fault> {
        match made(shape, stride) {
            Ok(layout) => Ok(layout),
            Err(Fault::NotAnInt) => {
                Err(self.expected_at(misfit(shape, stride), "integers in a shape, and no `_` in a stride"))
            }
            Err(fault) => Err(self.of(misfit(shape, stride), fault)),
        }
    }

    pub(crate) const fn whole_tiler(&mut self) -> Result<Tiler, Fault> {
        let mut builder = Layout::start();
        let mut by_mode = 0;
        tri!(self.tiler(&mut builder, &mut by_mode, 0));
        tri!(self.end());
        Ok(Tiler { layout: builder, by_mode })
    }

    /// Parses a tiler and adds it.
    const fn tiler(&mut self, builder: &mut Layout, by_mode: &mut u64, depth: usize) -> Result<(), Fault> {
        let start = self.next();
        // A tuple is the shape of a layout if strides follow. If not, or if it contains more than a
        // shape may, it is parsed again as a tuple of tilers.
        if let Ok(shape) = self.read() {
            let layout = if self.eat(b':') {
                let stride = tri!(self.read());
                tri!(self.make(&shape, Some(&stride)))
            } else if !shape.tuple().is_int() {
                self.at = start;
                return self.tilers(builder, by_mode, depth);
            } else {
                match Tiler::try_shape(*shape.tuple()) {
                    Ok(tiler) => tiler.layout,
                    Err(_) => return Err(self.expected_at(start, "an extent of at least 1")),
                }
            };
            return match builder.push_layout(&layout) {
                Ok(()) => Ok(()),
                Err(fault) => Err(self.of(start, fault)),
            };
        }
        self.at = start;
        self.tilers(builder, by_mode, depth)
    }

    /// Parses a tuple of tilers and adds it.
    const fn tilers(&mut self, builder: &mut Layout, by_mode: &mut u64, depth: usize) -> Result<(), Fault> {
        let start = self.next();
        if depth == DEEPEST {
            return Err(self.expected("fewer nested tuples"));
        }
        if !self.eat(b'(') {
            return Err(self.expected("a layout, an extent, `_` or `(`"));
        }
        let node = match builder.push_tuple(0) {
            Ok(node) => node,
            Err(fault) => return Err(self.of(start, fault)),
        };
        *by_mode |= 1 << node;
        let mut rank = 0;
        while !self.eat(b')') {
            tri!(self.tiler(builder, by_mode, depth + 1));
            rank += 1;
            if !self.eat(b',') {
                if self.eat(b')') {
                    break;
                }
                return Err(self.expected("`,` or `)`"));
            }
        }
        builder.set_rank(node, rank);
        Ok(())
    }

    pub(crate) const fn whole_swizzle(&mut self) -> Result<Swizzle, Fault> {
        let swizzle = tri!(self.swizzle());
        tri!(self.end());
        Ok(swizzle)
    }

    /// Parses a swizzle.
    const fn swizzle(&mut self) -> Result<Swizzle, Fault> {
        let start = self.next();
        let named = self.eat_word("Swizzle") || self.eat_word("Sw") || self.eat_word("S");
        let close = if named && self.eat(b'<') {
            b'>'
        } else if named && self.eat(b'(') {
            b')'
        } else {
            return Err(self.expected_at(start, "a swizzle, such as `Sw<3,4,3>`"));
        };
        let mut numbers = [0; 3];
        let mut places = [0; 3];
        let mut i = 0;
        while i < 3 {
            places[i] = self.next();
            numbers[i] = tri!(self.int("an integer of at most 64 bits"));
            if !self.eat(b',') && i < 2 {
                return Err(self.expected("`,`"));
            }
            i += 1;
        }
        if !self.eat(close) {
            return Err(self.expected(if close == b'>' { "`>`" } else { "`)`" }));
        }
        match Swizzle::of(numbers[0], numbers[1], numbers[2]) {
            Ok(swizzle) => Ok(swizzle),
            Err(fault) => Err(self.of(places[swizzle_misfit(&numbers)], fault)),
        }
    }

    pub(crate) const fn whole_composed(&mut self) -> Result<ComposedLayout, Fault> {
        let swizzle = tri!(self.swizzle());
        let composed = tri!(self.composed(swizzle));
        tri!(self.end());
        Ok(composed)
    }

    /// Parses a composed layout after its swizzle.
    const fn composed(&mut self, swizzle: Swizzle) -> Result<ComposedLayout, Fault> {
        tri!(self.after());
        let place_of_offset = self.next();
        let first = tri!(self.read());
        let mut place_of_layout = place_of_offset;
        let (offset, layout) = if self.eat(b':') {
            let stride = tri!(self.read());
            (0, tri!(self.make(&first, Some(&stride))))
        } else {
            let Some(offset) = first.tuple().as_int() else {
                return Err(self.expected_at(place_of_offset, "an offset, or a layout with its stride"));
            };
            tri!(self.after());
            place_of_layout = self.next();
            (offset, tri!(self.layout()))
        };
        match ComposedLayout::of(swizzle, offset, layout) {
            Ok(composed) => Ok(composed),
            Err(fault) if offset < 0 => Err(self.of(place_of_offset, fault)),
            Err(fault) => Err(self.of(place_of_layout, fault)),
        }
    }

    /// Parses the `o` between two parts of a composed layout.
    const fn after(&mut self) -> Result<(), Fault> {
        if self.eat_word("o") || self.eat_word("∘") {
            return Ok(());
        }
        Err(self.expected("`o`"))
    }

    pub(crate) const fn whole_tuple(&mut self) -> Result<IntTuple, Fault> {
        let read = tri!(self.read());
        tri!(self.end());
        Ok(read.builder.tuple)
    }

    /// Parses a tuple.
    pub(crate) const fn read(&mut self) -> Result<Read, Fault> {
        let mut read = Read { builder: TupleBuilder::new(), places: [0; MAX_NODES] };
        tri!(self.node(&mut read, 0));
        Ok(read)
    }

    const fn node(&mut self, read: &mut Read, depth: usize) -> Result<(), Fault> {
        let start = self.next();
        let node = read.tuple().profile.len();
        if !self.eat(b'(') {
            let (value, basis) = tri!(self.leaf());
            return match read.builder.leaf(value, basis) {
                Ok(()) => {
                    read.places[node] = start;
                    Ok(())
                }
                Err(fault) => Err(self.of(start, fault)),
            };
        }
        if depth == DEEPEST {
            return Err(self.expected_at(start, "fewer nested tuples"));
        }
        if let Err(fault) = read.builder.open(0) {
            return Err(self.of(start, fault));
        }
        read.places[node] = start;
        let mut rank = 0;
        while !self.eat(b')') {
            tri!(self.node(read, depth + 1));
            rank += 1;
            if !self.eat(b',') {
                if self.eat(b')') {
                    break;
                }
                return Err(self.expected("`,` or `)`"));
            }
        }
        read.builder.tuple.profile.set_rank(node, rank);
        Ok(())
    }

    const fn leaf(&mut self) -> Result<(i64, u32), Fault> {
        let start = self.next();
        if self.eat(b'_') && !self.number_is_next() {
            return Ok((0, ANY));
        }
        self.at = start;
        let value = tri!(self.int("an integer, `_` or `(`"));
        let mut basis = WHOLE;
        while self.eat(b'@') {
            let place = self.next();
            let index = tri!(self.int("a basis number from 0 to 63"));
            if index < 0 || index >= MAX_BASIS as i64 {
                return Err(self.expected_at(place, "a basis number from 0 to 63"));
            }
            // The innermost index is first.
            basis = match within(index as usize, basis) {
                Ok(basis) => basis,
                Err(fault) => return Err(self.of(place, fault)),
            };
        }
        Ok((value, if value == 0 || basis == WHOLE { NO_BASIS } else { basis }))
    }

    /// Parses an integer, plain or as CuTe prints static ones (`_4`). The fault for other text says
    /// that `what` is expected.
    const fn int(&mut self, what: &'static str) -> Result<i64, Fault> {
        let start = self.next();
        if self.eat(b'_') && !self.number_is_next() {
            return Err(self.expected_at(start, what));
        }
        let negative = self.eat(b'-');
        let bytes = self.text.as_bytes();
        if self.at == bytes.len() || !bytes[self.at].is_ascii_digit() {
            return Err(self.expected(what));
        }
        let mut value = 0i64;
        while self.at < bytes.len() && bytes[self.at].is_ascii_digit() {
            let digit = (bytes[self.at] - b'0') as i64;
            let digit = if negative { -digit } else { digit };
            let longer = match value.checked_mul(10) {
                Some(tens) => tens.checked_add(digit),
                None => None,
            };
            value = match longer {
                Some(value) => value,
                None => return Err(self.expected_at(start, "an integer of at most 64 bits")),
            };
            self.at += 1;
        }
        Ok(value)
    }

    /// Whether the next character, without a space, is a digit or a minus.
    const fn number_is_next(&self) -> bool {
        let bytes = self.text.as_bytes();
        self.at < bytes.len() && (bytes[self.at].is_ascii_digit() || bytes[self.at] == b'-')
    }

    /// The position of the next character that is not a space.
    const fn next(&mut self) -> usize {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() && bytes[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
        self.at
    }

    /// The column of a position, counted from 1 in characters.
    const fn column(&self, place: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut column = 1;
        let mut i = 0;
        while i < place {
            // Continuation bytes of UTF-8 do not start a character.
            if bytes[i] & 0xC0 != 0x80 {
                column += 1;
            }
            i += 1;
        }
        column
    }

    const fn eat(&mut self, byte: u8) -> bool {
        let at = self.next();
        let bytes = self.text.as_bytes();
        let found = at < bytes.len() && bytes[at] == byte;
        self.at += found as usize;
        found
    }

    /// Consumes `word` if it is next and no letter follows.
    const fn eat_word(&mut self, word: &str) -> bool {
        let at = self.next();
        let (bytes, word) = (self.text.as_bytes(), word.as_bytes());
        let mut i = 0;
        while i < word.len() && at + i < bytes.len() && bytes[at + i] == word[i] {
            i += 1;
        }
        let found = i == word.len() && !(at + i < bytes.len() && bytes[at + i].is_ascii_alphabetic());
        self.at += if found { i } else { 0 };
        found
    }

    const fn end(&mut self) -> Result<(), Fault> {
        if self.next() < self.text.len() {
            return Err(self.expected("the end"));
        }
        Ok(())
    }
}
