//! Layouts, tuples, tilers and swizzles from text.

use core::str::FromStr;

use super::basis::{MAX_BASIS, WHOLE, within};
use super::composed::ComposedLayout;
use super::error::LayoutError;
use super::fault::{Fault, tri};
use super::int_tuple::{ANY, IntTuple, NO_BASIS, TupleBuilder};
use super::layout::{Layout, of_shape_and_stride};
use super::make;
use super::profile::MAX_NODES;
use super::swizzle::Swizzle;
use super::text::Text;
use super::tiler::Tiler;

impl Layout {
    /// The layout that `text` describes: `(4,(2,2)):(2,(1,8))`, or a shape alone for the compact
    /// column-major one. Spaces are free, a trailing comma is allowed, integers may be written as
    /// CuTe prints static ones (`_4`).
    ///
    /// # Errors
    /// Where the text is no layout: the error names the column and what was expected there. Where
    /// shape and stride are none of a layout: the column of the extent, the stride or the tuple
    /// that does not fit.
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

    /// The tuple that `text` begins with, and how many bytes it takes: for languages that have
    /// tuples among other things.
    ///
    /// ```
    /// use moye_device::layout::{IntTuple, tuple};
    /// assert_eq!(IntTuple::parse_prefix("(4, 1@0):2"), Ok((tuple!((4, 1@0)), 8)));
    /// assert_eq!(IntTuple::parse_prefix("(4, x)").unwrap_err().column(), Some(5));
    /// ```
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    pub const fn parse_prefix(text: &str) -> Result<(Self, usize), LayoutError> {
        let mut reader = Reader::new(text);
        match reader.read() {
            Ok(read) => Ok((read.builder.tuple, reader.at)),
            Err(fault) => Err(reader.error("tuple", fault)),
        }
    }
}

impl Tiler {
    /// The tiler that `text` describes: a layout with its strides (`(2,4):(1,8)`), an integer `n`
    /// for `n:1`, `_`, or a tuple of such (`(4:2,_,(64,32))`). A tuple is by mode; only its strides
    /// make it a layout.
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
    /// Where the text is no swizzle, or the numbers make none (see [`try_new`](Self::try_new)): the
    /// error names the column.
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
    /// `Sw<3,4,3> o 0 o (8,64):(64,1)`. The layout may be a shape alone, as for [`Layout::parse`].
    ///
    /// ```
    /// use moye_device::layout::{ComposedLayout, Swizzle, layout};
    /// let smem = ComposedLayout::new(Swizzle::new(3, 4, 3), 0, layout!((8, 64):(64, 1)));
    /// assert_eq!("Sw<3,4,3> o 0 o (8,64):(64,1)".parse(), Ok(smem));
    /// ```
    ///
    /// # Errors
    /// Where the text is no composed layout, or an index would be negative (see
    /// [`try_new`](Self::try_new)): the error names the column.
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

/// Nesting beyond this is refused before it overflows anything.
const DEEPEST: usize = 60;

/// A tuple that was read, and where each of its nodes begins.
struct Read {
    builder: TupleBuilder,
    places: [usize; MAX_NODES],
}

impl Read {
    const fn tuple(&self) -> &IntTuple {
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

/// Where that stands for which a shape and a stride make no layout: the first of their nodes that
/// nests differently, or the first integer up to which what holds of every layout does not hold.
const fn misfit(shape: &Read, stride: Option<&Read>) -> usize {
    if let Some(stride) = stride {
        let node = shape.tuple().profile.first_difference(&stride.tuple().profile);
        if node < stride.tuple().profile.len() {
            return stride.places[node];
        }
    }
    let mut size = 1i64;
    // As far as it was looked at, and with extents of 1 from there on.
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

/// Which of the numbers of a swizzle makes it none.
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

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Where that begins which a fault is of: what is read at the moment, or what was found not to
    /// fit.
    fault: usize,
}

impl<'a> Reader<'a> {
    const fn new(text: &'a str) -> Self {
        Self { text, at: 0, fault: 0 }
    }

    /// The error of a fault, with the text and the column.
    const fn error(&self, what: &str, fault: Fault) -> LayoutError {
        let mut text = Text::of_operands();
        text.str(what);
        text.str(" \"");
        // A long text is cut so that the reason still has room.
        if self.text.len() <= 200 {
            text.str(self.text);
        } else {
            text.str("...");
        }
        text.str("\"");
        LayoutError::at_column(text, self.column(self.fault), fault)
    }

    /// The fault of something else than `what` at the next character.
    const fn expected(&mut self, what: &'static str) -> Fault {
        let place = self.next();
        self.expected_at(place, what)
    }

    /// The fault of something else than `what` at `place`.
    const fn expected_at(&mut self, place: usize, what: &'static str) -> Fault {
        self.fault = place;
        Fault::Parse { expected: what }
    }

    /// The fault, of what stands at `place`.
    const fn of(&mut self, place: usize, fault: Fault) -> Fault {
        self.fault = place;
        fault
    }

    const fn layout(&mut self) -> Result<Layout, Fault> {
        let shape = tri!(self.read());
        if !self.eat(b':') {
            tri!(self.end());
            return self.make(&shape, None);
        }
        let stride = tri!(self.read());
        tri!(self.end());
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

    const fn whole_tiler(&mut self) -> Result<Tiler, Fault> {
        let mut builder = Layout::start();
        let mut by_mode = 0;
        tri!(self.tiler(&mut builder, &mut by_mode, 0));
        tri!(self.end());
        Ok(Tiler { layout: builder, by_mode })
    }

    /// Adds the tiler that comes next.
    const fn tiler(&mut self, builder: &mut Layout, by_mode: &mut u64, depth: usize) -> Result<(), Fault> {
        let start = self.next();
        // A tuple is the shape of a layout if strides follow. If not, or if there is more in it
        // than a shape holds, it is read again as a tuple of tilers.
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

    /// Adds the tuple of tilers that comes next.
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

    const fn whole_swizzle(&mut self) -> Result<Swizzle, Fault> {
        let (numbers, places) = tri!(self.swizzle());
        tri!(self.end());
        self.swizzle_of(&numbers, &places)
    }

    const fn swizzle_of(&mut self, numbers: &[i64; 3], places: &[usize; 3]) -> Result<Swizzle, Fault> {
        match Swizzle::of(numbers[0], numbers[1], numbers[2]) {
            Ok(swizzle) => Ok(swizzle),
            Err(fault) => Err(self.of(places[swizzle_misfit(numbers)], fault)),
        }
    }

    /// The numbers of the swizzle that comes next, and where they stand.
    const fn swizzle(&mut self) -> Result<([i64; 3], [usize; 3]), Fault> {
        let start = self.next();
        if !(self.eat(b'S') && self.eat(b'w') && self.eat(b'<')) {
            return Err(self.expected_at(start, "a swizzle, such as `Sw<3,4,3>`"));
        }
        let mut numbers = [0; 3];
        let mut places = [0; 3];
        let mut i = 0;
        while i < 3 {
            places[i] = self.next();
            numbers[i] = tri!(self.int("an integer of at most 64 bits"));
            if i < 2 && !self.eat(b',') {
                return Err(self.expected("`,`"));
            }
            i += 1;
        }
        if !self.eat(b'>') {
            return Err(self.expected("`>`"));
        }
        Ok((numbers, places))
    }

    const fn whole_composed(&mut self) -> Result<ComposedLayout, Fault> {
        let (numbers, places) = tri!(self.swizzle());
        tri!(self.after());
        let place_of_offset = self.next();
        let offset = tri!(self.int("an offset, an integer of at most 64 bits"));
        tri!(self.after());
        let place_of_layout = self.next();
        let layout = tri!(self.layout());
        let swizzle = tri!(self.swizzle_of(&numbers, &places));
        match ComposedLayout::of(swizzle, offset, layout) {
            Ok(composed) => Ok(composed),
            Err(fault) if offset < 0 => Err(self.of(place_of_offset, fault)),
            Err(fault) => Err(self.of(place_of_layout, fault)),
        }
    }

    /// Reads the `o` between two parts of a composed layout.
    const fn after(&mut self) -> Result<(), Fault> {
        if self.eat(b'o') {
            return Ok(());
        }
        Err(self.expected("`o`"))
    }

    const fn whole_tuple(&mut self) -> Result<IntTuple, Fault> {
        let read = tri!(self.read());
        tri!(self.end());
        Ok(read.builder.tuple)
    }

    /// The tuple that comes next.
    const fn read(&mut self) -> Result<Read, Fault> {
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
        if self.eat(b'_') && !self.number_is_next() {
            return Ok((0, ANY));
        }
        let value = tri!(self.int("an integer, `_` or `(`"));
        let mut basis = WHOLE;
        while self.eat(b'@') {
            let place = self.next();
            let index = tri!(self.int("a basis number from 0 to 63"));
            if index < 0 || index >= MAX_BASIS as i64 {
                return Err(self.expected_at(place, "a basis number from 0 to 63"));
            }
            // The innermost index comes first.
            basis = match within(index as usize, basis) {
                Ok(basis) => basis,
                Err(fault) => return Err(self.of(place, fault)),
            };
        }
        Ok((value, if value == 0 || basis == WHOLE { NO_BASIS } else { basis }))
    }

    /// The integer that comes next; `what` is expected where there is none.
    const fn int(&mut self, what: &'static str) -> Result<i64, Fault> {
        let start = self.next();
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

    /// Whether a digit, or a minus, comes next without a space.
    const fn number_is_next(&self) -> bool {
        let bytes = self.text.as_bytes();
        self.at < bytes.len() && (bytes[self.at].is_ascii_digit() || bytes[self.at] == b'-')
    }

    /// The place of the next character that is no space.
    const fn next(&mut self) -> usize {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() && bytes[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
        self.at
    }

    /// The column of a place, counted from 1 in characters.
    const fn column(&self, place: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut column = 1;
        let mut i = 0;
        while i < place {
            // Continuation bytes of UTF-8 begin no character.
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

    const fn end(&mut self) -> Result<(), Fault> {
        if self.next() < self.text.len() {
            return Err(self.expected("the end"));
        }
        Ok(())
    }
}
