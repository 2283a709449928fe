//! The expression language.
//!
//! ```text
//! expression := layout { "o" layout }           composition, or swizzle o offset o layout
//! layout     := term [ ":" term ]               shape:stride
//! term       := integer [ "@" integer ] | "_" | "true" | "false"
//!             | "(" list ")" | "<" list ">"      a tuple, or a tiler by mode
//!             | "Sw" "<" list ">"                a swizzle
//!             | name "(" list ")"                an operation
//! list       := [ expression { "," expression } [ "," ] ]
//! ```
//!
//! Spaces are free. Integers may be written as CuTe prints static ones (`_4`).

use moye_device::layout::{ComposedLayout, IntTuple, MAX_BASIS, MAX_NODES, try_make_layout};

use super::error::EvalError;
use super::operand::{Single, Unfit};
use super::operations::{self, Operation};
use super::value::Value;

/// Nesting beyond this is refused before it overflows the stack. It is more than a tuple may nest.
const DEEPEST: usize = 64;

/// The value of an expression.
///
/// # Errors
/// Where the text is no expression (the error names the column and what was expected there), where an operation is
/// given what it does not take, or where it has no answer (the error is its own, with the operands).
///
/// ```
/// let value = moye::eval::evaluate("coalesce(composition((6,2):(8,2), (4,3):(3,1)))").unwrap();
/// assert_eq!(value.to_string(), "(2,2,3):(24,2,8)");
/// ```
pub fn evaluate(text: &str) -> Result<Value, EvalError> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.expression()?;
    reader.skip_spaces();
    if reader.at < text.len() {
        return Err(reader.expected("an operator or the end"));
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn expression(&mut self) -> Result<Value, EvalError> {
        let start = self.start();
        let mut value = self.layout()?;
        while self.eat_word("o") || self.eat("∘") {
            let next = self.layout()?;
            value = match (value, next) {
                // A swizzle waits for the layout that follows its offset.
                (swizzle @ Value::Swizzle(_), offset @ Value::Tuple(_)) => {
                    if !(self.eat_word("o") || self.eat("∘")) {
                        return Err(self.expected("`o` and a layout, as in `Sw<3,4,3> o 0 o (8,64):(64,1)`"));
                    }
                    let layout = self.layout()?;
                    ComposedLayout::of(Value::List(vec![swizzle, offset, layout]))
                        .map(Value::Composed)
                        .map_err(|unfit| self.unfit(start, "after a swizzle comes `offset o layout`", unfit))?
                }
                (first, second) => self.call("composition", vec![first, second], start)?,
            };
        }
        Ok(value)
    }

    fn layout(&mut self) -> Result<Value, EvalError> {
        let start = self.start();
        let shape = self.term()?;
        if !self.eat(":") {
            return Ok(shape);
        }
        let column = self.start();
        let stride = self.term()?;
        match (shape, stride) {
            (Value::Tuple(shape), Value::Tuple(stride)) => Ok(try_make_layout(shape, stride)?.into()),
            (Value::Tuple(_), other) => Err(self.error(column, format!("expected a stride, found {}", other.kind()))),
            (other, _) => Err(self.error(start, format!("expected a shape before `:`, found {}", other.kind()))),
        }
    }

    fn term(&mut self) -> Result<Value, EvalError> {
        let start = self.start();
        let rest = &self.text[self.at..];
        match rest.bytes().next() {
            Some(b'(') => {
                self.at += 1;
                let values = self.list(")")?;
                Ok(Value::of_list(values)?)
            }
            Some(b'<') => {
                self.at += 1;
                let values = self.list(">")?;
                Ok(Value::of_list(values)?)
            }
            Some(b'_' | b'-' | b'0'..=b'9') => self.leaf().map(Value::Tuple),
            Some(byte) if byte.is_ascii_alphabetic() => {
                let name = word(rest);
                self.at += name.len();
                self.named(name.to_owned(), start)
            }
            _ => Err(self.expected("an integer, `_`, `(`, a swizzle or an operation")),
        }
    }

    /// What follows a name.
    fn named(&mut self, name: String, start: usize) -> Result<Value, EvalError> {
        match name.as_str() {
            "true" => return Ok(Value::Bool(true)),
            "false" => return Ok(Value::Bool(false)),
            "Sw" | "Swizzle" => {
                if !self.eat("<") {
                    return Err(self.expected("`<`, as in `Sw<3,4,3>`"));
                }
                let numbers = Value::of_list(self.list(">")?)?;
                return moye_device::layout::Swizzle::of(numbers).map(Value::Swizzle).map_err(|unfit| {
                    self.unfit(start, "a swizzle has three integers, as in `Sw<3,4,3>`", unfit)
                });
            }
            _ => {}
        }
        if Operation::named(&name).is_none() {
            return Err(operations::unknown(&name).at(self.column(start)));
        }
        if !self.eat("(") {
            return Err(self.expected(&format!("`(` after the operation `{name}`")));
        }
        let values = self.list(")")?;
        self.call(&name, values, start)
    }

    fn call(&self, name: &str, values: Vec<Value>, start: usize) -> Result<Value, EvalError> {
        match Operation::named(name) {
            Some(operation) => operation.call(values).map_err(|error| error.at(self.column(start))),
            None => Err(operations::unknown(name).at(self.column(start))),
        }
    }

    /// The expressions up to `close`, after the opening bracket.
    fn list(&mut self, close: &str) -> Result<Vec<Value>, EvalError> {
        if self.depth == DEEPEST {
            return Err(self.error(self.at - 1, format!("expected at most {DEEPEST} brackets in one another")));
        }
        self.depth += 1;
        let mut values = Vec::new();
        while !self.eat(close) {
            if values.len() == MAX_NODES {
                return Err(self.error(self.at, format!("expected at most {MAX_NODES} values in a list")));
            }
            values.push(self.expression()?);
            if !self.eat(",") {
                if self.eat(close) {
                    break;
                }
                return Err(self.expected(&format!("`,` or `{close}`")));
            }
        }
        self.depth -= 1;
        Ok(values)
    }

    fn leaf(&mut self) -> Result<IntTuple, EvalError> {
        if self.eat("_") && !self.number_is_next() {
            return Ok(IntTuple::any());
        }
        let value = self.integer()?;
        if !self.eat("@") {
            return Ok(IntTuple::int(value));
        }
        let start = self.start();
        match usize::try_from(self.integer()?) {
            Ok(basis) if basis < MAX_BASIS => Ok(IntTuple::scaled(value, basis)),
            _ => Err(self.error(start, format!("expected the number of a basis vector, from 0 to {}", MAX_BASIS - 1))),
        }
    }

    fn integer(&mut self) -> Result<i64, EvalError> {
        let start = self.start();
        let rest = &self.text[start..];
        let sign = usize::from(rest.starts_with('-'));
        let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            self.at += sign;
            return Err(self.expected("an integer"));
        }
        self.at += sign + digits;
        rest[..sign + digits]
            .parse()
            .map_err(|_| self.error(start, "expected an integer of at most 64 bits".to_owned()))
    }

    /// Whether a digit, or a minus, comes next without a space.
    fn number_is_next(&self) -> bool {
        matches!(self.text.as_bytes().get(self.at), Some(b'-' | b'0'..=b'9'))
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// The place of the next character that is no space.
    fn start(&mut self) -> usize {
        self.skip_spaces();
        self.at
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Takes `token` where it is a word of its own.
    fn eat_word(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let found = word(&self.text[self.at..]) == token;
        if found {
            self.at += token.len();
        }
        found
    }

    /// The column of a place, counted from 1 in characters.
    fn column(&self, place: usize) -> usize {
        self.text[..place].chars().count() + 1
    }

    fn error(&self, place: usize, reason: String) -> EvalError {
        EvalError::At { column: self.column(place), reason }
    }

    fn unfit(&self, place: usize, reason: &str, unfit: Unfit) -> EvalError {
        match unfit {
            Unfit::Layout(error) => EvalError::Layout(error),
            Unfit::Kind(kind) => self.error(place, format!("{reason}, and not {kind}")),
        }
    }

    /// The error of something else than `what` at the next character.
    fn expected(&mut self, what: &str) -> EvalError {
        let place = self.start();
        let found = match self.text[place..].chars().next() {
            Some(character) => format!("`{}`", character.escape_debug()),
            None => "the end".to_owned(),
        };
        self.error(place, format!("expected {what}, found {found}"))
    }
}

/// The word at the beginning of `text`; empty where there is none.
fn word(text: &str) -> &str {
    let end = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    &text[..end]
}
