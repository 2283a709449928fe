//! CuTe's output around a layout: pointers, origins of coordinates, tensors.
//!
//! CuTe C++ prints a tensor as a pointer and its layout, `gmem_ptr[32b](0x7f..) o
//! (_32,_4):(_1,32)`, a layout of shared memory with `smem_ptr[16b](unset)` in place of an offset,
//! and a tensor of coordinates with its origin, `ArithTuple(0,_0) o (4,3):(_1@0,_1@1)`, or
//! `counting_iter(0) o 12:1`. Operands of `wgmma` and `tcgen05.mma` in shared memory have
//! descriptors instead of pointers, `GMMA::DescriptorIterator o (_1,_2,_4):(_0,_64,_2)`. The Python
//! DSL prints `tensor<ptr<f16, smem, align<16>> o (8,64):(64,1)>`, and with values
//! `tensor(raw_ptr(0x..: f32, gmem, align<4>) o (4,3):(1,4), data= ...`. Only the layout matters,
//! and an address says nothing about it. But a swizzle next to a pointer swizzles bytes, so it is
//! converted to elements of the pointer's type, as CuTe's `as_position_independent_swizzle_layout`
//! does.

use moye_device::layout::{Leaf, Notation, Swizzle};

use super::error::EvalError;
use super::parse::{DEEPEST, Reader, word};
use super::value::Value;

/// A parsed pointer.
struct Pointer {
    /// The bits of an element, if they are printed.
    bits: Option<i64>,
    /// The swizzle that the Python DSL prints inside the pointer.
    swizzle: Option<Swizzle>,
}

impl Reader<'_> {
    /// Parses a printed layout, with a pointer, an origin, or a whole tensor around it, or any
    /// layout.
    pub(super) fn printed(&mut self, start: usize) -> Result<(), EvalError> {
        let place = self.start();
        if let Some(pointer) = self.pointer()? {
            self.is_printed = true;
            let Some(swizzle) = pointer.swizzle else {
                self.after("`o` and a layout after the pointer")?;
                return self.layout();
            };
            self.values.push(swizzle.into());
            return self.swizzled_pointer(&pointer, start, place);
        }
        let name = word(&self.text[place..]);
        let next = self.text.as_bytes().get(place + name.len());
        match (name, next) {
            ("ArithTuple" | "counting_iter", Some(b'(')) => self.origin(name.len(), place),
            ("tensor", Some(b'<' | b'(')) => self.tensor(place),
            _ => {
                self.layout()?;
                // A swizzled pointer is printed without a space: `Sw<3,4,3>_smem_ptr[16b](0x7f..)`.
                let is_swizzle = matches!(self.values.last(), Some(Value::Swizzle(_)));
                if is_swizzle && self.text[self.at..].starts_with('_') {
                    self.at += 1;
                    let place = self.at;
                    let Some(pointer) = self.pointer()? else { return Err(self.expected("a pointer")) };
                    self.is_printed = true;
                    self.swizzled_pointer(&pointer, start, place)?;
                }
                Ok(())
            }
        }
    }

    /// After a swizzle and `o`: parses a pointer in place of an offset, if there is one, and the
    /// layout after it. Returns whether there was one.
    pub(super) fn pointer_as_offset(&mut self, start: usize) -> Result<bool, EvalError> {
        if !matches!(self.values.last(), Some(Value::Swizzle(_))) {
            return Ok(false);
        }
        let place = self.start();
        let Some(pointer) = self.pointer()? else { return Ok(false) };
        self.is_printed = true;
        self.swizzled_pointer(&pointer, start, place)?;
        Ok(true)
    }

    /// Whether an origin of zeros was pushed last, which the Python DSL prints before a layout of
    /// coordinates. Shapes have no extents of 0.
    pub(super) fn is_zero_origin(&self) -> bool {
        let Some(Value::Tuple(tuple)) = self.values.last() else { return false };
        let is_zero = |i| matches!(tuple.leaf(i), Leaf::Int(0));
        !tuple.is_int() && tuple.leaves() > 0 && (0..tuple.leaves()).all(is_zero)
    }

    /// Parses `o` and the layout of a swizzled pointer; the swizzle was pushed last.
    fn swizzled_pointer(&mut self, pointer: &Pointer, start: usize, place: usize) -> Result<(), EvalError> {
        let Some(bits) = pointer.bits.filter(|bits| bits.count_ones() == 1) else {
            let wanted =
                "expected a pointer with the bits of an element, as in `smem_ptr[16b](unset)`".to_owned();
            return Err(self.error(place, wanted));
        };
        let Value::Swizzle(bytes) = self.pop() else { unreachable!("a swizzle was pushed last") };
        // Element e starts at bit `bits e`, and byte b at bit `8 b`.
        let base = bytes.base() + 3 - i64::from(bits.ilog2());
        let swizzle = Swizzle::try_new(bytes.bits(), base, bytes.shift()).map_err(|_| {
            let reason =
                format!("{bytes} swizzles bytes, and within elements of {bits} bits, which no layout does");
            self.error(place, reason)
        })?;
        self.values.push(swizzle.into());
        self.after("`o` and a layout after the pointer")?;
        self.values.push(Value::from(0i64));
        self.layout()?;
        self.compose_swizzle(start)
    }

    /// Parses a pointer, if one follows.
    fn pointer(&mut self) -> Result<Option<Pointer>, EvalError> {
        let place = self.start();
        for descriptors in ["GMMA::DescriptorIterator", "UMMA::DescriptorIterator"] {
            if self.text[place..].starts_with(descriptors) {
                self.at += descriptors.len();
                return Ok(Some(Pointer { bits: None, swizzle: None }));
            }
        }
        let name = word(&self.text[place..]);
        let is_pointer = name.ends_with("ptr") || name == "tmem_";
        if !is_pointer || !self.text[place + name.len()..].starts_with(['[', '(', '<']) {
            return Ok(None);
        }
        self.at += name.len();
        let mut pointer = Pointer { bits: None, swizzle: None };
        if self.eat("[") {
            pointer.bits = Some(self.integer()?);
            if !(self.eat("b") && self.eat("]")) {
                return Err(self.expected("`b]`, as in `ptr[32b](nil)`"));
            }
        }
        let inside = self.brackets()?;
        // `0x7f..: f32, gmem, align<16>` and `f16, smem, align<16>, S<2,4,3>`.
        let said = inside.split_once(':').map_or(inside, |(_, said)| said);
        if let Some((kind, _)) = said.split_once(',') {
            let kind = kind.trim().trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
            let digits = kind.bytes().take_while(u8::is_ascii_digit).count();
            pointer.bits = pointer.bits.or(kind[..digits].parse().ok());
        }
        if let Some(at) = said.find("S<") {
            match Notation::parse_prefix(&said[at..]) {
                Ok((Notation::Swizzle(swizzle), _)) => pointer.swizzle = Some(swizzle),
                Err(error) => return Err(self.error(place, error.reason().unwrap_or_default().to_owned())),
                Ok(_) => {}
            }
        }
        Ok(Some(pointer))
    }

    /// Consumes a pair of brackets and returns the contents.
    fn brackets(&mut self) -> Result<&str, EvalError> {
        let start = self.start();
        let (open, close) = match self.text[start..].chars().next() {
            Some('(') => ('(', ')'),
            Some('<') => ('<', '>'),
            _ => return Err(self.expected("`(`")),
        };
        let mut depth = 0;
        for (at, character) in self.text[start..].char_indices() {
            depth += i64::from(character == open) - i64::from(character == close);
            if depth == 0 {
                self.at = start + at + 1;
                return Ok(&self.text[start + 1..start + at]);
            }
        }
        self.at = self.text.len();
        Err(self.expected(if open == '(' { "`)`" } else { "`>`" }))
    }

    /// Parses the origin of a tensor of coordinates after its name of `name` bytes, and the layout.
    /// Layouts have no origin, so it must be 0.
    fn origin(&mut self, name: usize, place: usize) -> Result<(), EvalError> {
        self.at += name + "(".len();
        let count = self.list(")")?;
        self.tuple(count, place)?;
        if !self.is_zero_origin() {
            let origin = self.pop();
            let reason = format!(
                "the coordinates begin at {origin}, and those of a layout at 0: leave the origin out"
            );
            return Err(self.error(place, reason));
        }
        self.pop();
        self.is_printed = true;
        self.after("`o` and a layout after the origin")?;
        self.layout()
    }

    /// Parses `tensor<...>`, or `tensor(...` with the values.
    fn tensor(&mut self, place: usize) -> Result<(), EvalError> {
        self.at += "tensor".len();
        let close = if self.eat("<") { ">" } else { ")" };
        if close == ")" {
            self.eat("(");
        }
        if self.depth == DEEPEST {
            return Err(self.error(place, format!("expected at most {DEEPEST} brackets in one another")));
        }
        self.depth += 1;
        self.expression()?;
        self.depth -= 1;
        self.is_printed = true;
        if close == ")" && self.eat(",") {
            // The values extend to the end.
            self.at = self.text.len();
        } else if !self.eat(close) {
            return Err(self.expected(&format!("`{close}`")));
        }
        Ok(())
    }

    /// Parses the composition operator, which must follow.
    fn after(&mut self, what: &str) -> Result<(), EvalError> {
        if self.eat_after() { Ok(()) } else { Err(self.expected(what)) }
    }
}
