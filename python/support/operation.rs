//! Declared operations: their descriptions, for the functions that Python builds from them, and
//! their call.

use crate::arguments::{self, taken};
use crate::device::{Place, target};
use crate::operand::Operand;
use crate::tensor::Tensor;
use crate::{error, work};
use moye_runtime::Device;
use moye_runtime::operation::{
    Array, ArrayType, Axes, Call, Declaration, Dtype, OperandOf, Options, Role, Value,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyTuple};
use std::sync::OnceLock;

/// The declared operations: name, summary, operands as (name, about, role), and options as (name,
/// about, default).
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
                (operand.name, operand.about, role)
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
                    Value::Choice(chosen, _) => chosen.into_pyobject(py)?.into_any(),
                };
                Ok((option.name, option.about, default))
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
    for (name, value) in given {
        let name: String = name.extract()?;
        if let (true, Ok(chosen)) = (takes(declaration, &name) == NAME, value.extract::<String>()) {
            options.choose(declaration.name, &name, &chosen).map_err(error::raised)?;
            continue;
        }
        let value = if value.is_instance_of::<PyBool>() {
            Value::Bool(value.extract()?)
        } else if let Some(dtype) = value.extract::<String>().ok().and_then(|name| Dtype::named(&name)) {
            Value::Dtype(dtype)
        } else if value.is_none() && takes(declaration, &name) == AXES {
            Value::Axes(Axes::ALL)
        } else if let (true, Ok(axes)) = (takes(declaration, &name) == AXES, value.extract::<Vec<i64>>()) {
            Value::Axes(Axes::of(declaration.name, &axes).map_err(error::raised)?)
        } else if let Ok(value) = value.extract::<i64>() {
            Value::Int(value)
        } else if let Ok(value) = value.extract::<f64>() {
            Value::Float(value)
        } else {
            let (value, takes) = (value.repr()?, takes(declaration, &name));
            return Err(error::kind(format!("{name} is {value}, and must be {takes}")));
        };
        options.set(declaration.name, &name, value).map_err(error::raised)?;
    }
    Ok(options)
}

/// The valid values of axes, for messages.
const AXES: &str = "an integer, integers or None";

/// The valid values of an option with names, for messages.
const NAME: &str = "a name";

/// The valid values of an option, for messages.
fn takes(declaration: &Declaration, name: &str) -> &'static str {
    let option = declaration.options.iter().find(|option| option.name == name);
    match option.map(|option| option.default) {
        Some(Value::Int(_)) => "an integer",
        Some(Value::Float(_)) => "a number",
        Some(Value::Bool(_)) => "True or False",
        Some(Value::Dtype(_)) => "the name of an element type",
        Some(Value::Axes(_)) => AXES,
        Some(Value::Choice(..)) => NAME,
        None => "an option of the operation",
    }
}

fn ty(of: &OperandOf, operand: &Operand) -> PyResult<ArrayType> {
    let dtype = of.dtype(operand.dtype.name).map_err(|is| error::kind(is + "; convert it"))?;
    Ok(ArrayType { dtype, shape: operand.shape.clone() })
}

fn types(
    declaration: &Declaration,
    inputs: &[Option<PyRef<'_, Operand>>],
) -> PyResult<Vec<Option<ArrayType>>> {
    let given = declaration.operands.iter().zip(inputs);
    given.map(|(of, input)| input.as_ref().map(|input| ty(of, input)).transpose()).collect()
}

/// Shape and element type of each result, for the inputs in order.
#[pyfunction]
pub fn declared_results(
    name: &str,
    inputs: Vec<Option<PyRef<'_, Operand>>>,
    given: &Bound<'_, PyDict>,
) -> PyResult<Vec<(Vec<usize>, &'static str)>> {
    let declaration = named(name)?;
    let options = options(declaration, given)?;
    let results = (declaration.results)(&types(declaration, &inputs)?, &options).map_err(error::raised)?;
    Ok(results.into_iter().map(|ty| (ty.shape, ty.dtype.name())).collect())
}

/// The elements of an operand as words, which is all that moving them needs.
enum Elements {
    One(Tensor<u8>),
    Two(Tensor<u16>),
    Four(Tensor<u32>),
    Eight(Tensor<u64>),
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
        }
    }
}

/// Computes a declared operation: its operands in order, `None` for omitted ones.
#[pyfunction]
#[pyo3(signature = (name, operands, given, *, device, stream))]
pub fn run_declared(
    py: Python<'_>,
    name: &str,
    operands: Vec<Option<PyRef<'_, Operand>>>,
    given: &Bound<'_, PyDict>,
    device: &Bound<'_, PyAny>,
    stream: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let device: Option<String> = taken(device, "device", arguments::DEVICE, |device| device.extract())?;
    let stream = taken(stream, "stream", arguments::STREAM, |stream| stream.extract())?;
    let declaration = named(name)?;
    let options = options(declaration, given)?;
    let first = operands.first().and_then(Option::as_ref);
    let first = first.ok_or_else(|| error::value(format!("{name} takes an array")))?;
    let first_name = declaration.operands[0].name;
    for (of, operand) in declaration.operands.iter().zip(&operands) {
        let Some(operand) = operand else { continue };
        operand.expect_place(of.name, first_name, first.place)?;
        if of.role.is_input() {
            continue;
        }
        operand.expect_writable(of.name)?;
        if let Place::Gpu(_) = operand.place {
            for (other_of, other) in declaration.operands.iter().zip(&operands) {
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
    let (device, stream) = target(first.place, device.as_deref(), stream)?;
    let mut elements = Vec::with_capacity(operands.len());
    let mut arrays = Vec::with_capacity(operands.len());
    for (of, operand) in declaration.operands.iter().zip(&operands) {
        let Some(operand) = operand else {
            elements.push(None);
            arrays.push(None);
            continue;
        };
        let ty = ty(of, operand)?;
        let held = Elements::new(&device, operand, of.name, of.role.is_input())?;
        arrays.push(Some(held.array(ty)));
        elements.push(Some(held));
    }
    work::run(py, &device, || {
        let call = Call { operands: &arrays, options: &options };
        declaration.check(&call)?;
        // SAFETY: the arrays are in `elements`. On a GPU the library of all of them launches what
        // uses them on this stream, and each output shares no memory with the inputs, or is the
        // same array.
        unsafe { (declaration.run)(&stream, &call) }
    })?;
    for ((of, operand), held) in declaration.operands.iter().zip(&operands).zip(&elements) {
        if let (Some(operand), Some(held), false) = (operand, held, of.role.is_input()) {
            held.give_back(operand)?;
        }
    }
    Ok(())
}
