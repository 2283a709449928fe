//! Conversion of values to the operands of an operation.

use std::vec::Drain;

use moye_device::layout::{
    ComposedLayout, IntTuple, Layout, LayoutError, Swizzle, Tiler, try_make_col_major,
};

use super::error::EvalError;
use super::operations::{Arity, Operation};
use super::value::Value;

/// The values of a call, while its operation consumes them.
pub(super) struct Operands<'a> {
    operation: &'a Operation,
    values: Drain<'a, Value>,
    taken: usize,
}

impl<'a> Operands<'a> {
    pub fn new(operation: &'a Operation, values: Drain<'a, Value>) -> Self {
        Self { operation, values, taken: 0 }
    }

    /// The next operand.
    pub fn take<T: Operand>(&mut self) -> Result<T, EvalError> {
        T::take(self)
    }

    /// The next value as a `T`, if there is one.
    fn next<T: Single>(&mut self) -> Result<Option<T>, EvalError> {
        let Some(value) = self.values.next() else { return Ok(None) };
        self.taken += 1;
        match T::of(value) {
            Ok(operand) => Ok(Some(operand)),
            Err(Unfit::Layout(error)) => Err(EvalError::Layout(error)),
            Err(Unfit::Kind(found)) => Err(EvalError::Call(format!(
                "argument {} of {} must be {}, and is {found}",
                self.taken,
                self.operation.signature(),
                T::KIND,
            ))),
        }
    }

    /// The error for too few or too many values.
    pub fn miscounted(operation: &Operation, given: usize) -> EvalError {
        let plural = if given == 1 { "" } else { "s" };
        EvalError::Call(format!("{} was given {given} argument{plural}", operation.signature()))
    }
}

/// The reason why a value is not the required operand.
#[derive(Debug)]
pub enum Unfit {
    /// It is of another kind, which this names.
    Kind(&'static str),
    /// The algebra rejects it.
    Layout(Box<LayoutError>),
}

impl Unfit {
    pub(super) fn kind(value: &Value) -> Self {
        Self::Kind(value.kind())
    }
}

impl From<LayoutError> for Unfit {
    fn from(error: LayoutError) -> Self {
        Self::Layout(Box::new(error))
    }
}

/// The type of an operation's parameter.
pub(super) trait Operand: Sized {
    /// Its name in the list of operations.
    const NAME: &'static str;
    /// The number of values that it takes.
    const ARITY: Arity;

    fn take(operands: &mut Operands) -> Result<Self, EvalError>;
}

/// An operand that is one value.
pub(super) trait Single: Sized {
    /// Its name in the list of operations.
    const NAME: &'static str;
    /// Its description in messages.
    const KIND: &'static str;

    fn of(value: Value) -> Result<Self, Unfit>;
}

impl<T: Single> Operand for T {
    const NAME: &'static str = T::NAME;
    const ARITY: Arity = Arity::One;

    fn take(operands: &mut Operands) -> Result<Self, EvalError> {
        let given = operands.taken;
        operands.next()?.ok_or_else(|| Operands::miscounted(operands.operation, given))
    }
}

impl<T: Single> Operand for Option<T> {
    const NAME: &'static str = T::NAME;
    const ARITY: Arity = Arity::Optional;

    fn take(operands: &mut Operands) -> Result<Self, EvalError> {
        operands.next()
    }
}

impl<T: Single> Operand for Vec<T> {
    const NAME: &'static str = T::NAME;
    const ARITY: Arity = Arity::Many;

    fn take(operands: &mut Operands) -> Result<Self, EvalError> {
        let mut all = Self::new();
        while let Some(operand) = operands.next()? {
            all.push(operand);
        }
        Ok(all)
    }
}

impl Single for i64 {
    const NAME: &'static str = "int";
    const KIND: &'static str = "an integer";

    fn of(value: Value) -> Result<Self, Unfit> {
        match &value {
            Value::Tuple(tuple) => tuple.as_int().ok_or(Unfit::kind(&value)),
            _ => Err(Unfit::kind(&value)),
        }
    }
}

impl Single for usize {
    const NAME: &'static str = "index";
    const KIND: &'static str = "an integer from 0";

    fn of(value: Value) -> Result<Self, Unfit> {
        i64::of(value)?.try_into().map_err(|_| Unfit::Kind("negative"))
    }
}

impl Single for IntTuple {
    const NAME: &'static str = "tuple";
    const KIND: &'static str = "an integer or a tuple";

    fn of(value: Value) -> Result<Self, Unfit> {
        match value {
            Value::Tuple(tuple) => Ok(tuple),
            other => Err(Unfit::kind(&other)),
        }
    }
}

impl Single for Layout {
    const NAME: &'static str = "layout";
    const KIND: &'static str = "a layout";

    fn of(value: Value) -> Result<Self, Unfit> {
        match value {
            Value::Layout(layout) => Ok(layout),
            // As in the notation of a layout, in which the stride may be omitted.
            Value::Tuple(shape) => Ok(try_make_col_major(shape)?),
            other => Err(Unfit::kind(&other)),
        }
    }
}

impl Single for Tiler {
    const NAME: &'static str = "tiler";
    const KIND: &'static str = "a tiler (a layout, a shape, or a tuple of these and `_`)";

    fn of(value: Value) -> Result<Self, Unfit> {
        match value {
            Value::Layout(layout) => Ok(Self::layout(layout)),
            Value::Tuple(shape) => Ok(Self::try_shape(shape)?),
            Value::List(values) => {
                let tilers = values.into_iter().map(|value| match Self::of(value) {
                    Err(Unfit::Kind(_)) => Err(Unfit::Kind("a tuple with something else in it")),
                    tiler => tiler,
                });
                let tilers = tilers.collect::<Result<Vec<_>, _>>()?;
                Ok(Self::try_by_mode(&tilers)?)
            }
            other => Err(Unfit::kind(&other)),
        }
    }
}

impl Single for Swizzle {
    const NAME: &'static str = "swizzle";
    const KIND: &'static str = "a swizzle, Sw<bits,base,shift> or the three integers";

    fn of(value: Value) -> Result<Self, Unfit> {
        match value {
            Value::Swizzle(swizzle) => Ok(swizzle),
            Value::Tuple(tuple) => match [0, 1, 2].map(|i| tuple.try_mode(i).ok()?.as_int()) {
                [Some(bits), Some(base), Some(shift)] if tuple.rank() == 3 => {
                    Ok(Self::try_new(bits, base, shift)?)
                }
                _ => Err(Unfit::Kind("a tuple of something else")),
            },
            other => Err(Unfit::kind(&other)),
        }
    }
}

impl Single for ComposedLayout {
    const NAME: &'static str = "composed";
    const KIND: &'static str = "a composed layout, Sw<bits,base,shift> o offset o layout";

    fn of(value: Value) -> Result<Self, Unfit> {
        match value {
            Value::Composed(layout) => Ok(layout),
            Value::List(parts) => {
                let parts: [Value; 3] =
                    parts.try_into().map_err(|_| Unfit::Kind("a list of something else"))?;
                let [swizzle, offset, layout] = parts;
                Ok(Self::try_new(Swizzle::of(swizzle)?, i64::of(offset)?, Layout::of(layout)?)?)
            }
            other => Err(Unfit::kind(&other)),
        }
    }
}

/// Declares an operand of several kinds: the first to which the value converts.
macro_rules! either {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $kind:literal { $($variant:ident: $($value:ident)|+),+ $(,)? })+) => {$(
        $(#[$doc])*
        // It lives for one call, and a box would cost more than the space.
        #[allow(clippy::large_enum_variant)]
        pub(super) enum $name {
            $($variant($variant)),+
        }

        impl Single for $name {
            const NAME: &'static str = $text;
            const KIND: &'static str = $kind;

            fn of(value: Value) -> Result<Self, Unfit> {
                match value {
                    $($(Value::$value(_))|+ => Ok(Self::$variant($variant::of(value)?)),)+
                    other => Err(Unfit::kind(&other)),
                }
            }
        }
    )+};
}

either! {
    /// A tuple or a layout, for queries on both.
    TupleOrLayout = "tuple or layout", "a tuple or a layout" { IntTuple: Tuple, Layout: Layout }
    /// A tuple or a layout, plain or swizzled.
    TupleOrAny = "tuple or any layout", "a tuple, a layout or a composed layout" {
        IntTuple: Tuple,
        Layout: Layout,
        ComposedLayout: Composed,
    }
    /// A layout, plain or swizzled.
    AnyLayout = "any layout", "a layout or a composed layout" {
        Layout: Layout | Tuple,
        ComposedLayout: Composed,
    }
    /// The outer function of a composition.
    Outer = "any layout", "a layout, a swizzle or a composed layout" {
        Layout: Layout | Tuple,
        Swizzle: Swizzle,
        ComposedLayout: Composed,
    }
    /// The inner function of a composition.
    Inner = "tiler, swizzle or composed", "a layout, a tiler, a swizzle or a composed layout" {
        Tiler: Layout | Tuple | List,
        Swizzle: Swizzle,
        ComposedLayout: Composed,
    }
}
