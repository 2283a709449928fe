//! Parsing of requests in JSON.
//!
//! Values are large, and lists nest. So parsed values are on a separate stack, which is reused from
//! request to request: nesting needs little of the program's stack, and parsing little memory.

use std::borrow::Cow;
use std::fmt;

use moye_device::layout::{
    ComposedLayout, IntTuple, Layout, MAX_LEAVES, MAX_NODES, Swizzle, try_make_col_major,
};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::error::EvalError;
use crate::operand::{Single, Unfit};
use crate::parse::evaluate;
use crate::value::Value;

/// The parsed values, and the integers of lists that are flat so far.
#[derive(Default)]
pub struct Stack {
    pub values: Vec<Value>,
    integers: Vec<i64>,
}

/// Parses the request of a line: leaves its arguments on the stack and returns its operation, or an
/// error with the column.
pub fn request<'a>(line: &'a [u8], stack: &mut Stack) -> Result<Cow<'a, str>, String> {
    stack.values.clear();
    stack.integers.clear();
    // A column after the line feed would belong to the next line.
    let line = line.trim_ascii_end();
    if line.is_empty() {
        return Err(
            "column 1: expected a request, {\"op\": \"...\", \"args\": [...]}, and the line is blank"
                .to_owned(),
        );
    }
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let request = deserializer.deserialize_map(RequestVisitor(stack));
    request.and_then(|op| deserializer.end().map(|()| op)).map_err(|error| {
        let text = error.to_string();
        // The input is one line, so the line number would always be 1.
        let reason = text.rfind(" at line ").map_or(text.as_str(), |end| &text[..end]);
        let reason = match number_before(line, error.column()) {
            // The second message is serde_json's for a number that is not even floating point.
            Some(number) if reason == NO_INTEGER || reason == "number out of range" => {
                format!("{} {NO_INTEGER}", shortened(number))
            }
            _ => shortened_to(reason, LONGEST_REASON),
        };
        if error.column() == 0 { reason } else { format!("column {}: {reason}", error.column()) }
    })
}

/// The message for a number that serde_json parses as floating point: its value may differ from the
/// one in the line.
const NO_INTEGER: &str = "is not an integer of 64 bits: it has a fraction or an exponent, or is beyond them";

/// The longest reason that quotes the line, in bytes.
const LONGEST_REASON: usize = 1000;

/// The longest part of a line that is quoted, in bytes.
const LONGEST_QUOTE: usize = 80;

/// The number that contains a column of a line, or the last one before it.
fn number_before(line: &[u8], column: usize) -> Option<&str> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    let read = &line[..column.min(line.len())];
    let mut end = read.iter().rposition(is_part)? + 1;
    if end == read.len() {
        end += line[end..].iter().take_while(|byte| is_part(byte)).count();
    }
    let start = line[..end].iter().rposition(|byte| !is_part(byte)).map_or(0, |before| before + 1);
    std::str::from_utf8(&line[start..end]).ok()
}

/// A quotation from a line, shortened.
fn shortened(text: &str) -> String {
    shortened_to(text, LONGEST_QUOTE)
}

fn shortened_to(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let end = (0..=longest).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

struct RequestVisitor<'s>(&'s mut Stack);

impl<'de> Visitor<'de> for RequestVisitor<'_> {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a request, {\"op\": \"...\", \"args\": [...]}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut op = None;
        let mut has_args = false;
        while let Some(Text(key)) = entries.next_key()? {
            match &*key {
                "op" => {
                    let Text(name) = entries.next_value()?;
                    if op.replace(name).is_some() {
                        return Err(A::Error::duplicate_field("op"));
                    }
                }
                "args" if has_args => return Err(A::Error::duplicate_field("args")),
                "args" => {
                    has_args = true;
                    entries.next_value_seed(Arguments(self.0))?;
                }
                // Other keys of a request are for the sender's use.
                _ => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        if !has_args {
            return Err(A::Error::missing_field("args"));
        }
        op.ok_or_else(|| A::Error::missing_field("op"))
    }
}

/// A string, borrowed from the line if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The list of arguments.
struct Arguments<'s>(&'s mut Stack);

impl<'de> DeserializeSeed<'de> for Arguments<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Arguments<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of arguments")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(read) = elements.next_element_seed(Element(self.0))? {
            if let Read::Integer(value) = read {
                self.0.values.push(value.into());
            }
            if self.0.values.len() > MAX_NODES {
                return Err(A::Error::custom(TooLong));
            }
        }
        Ok(())
    }
}

/// A parsed element: an integer, or a value that is now on the stack.
enum Read {
    Integer(i64),
    Pushed,
}

/// A value: an integer, `null` for `_`, a list, a layout, swizzle or composed layout by its parts,
/// or a string with an expression.
struct Element<'s>(&'s mut Stack);

impl Element<'_> {
    fn push(self, value: impl Into<Value>) -> Read {
        self.0.values.push(value.into());
        Read::Pushed
    }
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = Read;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Read, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an integer, null, a list, a layout, or the text form of one")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Read, E> {
        Ok(Read::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Read, E> {
        i64::try_from(value)
            .map(Read::Integer)
            .map_err(|_| E::custom(format_args!("{value} does not fit in a signed integer of 64 bits")))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Read, E> {
        Err(E::custom(NO_INTEGER))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Read, E> {
        Ok(self.push(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Read, E> {
        Ok(self.push(IntTuple::any()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Read, E> {
        match evaluate(text) {
            Ok(value) => Ok(self.push(value)),
            // The column is within the expression.
            Err(EvalError::At { column, reason }) => {
                Err(E::custom(format_args!("{:?}, column {column}: {reason}", shortened(text))))
            }
            Err(other) => Err(E::custom(other)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Read, A::Error> {
        let (integers, values) = (self.0.integers.len(), self.0.values.len());
        let mut is_flat = true;
        let mut count = 0;
        while let Some(read) = elements.next_element_seed(Element(self.0))? {
            match read {
                Read::Integer(value) if is_flat => self.0.integers.push(value),
                Read::Integer(value) => self.0.values.push(value.into()),
                Read::Pushed if is_flat => {
                    is_flat = false;
                    self.0.spill(integers, values);
                }
                Read::Pushed => {}
            }
            count += 1;
            if count > MAX_NODES {
                return Err(A::Error::custom(TooLong));
            }
        }
        let listed = if is_flat { self.0.flat(integers) } else { self.0.nested(values) };
        listed.map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Read, A::Error> {
        let bottom = self.0.values.len();
        let mut parts = Parts::default();
        while let Some(key) = entries.next_key()? {
            let (part, name) = parts.of(key);
            if part.replace(self.0.values.len() - bottom).is_some() {
                return Err(A::Error::duplicate_field(name));
            }
            if let Read::Integer(value) = entries.next_value_seed(Element(self.0))? {
                self.0.values.push(value.into());
            }
        }
        self.0.assemble(bottom, &parts).map_err(|unfit| match unfit {
            Unfit::Layout(error) => A::Error::custom(error),
            Unfit::Kind(kind) => A::Error::custom(format_args!(
                "expected {{\"shape\", \"stride\"}} of integers or lists, {{\"swizzle\"}} or {{\"swizzle\", \
                 \"offset\", \"layout\"}}, and a part is {kind}"
            )),
        })
    }
}

impl Stack {
    /// Moves the integers of a list that turns out not to be flat before the value that shows it.
    fn spill(&mut self, integers: usize, values: usize) {
        let before = self.integers.drain(integers..).map(Value::from);
        self.values.splice(values..values, before);
    }

    /// Pushes the tuple of the integers from `start` on.
    fn flat(&mut self, start: usize) -> Result<Read, EvalError> {
        let integers = &self.integers[start..];
        let tuple = if integers.len() <= MAX_LEAVES {
            IntTuple::flat(integers)
        } else {
            // This reports what a tuple can hold.
            IntTuple::try_tuple(&integers.iter().copied().map(IntTuple::int).collect::<Vec<_>>())?
        };
        self.integers.truncate(start);
        self.values.push(tuple.into());
        Ok(Read::Pushed)
    }

    /// Pushes the list of the values from `start` on.
    fn nested(&mut self, start: usize) -> Result<Read, EvalError> {
        let list = Value::of_list(self.values.drain(start..))?;
        self.values.push(list);
        Ok(Read::Pushed)
    }

    /// Pushes the value that the parts of an object, at `bottom` and above, form.
    fn assemble(&mut self, bottom: usize, parts: &Parts) -> Result<Read, Unfit> {
        let values = &mut self.values[bottom..];
        let mut take =
            |part: Option<usize>| part.map(|place| std::mem::replace(&mut values[place], Value::Bool(false)));
        let (shape, stride) = (take(parts.shape), take(parts.stride));
        let (swizzle, offset, layout) = (take(parts.swizzle), take(parts.offset), take(parts.layout));
        let value = match (shape, stride, swizzle, offset, layout) {
            (Some(shape), Some(stride), None, None, None) => {
                Layout::try_new(IntTuple::of(shape)?, IntTuple::of(stride)?)?.into()
            }
            (Some(shape), None, None, None, None) => try_make_col_major(IntTuple::of(shape)?)?.into(),
            (None, None, Some(swizzle), None, None) => Swizzle::of(swizzle)?.into(),
            (None, None, Some(swizzle), offset, Some(layout)) => {
                let offset = offset.map_or(Ok(0), i64::of)?;
                ComposedLayout::try_new(Swizzle::of(swizzle)?, offset, Layout::of(layout)?)?.into()
            }
            _ => return Err(Unfit::Kind("missing or too much")),
        };
        self.values.truncate(bottom);
        self.values.push(value);
        Ok(Read::Pushed)
    }
}

/// The error that a list is too long.
struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "a list has at most {MAX_NODES} elements")
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Key {
    Shape,
    Stride,
    Swizzle,
    Offset,
    Layout,
}

/// The positions of an object's parts.
#[derive(Default)]
struct Parts {
    shape: Option<usize>,
    stride: Option<usize>,
    swizzle: Option<usize>,
    offset: Option<usize>,
    layout: Option<usize>,
}

impl Parts {
    fn of(&mut self, key: Key) -> (&mut Option<usize>, &'static str) {
        match key {
            Key::Shape => (&mut self.shape, "shape"),
            Key::Stride => (&mut self.stride, "stride"),
            Key::Swizzle => (&mut self.swizzle, "swizzle"),
            Key::Offset => (&mut self.offset, "offset"),
            Key::Layout => (&mut self.layout, "layout"),
        }
    }
}
