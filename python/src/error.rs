//! Errors of Rust as exceptions of Python, with the same texts.

use moye::Error;
use moye_draw::DrawError;
use moye_eval::EvalError;
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::{create_exception, exceptions::PyTypeError};

create_exception!(
    moye,
    DeviceError,
    PyRuntimeError,
    "A GPU, its driver or a handle of another library cannot be used."
);
create_exception!(moye, KernelFault, DeviceError, "A kernel failed, on a GPU or on the simulator.");
create_exception!(
    moye,
    LayoutError,
    PyValueError,
    "A layout is none, or an operation on layouts has no answer."
);

/// The exception for an error of the runtime.
pub fn raised(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::OutOfMemory { .. } | Error::BufferTooLarge { .. } => PyMemoryError::new_err(text),
        Error::Simulator(_) | Error::KernelFault { .. } => KernelFault::new_err(text),
        Error::ShapeMismatch { .. }
        | Error::MatrixBounds { .. }
        | Error::MatrixOverlap { .. }
        | Error::MatrixTooLarge { .. }
        | Error::Unsupported { .. }
        | Error::Factor { .. }
        | Error::DeviceName { .. }
        | Error::DeviceVariable(_)
        | Error::ForeignAlignment { .. } => PyValueError::new_err(text),
        _ => DeviceError::new_err(text),
    }
}

/// The exception for an operation of the layout algebra.
pub fn of_eval(error: EvalError) -> PyErr {
    LayoutError::new_err(error.to_string())
}

/// The exception for a picture.
pub fn of_draw(error: DrawError) -> PyErr {
    LayoutError::new_err(error.to_string())
}

/// An argument with a value that is out of question.
pub fn value(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}

/// An argument of a type that is out of question.
pub fn kind(text: impl Into<String>) -> PyErr {
    PyTypeError::new_err(text.into())
}
