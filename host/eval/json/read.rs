//! Requests from JSON.

use std::borrow::Cow;
use std::fmt;

use moye_device::layout::{ComposedLayout, IntTuple, Layout, MAX_LEAVES, MAX_NODES, Swizzle};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::eval::error::EvalError;
use crate::eval::operand::{Single, Unfit};
use crate::eval::parse::evaluate;
use crate::eval::value::Value;

/// An operation and what it is given. Other keys of a request are left aside.
#[derive(Deserialize)]
pub struct Request<'a> {
    #[serde(borrow)]
    pub op: Cow<'a, str>,
    pub args: Vec<Value>,
}

/// The request of a line, or what is wrong with it, with the column.
pub fn request(line: &[u8]) -> Result<Request<'_>, String> {
    serde_json::from_slice(line).map_err(|error| {
        let text = error.to_string();
        // A line is all there is: the number of the line would be 1.
        let reason = text.rfind(" at line ").map_or(text.as_str(), |end| &text[..end]);
        if error.column() == 0 { reason.to_owned() } else { format!("column {}: {reason}", error.column()) }
    })
}

/// A value: an integer, `null` for `_`, a list, a layout, a swizzle or a composed layout by its parts, or text.
impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an integer, null, a list, a layout, or the text form of one")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value)
            .map(Value::from)
            .map_err(|_| E::custom(format_args!("{value} does not fit in a signed integer of 64 bits")))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Err(E::custom(format_args!("{value} is no integer of 64 bits")))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(IntTuple::any().into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        evaluate(text).map_err(|error| match error {
            // The column is one of the text.
            EvalError::At { column, reason } => E::custom(format_args!("{text:?}, column {column}: {reason}")),
            other => E::custom(other),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        // Lists of integers, which are most, are gathered without a value for each.
        let mut flat = [0; MAX_LEAVES];
        let mut count = 0;
        let first = loop {
            match elements.next_element()? {
                None => return Ok(IntTuple::flat(&flat[..count]).into()),
                Some(Element::Int(value)) if count < MAX_LEAVES => {
                    flat[count] = value;
                    count += 1;
                }
                Some(other) => break other,
            }
        };
        let mut values: Vec<Value> = flat[..count].iter().map(|value| Value::from(*value)).collect();
        values.push(first.into());
        while let Some(value) = elements.next_element()? {
            if values.len() == MAX_NODES {
                return Err(A::Error::custom(format_args!("a list has at most {MAX_NODES} elements")));
            }
            values.push(value);
        }
        Value::of_list(values).map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut parts = Parts::default();
        while let Some(key) = entries.next_key()? {
            let (part, name) = match key {
                Key::Shape => (&mut parts.shape, "shape"),
                Key::Stride => (&mut parts.stride, "stride"),
                Key::Swizzle => (&mut parts.swizzle, "swizzle"),
                Key::Offset => (&mut parts.offset, "offset"),
                Key::Layout => (&mut parts.layout, "layout"),
            };
            if part.replace(entries.next_value()?).is_some() {
                return Err(A::Error::duplicate_field(name));
            }
        }
        parts.value().map_err(|unfit| match unfit {
            Unfit::Layout(error) => A::Error::custom(error),
            Unfit::Kind(kind) => A::Error::custom(format_args!(
                "expected {{\"shape\", \"stride\"}} of integers or lists, {{\"swizzle\"}} or {{\"swizzle\", \
                 \"offset\", \"layout\"}}, and a part is {kind}"
            )),
        })
    }
}

/// An element of a list, integers apart.
enum Element {
    Int(i64),
    Other(Value),
}

impl From<Element> for Value {
    fn from(element: Element) -> Self {
        match element {
            Element::Int(value) => value.into(),
            Element::Other(value) => value,
        }
    }
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ElementVisitor)
    }
}

struct ElementVisitor;

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        ValueVisitor.expecting(f)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Element, E> {
        Ok(Element::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Element, E> {
        match i64::try_from(value) {
            Ok(value) => Ok(Element::Int(value)),
            Err(_) => ValueVisitor.visit_u64(value).map(Element::Other),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Element, E> {
        ValueVisitor.visit_f64(value).map(Element::Other)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Element, E> {
        ValueVisitor.visit_bool(value).map(Element::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Element, E> {
        ValueVisitor.visit_unit().map(Element::Other)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Element, E> {
        ValueVisitor.visit_str(text).map(Element::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Element, A::Error> {
        ValueVisitor.visit_seq(elements).map(Element::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Element, A::Error> {
        ValueVisitor.visit_map(entries).map(Element::Other)
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

/// What an object says.
#[derive(Default)]
struct Parts {
    shape: Option<Value>,
    stride: Option<Value>,
    swizzle: Option<Value>,
    offset: Option<Value>,
    layout: Option<Value>,
}

impl Parts {
    fn value(self) -> Result<Value, Unfit> {
        match (self.shape, self.swizzle) {
            (Some(shape), None) if self.offset.is_none() && self.layout.is_none() => {
                let shape = IntTuple::of(shape)?;
                Ok(match self.stride {
                    Some(stride) => Layout::try_new(shape, IntTuple::of(stride)?)?.into(),
                    None => moye_device::layout::try_make_col_major(shape)?.into(),
                })
            }
            (None, Some(swizzle)) if self.stride.is_none() => {
                let swizzle = Swizzle::of(swizzle)?;
                let offset = self.offset.map_or(Ok(0), i64::of)?;
                match self.layout {
                    Some(layout) => Ok(ComposedLayout::try_new(swizzle, offset, Layout::of(layout)?)?.into()),
                    None if offset == 0 => Ok(swizzle.into()),
                    None => Err(Unfit::Kind("missing")),
                }
            }
            _ => Err(Unfit::Kind("missing or too much")),
        }
    }
}
