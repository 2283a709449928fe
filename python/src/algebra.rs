//! The layout algebra: layouts, swizzled layouts and swizzles as Python objects, and all operations
//! of `moye_eval` by name.

use crate::error::{self, LayoutError, of_draw, of_eval};
use crate::picture::Picture;
use moye_device::layout::{self as device, ComposedLayout, IntTuple, Leaf};
use moye_draw as draw;
use moye_eval::{Arity, Operation, Value, all, evaluate};
use pyo3::IntoPyObjectExt;
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyString, PyTuple};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A value of the algebra from Python: a layout, a swizzle, an integer, None for the wildcard `_`,
/// a tuple or list of these, or the string of an expression.
pub fn value_of(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(layout) = object.cast::<Layout>() {
        return Ok(Value::Layout(layout.get().0));
    }
    if let Ok(layout) = object.cast::<Composed>() {
        return Ok(Value::Composed(layout.get().0));
    }
    if let Ok(swizzle) = object.cast::<Swizzle>() {
        return Ok(Value::Swizzle(swizzle.get().0));
    }
    if object.is_none() {
        return Ok(Value::Tuple(IntTuple::any()));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return evaluate(&text.to_cow()?).map_err(of_eval);
    }
    if object.cast::<PyTuple>().is_ok() || object.cast::<PyList>().is_ok() {
        let values = object.try_iter()?.map(|element| value_of(&element?)).collect::<PyResult<Vec<_>>>()?;
        return list(values);
    }
    let is_number = !object.is_instance_of::<PyBool>()
        && (object.is_instance_of::<PyInt>() || object.hasattr("__index__")?);
    if is_number {
        return Ok(Value::Tuple(IntTuple::int(object.extract()?)));
    }
    Err(error::kind(format!(
        "expected a layout, an integer, a tuple of integers, None or the text of an expression, and got {}",
        object.get_type()
    )))
}

/// Values side by side: a tuple, where all are tuples.
pub fn list(values: Vec<Value>) -> PyResult<Value> {
    let tuples: Option<Vec<IntTuple>> = values
        .iter()
        .map(|value| if let Value::Tuple(tuple) = value { Some(*tuple) } else { None })
        .collect();
    match tuples {
        Some(tuples) => IntTuple::try_tuple(&tuples)
            .map(Value::Tuple)
            .map_err(|error| LayoutError::new_err(error.to_string())),
        None => Ok(Value::List(values)),
    }
}

/// A value of the algebra as a Python object: strides along basis vectors are strings, `"1@0"`.
pub fn object_of<'py>(py: Python<'py>, value: Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Tuple(tuple) => tuple_object(py, &tuple),
        Value::Layout(layout) => Layout(layout).into_bound_py_any(py),
        Value::Swizzle(swizzle) => Swizzle(swizzle).into_bound_py_any(py),
        Value::Composed(layout) => Composed(layout).into_bound_py_any(py),
        Value::List(values) => {
            let values =
                values.into_iter().map(|value| object_of(py, value)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, values)?.into_any())
        }
        Value::Table(values) => {
            let values = values.iter().map(|tuple| tuple_object(py, tuple)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, values)?.into_any())
        }
    }
}

fn tuple_object<'py>(py: Python<'py>, tuple: &IntTuple) -> PyResult<Bound<'py, PyAny>> {
    if tuple.is_int() {
        return match tuple.leaf(0) {
            Leaf::Int(value) => value.into_bound_py_any(py),
            Leaf::Any => Ok(py.None().into_bound(py)),
            Leaf::Scaled { .. } => tuple.to_string().into_bound_py_any(py),
        };
    }
    let modes =
        (0..tuple.rank()).map(|mode| tuple_object(py, &tuple.mode(mode))).collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(py, modes)?.into_any())
}

/// Calls an operation by its name.
fn call(name: &str, values: Vec<Value>) -> PyResult<Value> {
    let operation =
        Operation::named(name).ok_or_else(|| error::value(format!("there is no operation {name:?}")))?;
    operation.answer(values).map_err(of_eval)
}

/// The value of an operation: `apply("composition", A, B)`.
#[pyfunction]
#[pyo3(signature = (name, *arguments))]
pub fn apply<'py>(
    py: Python<'py>,
    name: &str,
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let values = arguments.iter().map(|argument| value_of(&argument)).collect::<PyResult<Vec<_>>>()?;
    object_of(py, call(name, values)?)
}

/// The value of an expression in a string.
///
/// >>> moye.evaluate("coalesce(composition((6,2):(8,2), (4,3):(3,1)))")
/// Layout("(2,2,3):(24,2,8)")
#[pyfunction]
#[pyo3(name = "evaluate")]
pub fn evaluated<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    object_of(py, evaluate(text).map_err(of_eval)?)
}

/// A parameter of an operation: its name, its kind, and `one`, `optional` or `many`.
type Parameter = (&'static str, &'static str, &'static str);

/// All operations: name, parameters, description.
#[pyfunction]
pub fn operations() -> Vec<(&'static str, Vec<Parameter>, &'static str)> {
    let parameters = |operation: &Operation| {
        let parameters = operation.parameters.iter().map(|parameter| {
            let arity = match parameter.arity {
                Arity::One => "one",
                Arity::Optional => "optional",
                Arity::Many => "many",
            };
            (parameter.name, parameter.kind, arity)
        });
        parameters.collect()
    };
    all().map(|operation| (operation.name, parameters(operation), operation.about)).collect()
}

/// A layout: a function from coordinates to indices, given by a shape and a stride.
///
/// `Layout("(4,8):(8,1)")`, `Layout((4, 8), (8, 1))`, or with a shape alone the compact
/// column-major layout. The string may be any expression whose value is a layout.
///
/// >>> layout = moye.Layout((4, 8), (8, 1))
/// >>> layout(2, 3), layout.size, layout.cosize
/// (19, 32, 32)
#[pyclass(frozen, module = "moye")]
pub struct Layout(pub device::Layout);

#[pymethods]
impl Layout {
    #[new]
    #[pyo3(signature = (shape, stride=None))]
    fn new(shape: &Bound<'_, PyAny>, stride: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let given = value_of(shape)?;
        let made = match stride {
            None if matches!(given, Value::Layout(_)) => given,
            None => call("make_layout", vec![given])?,
            Some(stride) => call("make_layout", vec![given, value_of(stride)?])?,
        };
        match made {
            Value::Layout(layout) => Ok(Self(layout)),
            other => Err(LayoutError::new_err(format!("{other} is not a layout"))),
        }
    }

    /// The coordinate's index; with None in it the slice. A coordinate is one integer, or one for
    /// each mode.
    #[pyo3(signature = (*coordinate))]
    fn __call__<'py>(&self, coordinate: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        called(Value::Layout(self.0), coordinate)
    }

    fn __repr__(&self) -> String {
        format!("Layout(\"{}\")", self.0)
    }

    fn _scene(&self) -> PyResult<Picture> {
        draw::layout(&self.0).map(Picture).map_err(of_draw)
    }
}

/// A layout whose indices go through a swizzle.
///
/// `ComposedLayout("Sw<3,3,3> o 0 o (8,64):(64,1)")`.
#[pyclass(frozen, name = "ComposedLayout", module = "moye")]
pub struct Composed(pub ComposedLayout);

#[pymethods]
impl Composed {
    #[new]
    fn new(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        match value_of(text)? {
            Value::Composed(layout) => Ok(Self(layout)),
            other => Err(LayoutError::new_err(format!(
                "{other} is not a swizzled layout, as Sw<3,3,3> o 0 o (8,64):(64,1) is one"
            ))),
        }
    }

    /// The coordinate's index; with None in it the slice.
    #[pyo3(signature = (*coordinate))]
    fn __call__<'py>(&self, coordinate: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        called(Value::Composed(self.0), coordinate)
    }

    fn __repr__(&self) -> String {
        format!("ComposedLayout(\"{}\")", self.0)
    }

    /// The swizzle.
    #[getter]
    fn swizzle(&self) -> Swizzle {
        Swizzle(self.0.swizzle)
    }

    /// The layout before the swizzle.
    #[getter]
    fn layout(&self) -> Layout {
        Layout(self.0.layout)
    }

    /// The offset added to the layout's index before the swizzle.
    #[getter]
    fn offset(&self) -> i64 {
        self.0.offset
    }

    fn _scene(&self) -> PyResult<Picture> {
        draw::swizzle(&self.0).map(Picture).map_err(of_draw)
    }
}

/// A swizzle: it changes `bits` bits of an index, from bit `base` on, by those `shift` bits above.
#[pyclass(frozen, module = "moye")]
pub struct Swizzle(pub device::Swizzle);

#[pymethods]
impl Swizzle {
    #[new]
    fn new(bits: i64, base: i64, shift: i64) -> PyResult<Self> {
        device::Swizzle::try_new(bits, base, shift)
            .map(Self)
            .map_err(|error| LayoutError::new_err(error.to_string()))
    }

    /// The swizzled index.
    fn __call__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let [bits, base, shift] = [self.0.bits(), self.0.base(), self.0.shift()].map(Value::from);
        object_of(py, call("swizzle", vec![bits, base, shift, value_of(index)?])?)
    }

    fn __repr__(&self) -> String {
        format!("Swizzle({}, {}, {})", self.0.bits(), self.0.base(), self.0.shift())
    }
}

macro_rules! values {
    ($($name:ident: $variant:ident)+) => {$(
        #[pymethods]
        impl $name {
            fn __str__(&self) -> String {
                self.0.to_string()
            }

            fn __richcmp__(&self, other: &Bound<'_, PyAny>, how: CompareOp) -> PyResult<Py<PyAny>> {
                let py = other.py();
                let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
                let is_equal = self.0 == other.get().0;
                match how {
                    CompareOp::Eq => is_equal.into_py_any(py),
                    CompareOp::Ne => (!is_equal).into_py_any(py),
                    _ => Ok(py.NotImplemented()),
                }
            }

            fn __hash__(&self) -> u64 {
                let mut hasher = DefaultHasher::new();
                self.0.to_string().hash(&mut hasher);
                hasher.finish()
            }

            fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
                Ok((py.import("moye")?.getattr("evaluate")?, (self.0.to_string(),)))
            }

            /// `a @ b` is the composition of `a` and `b`.
            fn __matmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                object_of(other.py(), call("composition", vec![Value::$variant(self.0), value_of(other)?])?)
            }
        }
    )+};
}

macro_rules! layouts {
    ($($name:ident: $variant:ident)+) => {$(
        #[pymethods]
        impl $name {
            /// The shape: an integer, or a tuple of shapes.
            #[getter]
            fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.asked(py, "shape")
            }

            /// The number of coordinates.
            #[getter]
            fn size<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.asked(py, "size")
            }

            /// One more than the largest index.
            #[getter]
            fn cosize<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.asked(py, "cosize")
            }

            /// The number of modes.
            #[getter]
            fn rank<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.asked(py, "rank")
            }

            /// How deep the shape nests.
            #[getter]
            fn depth<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.asked(py, "depth")
            }

            /// One mode.
            fn __getitem__<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyAny>> {
                let rank = self.0.rank() as i64;
                let mode = if index < 0 { index + rank } else { index };
                if !(0..rank).contains(&mode) {
                    return Err(PyIndexError::new_err(format!("mode {index} of {}, which has {rank}", self.0)));
                }
                object_of(py, call("mode", vec![Value::$variant(self.0), Value::from(mode)])?)
            }

            /// A picture of the layout; it shows itself in a notebook.
            fn draw(&self) -> PyResult<Picture> {
                self._scene()
            }

            /// For notebooks. None if it cannot be drawn; the notebook then shows the string.
            fn _repr_svg_(&self) -> Option<String> {
                self._scene().ok().map(|picture| picture.svg())
            }
        }

        impl $name {
            fn asked<'py>(&self, py: Python<'py>, what: &str) -> PyResult<Bound<'py, PyAny>> {
                object_of(py, call(what, vec![Value::$variant(self.0)])?)
            }
        }
    )+};
}

values! { Layout: Layout Composed: Composed Swizzle: Swizzle }
layouts! { Layout: Layout Composed: Composed }

#[pymethods]
impl Layout {
    /// The stride: an integer, a string such as "1@0", or a tuple of strides.
    #[getter]
    fn stride<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.asked(py, "stride")
    }
}

fn called<'py>(layout: Value, coordinate: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    let py = coordinate.py();
    let coordinate = match coordinate.len() {
        1 => value_of(&coordinate.get_item(0)?)?,
        _ => value_of(coordinate)?,
    };
    let has_wildcard = match &coordinate {
        Value::Tuple(tuple) => (0..tuple.leaves()).any(|leaf| tuple.leaf(leaf) == Leaf::Any),
        _ => false,
    };
    let name = if has_wildcard { "slice" } else { "crd2idx" };
    object_of(py, call(name, vec![layout, coordinate])?)
}
