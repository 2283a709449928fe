//! An operation's declaration: its operands, options, reference and cases, as data.

use super::{Array, ArrayType, Axes, Dtype};
use crate::stream::Stream;
use crate::{Error, Result};
use std::fmt;
use std::ops::Range;

/// An operation as the program, Python, the harness and the benchmark know it.
pub struct Declaration {
    /// The name: a command of the program, a function in Python.
    pub name: &'static str,
    /// What it computes, in one sentence.
    pub summary: &'static str,
    /// The operands that it reads, then the operands that it writes.
    pub operands: &'static [OperandOf],
    /// The options.
    pub options: &'static [OptionOf],
    /// Element type and shape of each result, for the inputs in order; `None` for an omitted input.
    pub results: fn(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>>,
    /// Computes a call on a stream.
    ///
    /// # Safety
    /// The call passes [`Declaration::check`]. Its arrays are in memory of the stream's device, and
    /// stay valid until the work is complete. A written array shares no elements with a read one,
    /// or is the same array.
    pub run: unsafe fn(stream: &Stream, call: &Call<'_>) -> Result<()>,
    /// The name of the kernel that computes a call on the stream's device.
    pub explain: fn(stream: &Stream, call: &Call<'_>) -> Result<&'static str>,
    /// The results in float64, for inputs with their elements row-major.
    pub reference: fn(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options) -> Vec<Vec<f64>>,
    /// The maximum relative error (in norm) of results of a type.
    pub tolerance: fn(Dtype) -> f64,
    /// The cases of the test harness.
    pub cases: &'static [Case],
    /// The cases of the benchmark.
    pub bench: &'static [Case],
}

/// The role of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Read.
    Input,
    /// Read, or omitted.
    Optional,
    /// Written.
    Result,
    /// Written, or omitted.
    OptionalResult,
}

impl Role {
    /// Whether the operand is read.
    pub const fn is_input(self) -> bool {
        matches!(self, Self::Input | Self::Optional)
    }

    /// Whether the operand may be omitted.
    pub const fn is_optional(self) -> bool {
        matches!(self, Self::Optional | Self::OptionalResult)
    }
}

/// An operand.
#[derive(Clone, Copy, Debug)]
pub struct OperandOf {
    /// Its name.
    pub name: &'static str,
    /// Its meaning and its shape.
    pub about: &'static str,
    /// Its role.
    pub role: Role,
    /// The element types that it accepts. In the harness and the benchmark, operands with the same
    /// list have the same type.
    pub dtypes: &'static [Dtype],
    /// Whether it must be row-major without gaps and start at a multiple of 16 bytes.
    pub dense: bool,
}

impl OperandOf {
    /// An operand of any type of [`Dtype::FLOATS`].
    pub const fn new(role: Role, name: &'static str, about: &'static str) -> Self {
        Self { name, about, role, dtypes: Dtype::FLOATS, dense: false }
    }

    /// The operand with these element types.
    #[must_use]
    pub const fn of(self, dtypes: &'static [Dtype]) -> Self {
        Self { dtypes, ..self }
    }

    /// The operand, required to be row-major without gaps and to start at a multiple of 16 bytes.
    #[must_use]
    pub const fn dense(self) -> Self {
        Self { dense: true, ..self }
    }

    /// The element type of this name.
    ///
    /// # Errors
    /// The operand does not accept the type: a message that lists the types that it accepts.
    pub fn dtype(&self, name: &str) -> Result<Dtype, String> {
        let known = self.dtypes.iter().find(|dtype| dtype.name() == name);
        known.copied().ok_or_else(|| {
            let names: Vec<_> = self.dtypes.iter().map(|dtype| dtype.name()).collect();
            let (last, others) = names.split_last().expect("an operand has an element type");
            let takes =
                if others.is_empty() { (*last).to_owned() } else { others.join(", ") + " or " + last };
            format!("{} has elements of {name}, and must have {takes}", self.name)
        })
    }
}

/// An option, with its default.
#[derive(Clone, Copy, Debug)]
pub struct OptionOf {
    /// Its name.
    pub name: &'static str,
    /// Its effect.
    pub about: &'static str,
    /// Its default value; other values have the same type.
    pub default: Value,
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// An element type.
    Dtype(Dtype),
    /// Axes of an array.
    Axes(Axes),
    /// One of several names: the chosen one, and all of them.
    Choice(&'static str, &'static [&'static str]),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Dtype(dtype) => write!(f, "{dtype}"),
            Self::Axes(axes) => write!(f, "{axes}"),
            Self::Choice(name, _) => f.write_str(name),
        }
    }
}

/// The values of all options of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Options(Vec<(&'static str, Value)>);

impl Options {
    /// The default options of an operation.
    pub fn of(declaration: &Declaration) -> Self {
        Self(declaration.options.iter().map(|option| (option.name, option.default)).collect())
    }

    /// The value of an option, for modification.
    fn find(&mut self, operation: &'static str, name: &str) -> Result<&mut Value> {
        let Some(index) = self.0.iter().position(|(known, _)| *known == name) else {
            let names = self.0.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let detail = format!("there is no option {name}; there are {names}");
            return Err(Error::Unsupported { operation, detail });
        };
        Ok(&mut self.0[index].1)
    }

    /// Sets an option to one of its names.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no such option or name, or the option's values are not
    /// names.
    pub fn choose(&mut self, operation: &'static str, name: &str, chosen: &str) -> Result<()> {
        let known = self.find(operation, name)?;
        let Value::Choice(_, names) = *known else {
            let detail = format!("{name} is {known} by default, and takes no name ({chosen:?})");
            return Err(Error::Unsupported { operation, detail });
        };
        let Some(chosen) = names.iter().find(|of| **of == chosen) else {
            let detail = format!("{name} is {chosen:?}, and must be one of {}", names.join(", "));
            return Err(Error::Unsupported { operation, detail });
        };
        *known = Value::Choice(chosen, names);
        Ok(())
    }

    /// Sets an option.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no such option, or its values have another type. A number
    /// option accepts an integer.
    pub fn set(&mut self, operation: &'static str, name: &str, value: Value) -> Result<()> {
        if let Value::Choice(chosen, _) = value {
            return self.choose(operation, name, chosen);
        }
        let unsupported = |detail| Error::Unsupported { operation, detail };
        let known = self.find(operation, name)?;
        *known = match (*known, value) {
            (Value::Float(_), Value::Int(value)) => Value::Float(value as f64),
            (Value::Axes(_), Value::Int(axis)) => Value::Axes(Axes::new([axis])),
            (Value::Int(_), Value::Int(_))
            | (Value::Float(_), Value::Float(_))
            | (Value::Bool(_), Value::Bool(_))
            | (Value::Dtype(_), Value::Dtype(_))
            | (Value::Axes(_), Value::Axes(_)) => value,
            (Value::Int(_), other) => {
                return Err(unsupported(format!("{name} is a whole number, not {other}")));
            }
            (Value::Float(_), other) => {
                return Err(unsupported(format!("{name} is a number, not {other}")));
            }
            (Value::Bool(_), other) => {
                return Err(unsupported(format!("{name} is true or false, not {other}")));
            }
            (Value::Dtype(_), other) => {
                return Err(unsupported(format!("{name} is the name of an element type, not {other}")));
            }
            (Value::Axes(_), other) => {
                return Err(unsupported(format!("{name} is the number of an axis or several, not {other}")));
            }
            (Value::Choice(_, names), other) => {
                return Err(unsupported(format!("{name} is one of {}, not {other}", names.join(", "))));
            }
        };
        Ok(())
    }

    fn get(&self, name: &str) -> Value {
        let known = self.0.iter().find(|(known, _)| *known == name);
        known.unwrap_or_else(|| panic!("the operation declares no option `{name}`")).1
    }

    /// The value of an integer option.
    ///
    /// # Panics
    /// The operation does not declare such an option.
    pub fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Value::Int(value) => value,
            other => panic!("the operation declares `{name}` as {other:?}"),
        }
    }

    /// The value of a number option.
    ///
    /// # Panics
    /// As for [`Options::int`].
    pub fn float(&self, name: &str) -> f64 {
        match self.get(name) {
            Value::Float(value) => value,
            other => panic!("the operation declares `{name}` as {other:?}"),
        }
    }

    /// The value of an option that is true or false.
    ///
    /// # Panics
    /// As for [`Options::int`].
    pub fn bool(&self, name: &str) -> bool {
        match self.get(name) {
            Value::Bool(value) => value,
            other => panic!("the operation declares `{name}` as {other:?}"),
        }
    }

    /// The value of an element type option.
    ///
    /// # Panics
    /// As for [`Options::int`].
    pub fn dtype(&self, name: &str) -> Dtype {
        match self.get(name) {
            Value::Dtype(dtype) => dtype,
            other => panic!("the operation declares `{name}` as {other:?}"),
        }
    }

    /// The value of an axes option.
    ///
    /// # Panics
    /// As for [`Options::int`].
    pub fn axes(&self, name: &str) -> Axes {
        match self.get(name) {
            Value::Axes(axes) => axes,
            other => panic!("the operation declares `{name}` as {other:?}"),
        }
    }

    /// The value of an option that is one of several names.
    ///
    /// # Panics
    /// As for [`Options::int`].
    pub fn choice(&self, name: &str) -> &'static str {
        match self.get(name) {
            Value::Choice(chosen, _) => chosen,
            other => panic!("the operation declares `{name}` as {other:?}"),
        }
    }
}

/// The operands and options of a call.
pub struct Call<'a> {
    /// The operands in the order of the declaration; `None` for an omitted one.
    pub operands: &'a [Option<Array>],
    /// The options.
    pub options: &'a Options,
}

impl Call<'_> {
    /// A required operand.
    ///
    /// # Panics
    /// The caller omitted it, which [`Declaration::check`] refuses.
    pub fn operand(&self, index: usize) -> &Array {
        self.operands[index].as_ref().expect("checked: it is not optional")
    }
}

/// A case of the harness: shapes of the inputs, options, and the ranges of the inputs' elements.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The shape of each input; `None` for an omitted one.
    pub inputs: &'static [Option<&'static [usize]>],
    /// Options that differ from the default.
    pub options: &'static [(&'static str, Value)],
    /// Inputs whose elements are not in [-4, 4): name, lower bound (inclusive), upper bound
    /// (exclusive). Integer elements are distinct if the range has twice as many values.
    pub ranges: &'static [(&'static str, f64, f64)],
    /// Whether the benchmark omits the optional results.
    pub is_bare: bool,
    /// Inputs with given elements, row-major, such as offsets, which cannot be random.
    pub values: &'static [(&'static str, &'static [f64])],
}

impl Case {
    /// A case with inputs of these shapes; `None` for an omitted one.
    pub const fn new(inputs: &'static [Option<&'static [usize]>]) -> Self {
        Self { inputs, options: &[], ranges: &[], is_bare: false, values: &[] }
    }

    /// Omits the optional results in the benchmark.
    #[must_use]
    pub const fn bare(self) -> Self {
        Self { is_bare: true, ..self }
    }

    /// Options that differ from the default.
    #[must_use]
    pub const fn options(self, options: &'static [(&'static str, Value)]) -> Self {
        Self { options, ..self }
    }

    /// Ranges of elements: see [`Case::ranges`](Self#structfield.ranges).
    #[must_use]
    pub const fn ranges(self, ranges: &'static [(&'static str, f64, f64)]) -> Self {
        Self { ranges, ..self }
    }

    /// Given elements: see [`Case::values`](Self#structfield.values).
    #[must_use]
    pub const fn values(self, values: &'static [(&'static str, &'static [f64])]) -> Self {
        Self { values, ..self }
    }

    /// The options of the case.
    pub(super) fn set_options(&self, declaration: &Declaration) -> Result<Options> {
        let mut options = Options::of(declaration);
        for (name, value) in self.options {
            options.set(declaration.name, name, *value)?;
        }
        Ok(options)
    }

    /// The types of the inputs, with element types that `dtype` chooses.
    pub(super) fn types(
        &self,
        declaration: &Declaration,
        dtype: impl Fn(&OperandOf) -> Dtype,
    ) -> Vec<Option<ArrayType>> {
        let inputs = declaration.operands.iter().filter(|operand| operand.role.is_input());
        let ty = |(operand, shape): (&OperandOf, &Option<&[usize]>)| {
            Some(ArrayType { dtype: dtype(operand), shape: (*shape)?.to_vec() })
        };
        inputs.zip(self.inputs).map(ty).collect()
    }

    /// The given elements of an input.
    pub(super) fn given(&self, name: &str) -> Option<&'static [f64]> {
        self.values.iter().find(|(of, _)| *of == name).map(|&(_, values)| values)
    }

    /// The inclusive lower and the exclusive upper bound of an input's elements.
    pub(super) fn range(&self, name: &str) -> Range<f64> {
        let given = self.ranges.iter().find(|(of, ..)| *of == name);
        given.map_or(-4.0..4.0, |&(_, from, to)| from..to)
    }
}

impl Declaration {
    /// Checks that a call has the declared operands, and results of the right type and shape.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] or [`Error::Unsupported`], with the operand's name.
    pub fn check(&self, call: &Call<'_>) -> Result<()> {
        let operation = self.name;
        let mismatch = |detail| Err(Error::ShapeMismatch { operation, detail });
        if call.operands.len() != self.operands.len() {
            return mismatch(format!(
                "{} operands, and it takes {}",
                call.operands.len(),
                self.operands.len()
            ));
        }
        for (operand, array) in self.operands.iter().zip(call.operands) {
            if array.is_none() && !operand.role.is_optional() {
                return mismatch(format!("{} is left out; it is not optional", operand.name));
            }
            if let Some(array) = array
                && let Err(is) = operand.dtype(array.dtype.name())
            {
                return mismatch(is + "; convert it");
            }
            if let Some(array) = array
                && operand.dense
                && !array.is_dense()
            {
                return mismatch(format!(
                    "{} has strides {:?} from address {:#x} on, and must be row-major without gaps, from a multiple \
                     of 16 bytes on; copy it",
                    operand.name, array.strides, array.address
                ));
            }
        }
        let (inputs, results): (Vec<_>, Vec<_>) =
            self.operands.iter().zip(call.operands).partition(|(operand, _)| operand.role.is_input());
        let inputs: Vec<_> = inputs.into_iter().map(|(_, array)| array.as_ref().map(Array::ty)).collect();
        let wanted = (self.results)(&inputs, call.options)?;
        for ((operand, array), wanted) in results.into_iter().zip(wanted) {
            let Some(array) = array else { continue };
            if array.dtype != wanted.dtype || array.shape != wanted.shape {
                return mismatch(format!(
                    "{} has shape {:?} of {}, and must have {:?} of {}",
                    operand.name, array.shape, array.dtype, wanted.shape, wanted.dtype
                ));
            }
        }
        Ok(())
    }

    /// The bytes that a call must transfer: each input read once, each result written once.
    pub fn bytes(&self, call: &Call<'_>) -> usize {
        call.operands.iter().flatten().map(|array| array.elements() * array.dtype.bytes()).sum()
    }
}
