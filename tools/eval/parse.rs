//! The expression language.
//!
//! ```text
//! expression := layout { "o" layout | call }    composition, or swizzle o offset o layout, or layout o 0 o layout
//! layout     := notation | term [ ":" term ]     shape:stride
//! call       := "(" list ")"                     of all that stands before it, or of a layout in parentheses: its
//!                                                value at a coordinate, or with `_` the slice
//! term       := tuple | "None" | "true" | "false"
//!             | "(" list ")" | "<" list ">"      a tuple, or a tiler by mode
//!             | swizzle "<" list ">" | swizzle "(" list ")"
//!             | name "(" list ")"                an operation
//! swizzle    := "Sw" | "S" | "Swizzle"
//! list       := [ expression { "," expression } [ "," ] ]
//! ```
//!
//! A literal, that is a `notation` or a `tuple` without expressions in it, is parsed by the parser
//! of layouts ([`Notation::parse_prefix`]); expressions are operations on literals. A layout may be
//! written as CuTe prints it, after a pointer or an origin (`printed`).

use std::vec::Drain;

use moye_device::layout::{
    ComposedLayout, IntTuple, LayoutError, LayoutErrorKind, Leaf, MAX_NODES, Notation, Swizzle,
};

use super::error::EvalError;
use super::operand::{Single, Unfit};
use super::operations::{self, Operation};
use super::value::Value;

/// Deeper nesting is rejected before it overflows the stack. A tuple may nest less.
pub(super) const DEEPEST: usize = 64;

/// The value of an expression.
///
/// # Errors
/// The text is not an expression, or a layout in it is invalid (the error names the column and what
/// was expected there); an operation receives an unsuitable argument, or has no result (the error
/// is the operation's, with the operands).
///
/// ```
/// let value = moye_eval::evaluate("coalesce(composition((6,2):(8,2), (4,3):(3,1)))").unwrap();
/// assert_eq!(value.to_string(), "(2,2,3):(24,2,8)");
/// ```
pub fn evaluate(text: &str) -> Result<Value, EvalError> {
    let mut reader = Reader { text, at: 0, depth: 0, values: Vec::new(), is_printed: false };
    reader.expression()?;
    reader.skip_spaces();
    // A printed tensor's values follow its layout.
    let has_values = reader.is_printed && text[reader.at..].starts_with([':', '=']);
    if reader.at < text.len() && !has_values {
        return Err(reader.expected("an operator or the end"));
    }
    Ok(reader.pop())
}

/// Values are large: they are on a separate stack, so that nested calls need little of the
/// program's stack.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) values: Vec<Value>,
    /// Whether a printed tensor was parsed.
    pub(super) is_printed: bool,
}

impl Reader<'_> {
    /// Parses an expression and pushes its value.
    pub(super) fn expression(&mut self) -> Result<(), EvalError> {
        let start = self.start();
        self.printed(start)?;
        loop {
            if self.eat_after() {
                self.composed(start)?;
                continue;
            }
            let column = self.start();
            if self.next_is("(") {
                self.unwrap();
            }
            let is_layout = matches!(self.values.last(), Some(Value::Layout(_) | Value::Composed(_)));
            if !is_layout || !self.eat("(") {
                return Ok(());
            }
            // A call applies to the whole composition before it: `A o B(c)` is A's index of B's
            // index of c.
            let count = self.list(")")?;
            self.apply(count, start, column)?;
        }
    }

    /// Parses the operand after `o`, and composes.
    fn composed(&mut self, start: usize) -> Result<(), EvalError> {
        self.unwrap();
        if self.pointer_as_offset(start)? {
            return Ok(());
        }
        if self.is_zero_origin() {
            self.pop();
            self.is_printed = true;
            return self.layout();
        }
        let place = self.start();
        if self.next_is("S") {
            // After a swizzle alone, everything before it composes with what follows.
            self.term()?;
        } else {
            self.layout()?;
        }
        if !self.awaits_layout() {
            if self.is_integer_after_layout() && self.eat_after() {
                self.offset_between_layouts(place)?;
            }
            return self.call("composition", 2, start);
        }
        if !self.eat_after() {
            return Err(self.expected("`o` and a layout, as in `Sw<3,4,3> o 0 o (8,64):(64,1)`"));
        }
        self.layout()?;
        self.compose_swizzle(start)
    }

    /// Parses a literal, a term, or a shape and a stride that contain expressions.
    pub(super) fn layout(&mut self) -> Result<(), EvalError> {
        let start = self.start();
        match self.notation()? {
            Some(Notation::Tuple(tuple)) => self.values.push(tuple.into()),
            Some(Notation::Layout(layout)) => return self.push(layout),
            Some(Notation::Swizzle(swizzle)) => return self.push(swizzle),
            Some(Notation::Composed(layout)) => return self.push(layout),
            None => self.term()?,
        }
        if self.eat(":") {
            let stride = self.start();
            self.term()?;
            let is_stride = matches!(self.values.last(), Some(Value::Tuple(_)));
            self.call("make_layout", 2, if is_stride { start } else { stride }).map_err(
                |error| match error {
                    EvalError::Layout(error) => self.misfit(start, &error),
                    error => error,
                },
            )?;
        }
        Ok(())
    }

    /// Parses a literal if there is one; consumes nothing if it is an expression.
    fn notation(&mut self) -> Result<Option<Notation>, EvalError> {
        let start = self.start();
        let text = &self.text[start..];
        if !text.starts_with(|first: char| "(_-S".contains(first) || first.is_ascii_digit()) {
            return Ok(None);
        }
        let (value, bytes) = match Notation::parse_prefix(text) {
            Ok(read) => read,
            Err(error) => {
                let may_have_expressions = match text.as_bytes()[0] {
                    b'(' => IntTuple::parse_prefix(text).is_err(),
                    b'S' => matches!(error.kind(), LayoutErrorKind::Parse { .. }),
                    _ => false,
                };
                return if may_have_expressions { Ok(None) } else { Err(self.misread(start, &error)) };
            }
        };
        let depth = match &value {
            Notation::Tuple(tuple) => tuple.depth(),
            Notation::Layout(layout) => layout.depth(),
            Notation::Swizzle(_) => 0,
            Notation::Composed(composed) => composed.layout.depth(),
        };
        if self.depth + depth > DEEPEST {
            return Ok(None);
        }
        self.at = start + bytes;
        Ok(Some(value))
    }

    fn push(&mut self, value: impl Into<Value>) -> Result<(), EvalError> {
        self.values.push(value.into());
        Ok(())
    }

    fn term(&mut self) -> Result<(), EvalError> {
        let start = self.start();
        match self.text.as_bytes().get(start) {
            Some(open @ (b'(' | b'<')) => {
                self.at += 1;
                let count = self.list(if *open == b'(' { ")" } else { ">" })?;
                self.tuple(count, start)
            }
            Some(b'_' | b'-' | b'0'..=b'9') => {
                let leaf = self.literal()?;
                self.push(leaf)
            }
            Some(b'?') => {
                let reason =
                    "expected a number in place of `?`, for which the Python DSL has one at run time only";
                Err(self.error(start, reason.to_owned()))
            }
            Some(byte) if byte.is_ascii_alphabetic() => self.named(start),
            _ => Err(self.expected("an integer, `_`, `(`, a swizzle or an operation")),
        }
    }

    /// Parses a name and its arguments.
    fn named(&mut self, start: usize) -> Result<(), EvalError> {
        let text = self.text;
        let name = word(&text[start..]);
        self.at += name.len();
        match name {
            "true" | "false" => self.push(name == "true"),
            "None" => self.push(IntTuple::any()),
            "Sw" | "S" | "Swizzle" => {
                let close = if self.eat("<") {
                    ">"
                } else if self.eat("(") {
                    ")"
                } else {
                    return Err(self.expected("`<`, as in `Sw<3,4,3>`"));
                };
                if self.list(close)? != 3 {
                    return Err(
                        self.error(self.at - 1, "expected three integers, as in `Sw<3,4,3>`".to_owned())
                    );
                }
                self.swizzle(start)
            }
            _ if Operation::named(name).is_none() => Err(operations::unknown(name).at(self.column(start))),
            _ => {
                if !self.eat("(") {
                    return Err(self.expected(&format!("`(` after the operation `{name}`")));
                }
                let count = self.list(")")?;
                self.call(name, count, start)
            }
        }
    }

    /// Parses the expressions up to `close`, after the opening bracket, and pushes their values.
    /// Returns their number.
    pub(super) fn list(&mut self, close: &str) -> Result<usize, EvalError> {
        if self.depth == DEEPEST {
            return Err(
                self.error(self.at - 1, format!("expected at most {DEEPEST} brackets in one another"))
            );
        }
        self.depth += 1;
        let mut count = 0;
        while !self.eat(close) {
            if count == MAX_NODES {
                return Err(self.error(self.at, format!("expected at most {MAX_NODES} values in a list")));
            }
            self.expression()?;
            count += 1;
            if !self.eat(",") {
                if self.eat(close) {
                    break;
                }
                return Err(self.expected(&format!("`,` or `{close}`")));
            }
        }
        self.depth -= 1;
        Ok(count)
    }

    /// The value that was pushed last.
    pub(super) fn pop(&mut self) -> Value {
        self.values.pop().expect("a value was pushed for each expression that was read")
    }

    /// The values that were pushed last.
    fn pop_all(&mut self, count: usize) -> Drain<'_, Value> {
        self.values.drain(self.values.len() - count..)
    }

    /// Replaces the last `count` values by their tuple.
    pub(super) fn tuple(&mut self, count: usize, start: usize) -> Result<(), EvalError> {
        let tuple = Value::of_list(self.pop_all(count)).map_err(|error| self.misfit(start, &error))?;
        self.values.push(tuple);
        Ok(())
    }

    /// Removes the parentheses around the last pushed layout. Alone, `(L)` is a tiler of one mode;
    /// before a call or `o` only the layout has a meaning.
    fn unwrap(&mut self) {
        while let Some(Value::List(values)) = self.values.last_mut()
            && let [Value::Layout(_) | Value::Composed(_) | Value::Swizzle(_) | Value::List(_)] =
                values.as_slice()
            && let Some(value) = values.pop()
        {
            self.pop();
            self.values.push(value);
        }
    }

    /// The swizzle of the last pushed integers.
    fn swizzle(&mut self, start: usize) -> Result<(), EvalError> {
        let numbers = Value::of_list(self.pop_all(3)).map_err(|error| self.misfit(start, &error))?;
        let swizzle = Swizzle::of(numbers)
            .map_err(|unfit| self.unfit(start, "a swizzle has three integers, as in `Sw<3,4,3>`", unfit))?;
        self.values.push(swizzle.into());
        Ok(())
    }

    /// Whether a swizzle and an offset were pushed last, so that their layout must follow.
    fn awaits_layout(&self) -> bool {
        matches!(self.values.as_slice(), [.., Value::Swizzle(_), Value::Tuple(offset)] if offset.is_int())
    }

    /// Whether a layout and an integer were pushed last: an offset if another `o` follows,
    /// otherwise a tiler.
    fn is_integer_after_layout(&self) -> bool {
        matches!(
            self.values.as_slice(),
            [.., Value::Layout(_) | Value::Composed(_), Value::Tuple(offset)] if offset.is_int()
        )
    }

    /// Parses the layout after an offset, which was pushed last. Only 0 has a meaning here: CuTe
    /// prints `A o offset o B` for layouts A too.
    fn offset_between_layouts(&mut self, place: usize) -> Result<(), EvalError> {
        let offset = self.pop();
        if !matches!(&offset, Value::Tuple(offset) if offset.leaf(0) == Leaf::Int(0)) {
            let reason = format!(
                "{offset} between two layouts is an offset, which only a swizzle takes; the layout of this extent is {offset}:1"
            );
            return Err(self.error(place, reason));
        }
        self.layout()
    }

    /// The composed layout of the last pushed swizzle, offset and layout.
    pub(super) fn compose_swizzle(&mut self, start: usize) -> Result<(), EvalError> {
        let parts = Value::List(self.pop_all(3).collect());
        let layout = ComposedLayout::of(parts)
            .map_err(|unfit| self.unfit(start, "after a swizzle comes `offset o layout`", unfit))?;
        self.values.push(layout.into());
        Ok(())
    }

    /// Applies the layout that was pushed first to the values pushed after it: returns its value at
    /// this coordinate, or, with wildcards, CuTe's slice. A single value is the coordinate itself.
    fn apply(&mut self, count: usize, start: usize, column: usize) -> Result<(), EvalError> {
        if count != 1 {
            self.tuple(count, column)?;
        }
        let has_wildcard = |coord: &IntTuple| (0..coord.leaves()).any(|i| coord.leaf(i) == Leaf::Any);
        match self.values.last() {
            Some(Value::Tuple(coord)) if has_wildcard(coord) => self.call("slice", 2, start),
            _ => self.call_layout(start),
        }
    }

    /// The value of the layout that was pushed first at the coordinate pushed after it. The error
    /// describes the call as written, not an operation that the expression does not contain.
    fn call_layout(&mut self, start: usize) -> Result<(), EvalError> {
        let written = match self.values.as_slice() {
            [.., layout, Value::Tuple(coord)] if coord.is_int() => format!("{layout}({coord})"),
            [.., layout, coord] => format!("{layout}{coord}"),
            _ => String::new(),
        };
        self.call("crd2idx", 2, start).map_err(|error| match error {
            EvalError::Layout(error) => match error.reason() {
                Some(reason) => EvalError::Call(format!("{written}: {reason}")),
                None => EvalError::Layout(error),
            },
            error => error,
        })
    }

    /// Calls an operation with the last pushed values.
    fn call(&mut self, name: &str, count: usize, start: usize) -> Result<(), EvalError> {
        let value = match Operation::named(name) {
            Some(operation) => operation.call(self.pop_all(count)),
            None => Err(operations::unknown(name)),
        };
        self.values.push(value.map_err(|error| error.at(self.column(start)))?);
        Ok(())
    }

    /// Consumes the composition operator: CuTe's `o`, or `∘`.
    pub(super) fn eat_after(&mut self) -> bool {
        self.eat_word("o") || self.eat("∘")
    }

    /// Parses an integer or a wildcard with the parser of layouts.
    fn literal(&mut self) -> Result<IntTuple, EvalError> {
        let start = self.start();
        match IntTuple::parse_prefix(&self.text[start..]) {
            Ok((tuple, bytes)) => {
                self.at = start + bytes;
                Ok(tuple)
            }
            Err(error) => Err(self.misread(start, &error)),
        }
    }

    pub(super) fn integer(&mut self) -> Result<i64, EvalError> {
        let start = self.start();
        match self.literal()? {
            tuple
                if tuple.is_int()
                    && let Leaf::Int(value) = tuple.leaf(0) =>
            {
                Ok(value)
            }
            _ => Err(self.error(start, "expected an integer".to_owned())),
        }
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// The position of the next character that is not a space.
    pub(super) fn start(&mut self) -> usize {
        self.skip_spaces();
        self.at
    }

    fn next_is(&mut self, token: &str) -> bool {
        self.skip_spaces();
        self.text[self.at..].starts_with(token)
    }

    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.next_is(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Consumes `token` if it is a whole word.
    fn eat_word(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let found = word(&self.text[self.at..]) == token;
        if found {
            self.at += token.len();
        }
        found
    }

    /// The column of a position, counted from 1 in characters.
    fn column(&self, place: usize) -> usize {
        self.text[..place].chars().count() + 1
    }

    pub(super) fn error(&self, place: usize, reason: String) -> EvalError {
        EvalError::At { column: self.column(place), reason }
    }

    fn unfit(&self, place: usize, reason: &str, unfit: Unfit) -> EvalError {
        match unfit {
            Unfit::Layout(error) => self.misfit(place, &error),
            Unfit::Kind(kind) => self.error(place, format!("{reason}, and not {kind}")),
        }
    }

    /// The error of values at `place`. For a literal it is the parser's, with its column.
    pub(super) fn misfit(&self, place: usize, error: &LayoutError) -> EvalError {
        match Notation::parse_prefix(&self.text[place..]) {
            Err(read) if read.kind() == error.kind() => self.misread(place, &read),
            _ => self.error(place, error.to_string()),
        }
    }

    /// The parser's error for its input from `place` on.
    pub(super) fn misread(&self, place: usize, error: &LayoutError) -> EvalError {
        let column = self.column(place) + error.column().unwrap_or(1) - 1;
        EvalError::At { column, reason: error.reason().unwrap_or(error.text()).to_owned() }
    }

    /// The error that the next character is not `what`.
    pub(super) fn expected(&mut self, what: &str) -> EvalError {
        let place = self.start();
        let found = match self.text[place..].chars().next() {
            Some(character) => format!("`{}`", character.escape_debug()),
            None => "the end".to_owned(),
        };
        self.error(place, format!("expected {what}, found {found}"))
    }
}

/// The word at the start of `text`; empty if `text` starts with another character.
pub(super) fn word(text: &str) -> &str {
    let end = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    &text[..end]
}
