//! An operation's declaration: its operands, options, reference and cases, as data.

use super::{Array, ArrayType, Dtype, OptionOf, Options, Value};
use crate::stream::Stream;
use crate::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;

/// An operation as the program, Python, the harness and the benchmark know it.
pub struct Declaration {
    /// The name: a command of the program, a function in Python.
    pub name: &'static str,
    /// What it computes, in one sentence; paragraphs after an empty line are for documentation: see
    /// [`Declaration::about`].
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
    /// The name of the kernel that computes a call on the stream's device, and what else the plan
    /// says about it.
    pub explain: fn(stream: &Stream, call: &Call<'_>) -> Result<Cow<'static, str>>,
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
    /// The memory layouts that it accepts.
    pub layout: MemoryLayout,
    /// Called with the elements that the host has, before a call: see [`OperandOf::known`].
    pub known: Option<KnownFn>,
    /// A result whose elements a call may leave as they are: see [`OperandOf::partial`].
    pub partial: Option<(&'static str, f64)>,
    /// Whether Python's function takes it by its name alone: see [`OperandOf::by_name`].
    pub is_by_name: bool,
    /// Python's argument for an optional result: see [`OperandOf::returned_if`].
    pub returned_if: Option<&'static str>,
    /// Whether elements are moved, of any type: see [`OperandOf::moved`].
    pub is_moved: bool,
    /// Why the reference does not tell the result of NaN and infinities in this input: see
    /// [`OperandOf::finite`].
    pub finite: Option<&'static str>,
}

/// The memory layouts that an operand accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLayout {
    /// Any strides.
    Any,
    /// Contiguous in the last mode; the first element and the strides of the other modes are at
    /// multiples of 16 bytes.
    Rows,
    /// Row-major without gaps.
    Contiguous,
    /// Row-major without gaps, at a multiple of 16 bytes.
    Dense,
}

impl MemoryLayout {
    /// The requirement that an array violates if it does not have the layout.
    fn refusal(self, array: &Array) -> Option<&'static str> {
        match self {
            Self::Rows if !array.has_aligned_rows() => {
                Some("be contiguous in its last mode, with the others and its start at multiples of 16 bytes")
            }
            Self::Contiguous if !array.is_contiguous() => Some("be row-major without gaps"),
            Self::Dense if !array.is_dense() => {
                Some("be row-major without gaps, and start at a multiple of 16 bytes")
            }
            _ => None,
        }
    }
}

/// The inputs of a call, and their elements where the host has them.
pub struct Known<'a> {
    /// The declaration of the operation.
    pub declaration: &'a Declaration,
    /// The inputs' types, in order; `None` for an omitted one.
    pub types: &'a [Option<ArrayType>],
    /// The elements of these operands, row-major.
    pub values: &'a [(&'static str, Vec<f64>)],
}

impl Known<'_> {
    /// The type of an input; `None` if it is omitted.
    pub fn ty(&self, name: &str) -> Option<&ArrayType> {
        self.types.get(self.declaration.inputs().position(|of| of.name == name)?)?.as_ref()
    }

    /// The elements of an input, row-major, if the host has them.
    pub fn values(&self, name: &str) -> Option<&[f64]> {
        self.values.iter().find(|(of, _)| *of == name).map(|(_, values)| &values[..])
    }
}

/// A check of elements that the host has; it may set options that follow from them.
pub type KnownFn = fn(known: &Known<'_>, options: &mut Options) -> Result<()>;

impl OperandOf {
    /// An operand of any type of [`Dtype::FLOATS`].
    pub const fn new(role: Role, name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            role,
            dtypes: Dtype::FLOATS,
            layout: MemoryLayout::Any,
            known: None,
            partial: None,
            is_by_name: false,
            returned_if: None,
            is_moved: false,
            finite: None,
        }
    }

    /// The operand with these element types.
    #[must_use]
    pub const fn of(self, dtypes: &'static [Dtype]) -> Self {
        Self { dtypes, ..self }
    }

    /// The operand, required to be row-major without gaps and to start at a multiple of 16 bytes.
    #[must_use]
    pub const fn dense(self) -> Self {
        self.laid_out(MemoryLayout::Dense)
    }

    /// The operand with these memory layouts.
    #[must_use]
    pub const fn laid_out(self, layout: MemoryLayout) -> Self {
        Self { layout, ..self }
    }

    /// The operand with a check of its elements for calls whose arrays the host has: of indices,
    /// which a kernel does not check. The check may set options that follow from the elements.
    #[must_use]
    pub const fn known(self, known: KnownFn) -> Self {
        Self { known: Some(known), ..self }
    }

    /// A result with elements that a call leaves as they are if the input `when` is given; in a new
    /// array they have this value.
    #[must_use]
    pub const fn partial(self, when: &'static str, value: f64) -> Self {
        Self { partial: Some((when, value)), ..self }
    }

    /// An optional input that Python's function takes by its name alone, not by its position.
    #[must_use]
    pub const fn by_name(self) -> Self {
        Self { is_by_name: true, ..self }
    }

    /// An optional result that Python's function returns in a new array if this argument is true;
    /// other functions take the array.
    #[must_use]
    pub const fn returned_if(self, argument: &'static str) -> Self {
        Self { returned_if: Some(argument), ..self }
    }

    /// The operand of an operation that only moves elements: of all types, in Python also of types
    /// that [`Dtype`] lacks, of 1, 2, 4, 8 or 16 bytes. Files have the listed types. Such an
    /// operation has one input and one result.
    #[must_use]
    pub const fn moved(self) -> Self {
        Self { is_moved: true, ..self }
    }

    /// An input to which the harness gives neither NaN nor infinities, and why: their results are
    /// not those of float64.
    #[must_use]
    pub const fn finite(self, why: &'static str) -> Self {
        Self { finite: Some(why), ..self }
    }

    /// The element type of this name.
    ///
    /// # Errors
    /// The operand does not accept the type: a message that lists the types that it accepts.
    pub fn dtype(&self, name: &str) -> Result<Dtype, String> {
        let known = Dtype::named(name).filter(|dtype| self.is_moved || self.dtypes.contains(dtype));
        known.ok_or_else(|| {
            format!("{} has elements of {name}, and must have {}", self.name, self.dtype_names())
        })
    }

    /// The names of the element types, for messages.
    pub fn dtype_names(&self) -> String {
        let names: Vec<_> = self.dtypes.iter().map(|dtype| dtype.name()).collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => others.join(", ") + " or " + last,
            _ => names.concat(),
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

    /// Refuses a result that is an input, for operations that read inputs while they write the
    /// result; `except` are the indices of inputs that it may be.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the names of both.
    pub fn check_apart(
        &self,
        operation: &'static str,
        declaration: &Declaration,
        result: usize,
        except: &[usize],
    ) -> Result<()> {
        let Some(out) = self.operands[result].as_ref().filter(|out| out.elements() > 0) else {
            return Ok(());
        };
        let of = |index: usize| declaration.operands[index].name;
        let mut inputs = self.operands.iter().enumerate().filter(|(index, _)| {
            *index != result && declaration.operands[*index].role.is_input() && !except.contains(index)
        });
        let is_it = |array: &Array| array.address == out.address && array.elements() > 0;
        match inputs.find(|(_, array)| array.as_ref().is_some_and(is_it)) {
            Some((index, _)) => {
                let (out, input) = (of(result), of(index));
                let detail =
                    format!("{out} is {input}, which is read while {out} is written; give another array");
                Err(Error::Unsupported { operation, detail })
            }
            None => Ok(()),
        }
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
    /// The types of the first input that compute the case; `None` means all.
    pub only: Option<&'static [Dtype]>,
    /// The maximum relative error, if it is not the declaration's.
    pub tolerance: Option<f64>,
    /// Operands that are measured and tuned column-major: matrices whose last two modes are
    /// exchanged in memory.
    pub column_major: &'static [&'static str],
}

impl Case {
    /// A case with inputs of these shapes; `None` for an omitted one.
    pub const fn new(inputs: &'static [Option<&'static [usize]>]) -> Self {
        Self {
            inputs,
            options: &[],
            ranges: &[],
            is_bare: false,
            values: &[],
            only: None,
            tolerance: None,
            column_major: &[],
        }
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

    /// Types of the first input: see [`Case::only`](Self#structfield.only).
    #[must_use]
    pub const fn only(self, dtypes: &'static [Dtype]) -> Self {
        Self { only: Some(dtypes), ..self }
    }

    /// The maximum relative error, in place of the declaration's.
    #[must_use]
    pub const fn within(self, tolerance: f64) -> Self {
        Self { tolerance: Some(tolerance), ..self }
    }

    /// Column-major operands: see [`Case::column_major`](Self#structfield.column_major).
    #[must_use]
    pub const fn column_major(self, operands: &'static [&'static str]) -> Self {
        Self { column_major: operands, ..self }
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
        let ty = |(operand, shape): (&OperandOf, &Option<&[usize]>)| {
            Some(ArrayType { dtype: dtype(operand), shape: (*shape)?.to_vec() })
        };
        declaration.inputs().zip(self.inputs).map(ty).collect()
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
    /// [`Error::ShapeMismatch`], [`Error::ElementType`] or [`Error::Unsupported`], with the
    /// operand's name.
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
            let Some(array) = array else {
                if operand.role.is_optional() {
                    continue;
                }
                return mismatch(format!("{} is left out; it is not optional", operand.name));
            };
            if let Err(is) = operand.dtype(array.dtype.name()) {
                return Err(Error::ElementType { operation, detail: is + "; convert it" });
            }
            if let Some(must) = operand.layout.refusal(array) {
                return mismatch(format!(
                    "{} has strides {:?} from address {:#x} on, and must {must}; copy it",
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
            if array.dtype != wanted.dtype {
                let detail = format!(
                    "{} has elements of {}, and must have {}",
                    operand.name, array.dtype, wanted.dtype
                );
                return Err(Error::ElementType { operation, detail });
            }
            if array.shape != wanted.shape {
                // Elements that are moved have any type of their size.
                let [is, must] = [array.dtype, wanted.dtype]
                    .map(|dtype| if operand.is_moved { String::new() } else { format!(" of {dtype}") });
                return mismatch(format!(
                    "{} has shape {:?}{is}, and must have {:?}{must}",
                    operand.name, array.shape, wanted.shape
                ));
            }
        }
        Ok(())
    }

    /// Checks the elements that the host has: of each input with [`OperandOf::known`], if it is
    /// given. Sets options that follow from them.
    ///
    /// # Errors
    /// The errors of the operation, with the operand's name.
    pub fn know(
        &self,
        types: &[Option<ArrayType>],
        values: &[(&'static str, Vec<f64>)],
        options: &mut Options,
    ) -> Result<()> {
        let known = Known { declaration: self, types, values };
        let checks = self.operands.iter().filter(|of| known.values(of.name).is_some());
        checks.filter_map(|of| of.known).try_for_each(|check| check(&known, options))
    }

    /// The sentence of the summary, and the paragraphs after it.
    pub fn about(&self) -> (&'static str, &'static str) {
        self.summary.split_once("\n\n").unwrap_or((self.summary, ""))
    }

    /// The operands that are read, in order.
    pub fn inputs(&self) -> impl Iterator<Item = &'static OperandOf> + Clone + use<> {
        self.operands.iter().filter(|of| of.role.is_input())
    }

    /// The operands that are written, in order.
    pub fn outputs(&self) -> impl Iterator<Item = &'static OperandOf> + Clone + use<> {
        self.operands.iter().filter(|of| !of.role.is_input())
    }

    /// The value of a result's elements that a call with these inputs may leave as they are; `None`
    /// if it writes all of them.
    pub fn unwritten<T>(&self, result: &OperandOf, inputs: &[Option<T>]) -> Option<f64> {
        let (when, value) = result.partial?;
        let index = self.inputs().position(|of| of.name == when)?;
        inputs.get(index)?.as_ref().map(|_| value)
    }
}
