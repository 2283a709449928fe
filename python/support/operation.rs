//! Declared operations: their descriptions, for the functions that Python builds from them, and
//! their call.

use crate::arguments::{self, taken};
use crate::device::{Place, target};
use crate::lent::Lent;
use crate::operand::Operand;
use crate::tensor::Tensor;
use crate::{error, work};
use moye_runtime::operation::{
    Array, ArrayType, Axes, Call, Declaration, Dtype, OperandOf, OptionOf, Options, Role, Value, offsets,
};
use moye_runtime::{Device, Stream};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyTuple};
use std::sync::OnceLock;

/// The declared operations: name, summary, operands as (name, about, role, whether it is taken by
/// its name alone, the argument of which it is a new result, whether elements of any type are
/// moved), and options as (name, about, default, kind of values, their names).
#[pyfunction]
pub fn declared<'py>(py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let operation = |declaration: &&Declaration| {
        let operands: Vec<_> = declaration
            .operands
            .iter()
            .map(|operand| {
                let role = match operand.role {
                    Role::Input => "input",
                    Role::Optional => "optional",
                    Role::Result => "result",
                    Role::OptionalResult => "optional result",
                };
                (operand.name, operand.about, role, operand.is_by_name, operand.returned_if, operand.is_moved)
            })
            .collect();
        let options = declaration
            .options
            .iter()
            .map(|option| {
                let default = match option.default {
                    Value::Int(value) => value.into_pyobject(py)?.into_any(),
                    Value::Float(value) => value.into_pyobject(py)?.into_any(),
                    Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
                    Value::Dtype(value) => value.name().into_pyobject(py)?.into_any(),
                    Value::Axes(value) => value.list().into_pyobject(py)?.into_any(),
                    Value::Choice(chosen, _) | Value::Text(chosen) => chosen.into_pyobject(py)?.into_any(),
                    Value::Pair(pair) => pair.into_pyobject(py)?.into_any(),
                    Value::Unset(_) => py.None().into_bound(py),
                };
                let (kind, names) = match option.default.of_type() {
                    Value::Int(_) => ("int", &[][..]),
                    Value::Float(_) => ("float", &[][..]),
                    Value::Bool(_) => ("bool", &[][..]),
                    Value::Dtype(_) => ("dtype", &[][..]),
                    Value::Axes(_) => ("axes", &[][..]),
                    Value::Choice(_, names) => ("choice", names),
                    Value::Pair([None, None]) => ("limits", &[][..]),
                    Value::Pair(_) => ("pair", &[][..]),
                    Value::Text(_) | Value::Unset(_) => ("name", &[][..]),
                };
                let about = match option.takes {
                    Some(takes) => format!("{}; {takes}", option.about),
                    None => option.about.to_owned(),
                };
                Ok((option.name, about, default, kind, names.to_vec()))
            })
            .collect::<PyResult<Vec<_>>>()?;
        (declaration.name, declaration.summary, operands, options).into_pyobject(py)
    };
    operations().map(operation).collect()
}

/// Lists of declarations.
type Lists = &'static [&'static [&'static Declaration]];

/// The operations of the library's module.
static OPERATIONS: OnceLock<Lists> = OnceLock::new();

/// Declares the operations. A module that is loaded a second time has the same ones.
pub fn declare(operations: Lists) {
    OPERATIONS.get_or_init(|| operations);
}

fn operations() -> impl Iterator<Item = &'static &'static Declaration> {
    OPERATIONS.get().copied().unwrap_or_default().iter().copied().flatten()
}

fn named(name: &str) -> PyResult<&'static Declaration> {
    let found = operations().find(|declaration| declaration.name == name);
    found.copied().ok_or_else(|| error::value(format!("there is no operation {name}")))
}

fn options(declaration: &'static Declaration, given: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::of(declaration);
    let operation = declaration.name;
    for (name, value) in given {
        let name: String = name.extract()?;
        let Some(option) = declaration.options.iter().find(|option| option.name == name) else {
            return Err(options
                .set(operation, &name, Value::Bool(true))
                .map_or_else(error::raised, |()| error::value(format!("there is no option {name}"))));
        };
        if value.is_none() && matches!(option.default, Value::Unset(_)) {
            continue;
        }
        let wanted = takes(option);
        let text = || taken(&value, &name, wanted, |value| value.extract::<String>());
        let set = match option.default.of_type() {
            Value::Choice(..) => {
                options.choose(operation, &name, &text()?).map_err(error::raised)?;
                continue;
            }
            Value::Text(_) | Value::Unset(_) => {
                options.set_text(operation, &name, &text()?).map_err(error::raised)?;
                continue;
            }
            Value::Bool(_) => Value::Bool(taken(&value, &name, wanted, |value| value.extract())?),
            Value::Int(_) => Value::Int(taken(&value, &name, wanted, integer)?),
            Value::Float(_) => Value::Float(taken(&value, &name, wanted, |value| match value.extract() {
                Ok(number) if !value.is_instance_of::<PyBool>() => Ok(number),
                _ => Err(error::kind("it is no number")),
            })?),
            Value::Dtype(_) => Value::Dtype(taken(&value, &name, wanted, |value| {
                Dtype::named(&dtype_name(value)?).ok_or_else(|| error::kind("it is no element type"))
            })?),
            Value::Axes(_) if value.is_none() => Value::Axes(Axes::ALL),
            Value::Axes(_) => match value.extract::<Vec<i64>>() {
                Ok(axes) => Value::Axes(Axes::of(operation, &axes).map_err(error::raised)?),
                Err(_) => Value::Axes(Axes::new([taken(&value, &name, wanted, integer)?])),
            },
            Value::Pair(example) => {
                Value::Pair(taken(&value, &name, wanted, |value| pair(value, example.contains(&None)))?)
            }
        };
        options.set(operation, &name, set).map_err(error::raised)?;
    }
    Ok(options)
}

/// The name of an element type, given as such, or as NumPy's or PyTorch's type.
fn dtype_name(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let name = value.extract().or_else(|_| value.getattr("__name__")?.extract());
    let name = name.or_else(|_: PyErr| value.str().map(|text| text.to_string()))?;
    Ok(name.strip_prefix("torch.").unwrap_or(&name).to_owned())
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    if value.is_instance_of::<PyBool>() { Err(error::kind("it is a bool")) } else { value.extract() }
}

/// Two integers of at least 0, as a tuple, a list or another sequence; with `is_limit` None or -1
/// is no limit.
fn pair(value: &Bound<'_, PyAny>, is_limit: bool) -> PyResult<[Option<i64>; 2]> {
    let values = value.extract::<Vec<Option<i64>>>()?;
    let [first, second] = values[..] else { return Err(error::value("it has another length")) };
    let of = |number: Option<i64>| match number {
        None | Some(-1) if is_limit => Ok(None),
        Some(number) if u32::try_from(number).is_ok() => Ok(Some(number)),
        _ => Err(error::value("it is out of range")),
    };
    Ok([of(first)?, of(second)?])
}

/// The valid values of an option, for messages.
fn takes(option: &OptionOf) -> &'static str {
    option.takes.unwrap_or(match option.default.of_type() {
        Value::Int(_) => "an integer",
        Value::Float(_) => "a number",
        Value::Bool(_) => "True or False",
        Value::Dtype(_) => "the name of an element type",
        Value::Axes(_) => "an integer, integers or None",
        Value::Choice(..) | Value::Text(_) | Value::Unset(_) => "a name",
        Value::Pair(_) => "two integers",
    })
}

fn ty(of: &OperandOf, operand: &Operand) -> PyResult<ArrayType> {
    let name = operand.dtype.name;
    let dtype = of.dtype(name).or_else(|is| match operand.dtype.bits {
        // Elements of other types are moved as those of their size.
        8 if of.is_moved => Ok(Dtype::U8),
        16 if of.is_moved => Ok(Dtype::F16),
        32 if of.is_moved => Ok(Dtype::I32),
        64 if of.is_moved => Ok(Dtype::I64),
        // Booleans are read as bytes of 0 and 1.
        8 if name == Dtype::Bool.name() && of.role.is_input() && of.dtypes.contains(&Dtype::U8) => {
            Ok(Dtype::U8)
        }
        _ => Err(error::kind(is + "; convert it")),
    })?;
    Ok(ArrayType { dtype, shape: operand.shape.clone() })
}

fn types(
    declaration: &Declaration,
    inputs: &[Option<PyRef<'_, Operand>>],
) -> PyResult<Vec<Option<ArrayType>>> {
    let given = declaration.operands.iter().zip(inputs);
    given.map(|(of, input)| input.as_ref().map(|input| ty(of, input)).transpose()).collect()
}

/// Shape and element type of each result, for the inputs in order, and the value of elements that
/// the call does not write, if it may leave some.
#[pyfunction]
pub fn declared_results(
    name: &str,
    inputs: Vec<Option<PyRef<'_, Operand>>>,
    given: &Bound<'_, PyDict>,
) -> PyResult<Vec<(Vec<usize>, &'static str, Option<f64>)>> {
    let declaration = named(name)?;
    let options = options(declaration, given)?;
    let results = (declaration.results)(&types(declaration, &inputs)?, &options).map_err(error::raised)?;
    let result =
        |(of, ty): (&OperandOf, ArrayType)| (ty.shape, ty.dtype.name(), declaration.unwritten(of, &inputs));
    Ok(declaration.outputs().zip(results).map(result).collect())
}

/// The elements of an operand on the host in float64, row-major.
fn values(operand: &Operand, dtype: Dtype) -> Vec<f64> {
    let (first, bytes) = (std::ptr::with_exposed_provenance::<u8>(operand.address), dtype.bytes());
    let value = |offset: i64| {
        let mut element = [0u8; 16];
        let at = first.wrapping_offset(offset as isize * bytes as isize);
        // SAFETY: the operand keeps the array's memory alive, and describes it as its library did.
        // The GIL is held.
        unsafe { at.copy_to_nonoverlapping(element.as_mut_ptr(), bytes) };
        dtype.read(&element[..bytes])
    };
    offsets(&operand.shape, &operand.strides()).map(value).collect()
}

/// The elements of an operand as words, which is all that moving them needs.
enum Elements {
    One(Tensor<u8>),
    Two(Tensor<u16>),
    Four(Tensor<u32>),
    Eight(Tensor<u64>),
    Sixteen(Tensor<u128>),
}

impl Elements {
    fn new(device: &Device, operand: &Operand, name: &str, is_read: bool) -> PyResult<Self> {
        Ok(match (operand.dtype.bits, is_read) {
            (8, true) => Self::One(Tensor::read(device, operand, name)?),
            (8, false) => Self::One(Tensor::written(device, operand, name)?),
            (16, true) => Self::Two(Tensor::read(device, operand, name)?),
            (16, false) => Self::Two(Tensor::written(device, operand, name)?),
            (64, true) => Self::Eight(Tensor::read(device, operand, name)?),
            (64, false) => Self::Eight(Tensor::written(device, operand, name)?),
            (128, true) => Self::Sixteen(Tensor::read(device, operand, name)?),
            (128, false) => Self::Sixteen(Tensor::written(device, operand, name)?),
            (_, true) => Self::Four(Tensor::read(device, operand, name)?),
            (_, false) => Self::Four(Tensor::written(device, operand, name)?),
        })
    }

    fn array(&self, ty: ArrayType) -> Array {
        let (address, strides) = match self {
            Self::One(tensor) => (tensor.buffer.address(), &tensor.strides),
            Self::Two(tensor) => (tensor.buffer.address(), &tensor.strides),
            Self::Four(tensor) => (tensor.buffer.address(), &tensor.strides),
            Self::Eight(tensor) => (tensor.buffer.address(), &tensor.strides),
            Self::Sixteen(tensor) => (tensor.buffer.address(), &tensor.strides),
        };
        let strides = strides.iter().map(|&stride| stride as i64).collect();
        Array { dtype: ty.dtype, shape: ty.shape, strides, address }
    }

    fn give_back(&self, operand: &Operand) -> PyResult<()> {
        match self {
            Self::One(tensor) => tensor.give_back(operand),
            Self::Two(tensor) => tensor.give_back(operand),
            Self::Four(tensor) => tensor.give_back(operand),
            Self::Eight(tensor) => tensor.give_back(operand),
            Self::Sixteen(tensor) => tensor.give_back(operand),
        }
    }
}

/// Computes a declared operation: its operands in order, `None` for omitted ones. `allocate` is
/// PyTorch's allocator, for workspaces.
#[pyfunction]
#[pyo3(signature = (name, operands, given, *, device, stream, allocate=None))]
pub fn run_declared(
    py: Python<'_>,
    name: &str,
    operands: Vec<Option<PyRef<'_, Operand>>>,
    given: &Bound<'_, PyDict>,
    device: &Bound<'_, PyAny>,
    stream: &Bound<'_, PyAny>,
    allocate: Option<Py<PyAny>>,
) -> PyResult<()> {
    let on = On { device, stream, allocate };
    let arrays = with_call(py, name, &operands, given, on, |declaration, stream, call| {
        // SAFETY: the arrays are in memory of the device. On a GPU the library of all of them
        // launches what uses them on this stream, and each output shares no memory with the inputs,
        // or is the same array.
        unsafe { (declaration.run)(stream, call) }
    })?;
    arrays.give_back(&operands)
}

/// The name of the kernel that would compute a call, and what else its plan says. The parameters
/// are those of [`run_declared`]; nothing is computed.
#[pyfunction]
#[pyo3(signature = (name, operands, given, *, device, stream, allocate=None))]
pub fn explain_declared(
    py: Python<'_>,
    name: &str,
    operands: Vec<Option<PyRef<'_, Operand>>>,
    given: &Bound<'_, PyDict>,
    device: &Bound<'_, PyAny>,
    stream: &Bound<'_, PyAny>,
    allocate: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut explained = String::new();
    let on = On { device, stream, allocate };
    with_call(py, name, &operands, given, on, |declaration, stream, call| {
        explained = (declaration.explain)(stream, call)?.into_owned();
        Ok(())
    })?;
    Ok(explained)
}

/// The device, the stream and the allocator of a call, as Python passes them.
pub struct On<'a, 'py> {
    /// The name of the device, for arrays on the host.
    pub device: &'a Bound<'py, PyAny>,
    /// The handle of a stream.
    pub stream: &'a Bound<'py, PyAny>,
    /// PyTorch's allocator, for workspaces.
    pub allocate: Option<Py<PyAny>>,
}

/// The arrays of a call on its device.
pub struct Arrays {
    declaration: &'static Declaration,
    elements: Vec<Option<Elements>>,
}

impl Arrays {
    /// Copies the results to operands on the host.
    ///
    /// # Errors
    /// Same as [`Tensor::give_back`].
    pub fn give_back(&self, operands: &[Option<PyRef<'_, Operand>>]) -> PyResult<()> {
        for ((of, operand), held) in self.declaration.operands.iter().zip(operands).zip(&self.elements) {
            if let (Some(operand), Some(held), false) = (operand, held, of.role.is_input()) {
                held.give_back(operand)?;
            }
        }
        Ok(())
    }
}

/// Calls `act` with the checked call of an operation, on its device and stream.
///
/// # Errors
/// Arrays and options that the operation does not take, and the errors of `act`.
pub fn with_call(
    py: Python<'_>,
    name: &str,
    operands: &[Option<PyRef<'_, Operand>>],
    given: &Bound<'_, PyDict>,
    on: On<'_, '_>,
    act: impl FnOnce(&'static Declaration, &Stream, &Call<'_>) -> moye_runtime::Result<()> + Send,
) -> PyResult<Arrays> {
    let device: Option<String> = taken(on.device, "device", arguments::DEVICE, |device| device.extract())?;
    let stream = taken(on.stream, "stream", arguments::STREAM, |stream| stream.extract())?;
    let declaration = named(name)?;
    let mut options = options(declaration, given)?;
    let first = operands.first().and_then(Option::as_ref);
    let first = first.ok_or_else(|| error::value(format!("{name} takes an array")))?;
    let first_name = declaration.operands[0].name;
    // An element type that is not set is that of the first result.
    let result = declaration.operands.iter().zip(operands).find(|(of, _)| !of.role.is_input());
    let result = result.and_then(|(_, operand)| Dtype::named(operand.as_ref()?.dtype.name));
    for option in declaration.options {
        if let (Value::Unset(Value::Dtype(_)), Some(dtype)) = (option.default, result)
            && !options.is_set(option.name)
        {
            options.set(declaration.name, option.name, Value::Dtype(dtype)).map_err(error::raised)?;
        }
    }
    for (of, operand) in declaration.operands.iter().zip(operands) {
        let Some(operand) = operand else { continue };
        operand.expect_place(of.name, first_name, first.place)?;
        if of.role.is_input() {
            continue;
        }
        operand.expect_writable(of.name)?;
        if let Place::Gpu(_) = operand.place {
            for (other_of, other) in declaration.operands.iter().zip(operands) {
                let Some(other) = other.as_ref().filter(|_| other_of.name != of.name) else { continue };
                let same = other.address == operand.address
                    && other.strides == operand.strides
                    && other.shape == operand.shape
                    && other_of.role.is_input();
                if !same {
                    operand.expect_apart(of.name, other_of.name, other)?;
                }
            }
        }
    }
    if first.place == Place::Host && declaration.operands.iter().any(|of| of.known.is_some()) {
        let types = types(declaration, operands)?;
        let known =
            declaration.operands.iter().zip(operands).zip(&types).filter(|((of, _), _)| of.known.is_some());
        let known: Vec<_> = known
            .filter_map(|((of, operand), ty)| Some((of.name, values(operand.as_ref()?, ty.as_ref()?.dtype))))
            .collect();
        declaration.know(&types, &known, &mut options).map_err(error::raised)?;
    }
    let (device, stream) = target(first.place, device.as_deref(), stream)?;
    let lent = Lent::default();
    let stream = lent.on(stream, on.allocate);
    let mut elements = Vec::with_capacity(operands.len());
    let mut arrays = Vec::with_capacity(operands.len());
    for (of, operand) in declaration.operands.iter().zip(operands) {
        let Some(operand) = operand else {
            elements.push(None);
            arrays.push(None);
            continue;
        };
        let ty = ty(of, operand)?;
        // Elements that the call does not write stay those of the caller's array.
        let is_read = of.role.is_input() || declaration.unwritten(of, operands).is_some();
        let held = Elements::new(&device, operand, of.name, is_read)?;
        arrays.push(Some(held.array(ty)));
        elements.push(Some(held));
    }
    let ran = work::run(py, &device, || {
        let call = Call { operands: &arrays, options: &options };
        declaration.check(&call)?;
        act(declaration, &stream, &call)
    });
    ran.map_err(|error| lent.error().unwrap_or(error))?;
    Ok(Arrays { declaration, elements })
}
