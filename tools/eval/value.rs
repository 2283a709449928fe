//! The values of expressions.

use std::fmt;
use std::vec::Drain;

use moye_device::layout::{ComposedLayout, IntTuple, Layout, LayoutError, Swizzle};

use super::error::EvalError;

/// The value of an expression or an argument, and the result of an operation.
///
/// Its notation is parsed as the same value (except for tables with more integers than a tuple
/// holds).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// An integer, a shape, a stride, a coordinate or a profile: `4`, `(4,(2,_))`, `1@0`.
    Tuple(IntTuple),
    /// A layout: `(4,2):(1,4)`.
    Layout(Layout),
    /// A swizzle: `Sw<3,4,3>`.
    Swizzle(Swizzle),
    /// A swizzle after an offset after a layout: `Sw<3,3,3> o 0 o (8,64):(64,1)`.
    Composed(ComposedLayout),
    /// Several values that are not all tuples: a tiler by mode, or a result of several parts.
    List(Vec<Value>),
    /// The values of a function, one after another.
    Table(Vec<IntTuple>),
}

impl Value {
    /// Its kind in a word, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Bool(_) => "a truth value",
            Self::Tuple(tuple) if tuple.as_int().is_some() => "an integer",
            Self::Tuple(_) => "a tuple",
            Self::Layout(_) => "a layout",
            Self::Swizzle(_) => "a swizzle",
            Self::Composed(_) => "a composed layout",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// The values side by side: a tuple if all are tuples.
    pub(super) fn of_list(values: Drain<'_, Self>) -> Result<Self, LayoutError> {
        if values.as_slice().iter().any(|value| !matches!(value, Self::Tuple(_))) {
            return Ok(Self::List(values.collect()));
        }
        let elements: Vec<IntTuple> = values
            .filter_map(|value| if let Self::Tuple(tuple) = value { Some(tuple) } else { None })
            .collect();
        IntTuple::try_tuple(&elements).map(Self::Tuple)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Tuple(tuple) => tuple.fmt(f),
            Self::Layout(layout) => layout.fmt(f),
            Self::Swizzle(swizzle) => swizzle.fmt(f),
            Self::Composed(layout) => layout.fmt(f),
            Self::List(values) => side_by_side(f, values),
            Self::Table(values) => side_by_side(f, values),
        }
    }
}

fn side_by_side(f: &mut fmt::Formatter<'_>, values: &[impl fmt::Display]) -> fmt::Result {
    f.write_str("(")?;
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            f.write_str(",")?;
        }
        value.fmt(f)?;
    }
    f.write_str(")")
}

macro_rules! from {
    ($($ty:ty: $value:ident => $of:expr;)+) => {$(
        impl From<$ty> for Value {
            fn from($value: $ty) -> Self {
                $of
            }
        }
    )+};
}

from! {
    bool: value => Self::Bool(value);
    i64: value => Self::Tuple(IntTuple::int(value));
    IntTuple: tuple => Self::Tuple(tuple);
    Layout: layout => Self::Layout(layout);
    Swizzle: swizzle => Self::Swizzle(swizzle);
    ComposedLayout: layout => Self::Composed(layout);
    Vec<Value>: values => Self::List(values);
    Vec<IntTuple>: values => Self::Table(values);
}

/// The result of an operation's body: a value, or a `Result` of one.
pub(super) trait Answer {
    fn answer(self) -> Result<Value, EvalError>;
}

impl<T: Into<Value>, E: Into<EvalError>> Answer for Result<T, E> {
    fn answer(self) -> Result<Value, EvalError> {
        match self {
            Ok(value) => Ok(value.into()),
            Err(error) => Err(error.into()),
        }
    }
}

macro_rules! plain_answers {
    ($($ty:ty)+) => {$(
        impl Answer for $ty {
            fn answer(self) -> Result<Value, EvalError> {
                Ok(self.into())
            }
        }
    )+};
}

plain_answers!(bool i64 IntTuple Layout Value);
