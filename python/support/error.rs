//! Rust errors as Python exceptions with the same messages.

use moye_runtime::Error;
use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};

create_exception!(
    moye,
    DeviceError,
    PyRuntimeError,
    "A GPU, its driver or a handle of another library cannot be used."
);
create_exception!(moye, KernelFault, DeviceError, "A kernel failed, on a GPU or on the simulator.");
/// The exception for an error of the runtime.
pub fn raised(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::OutOfMemory { .. } | Error::BufferTooLarge { .. } => PyMemoryError::new_err(text),
        Error::Simulator(_) | Error::KernelFault { .. } => KernelFault::new_err(text),
        Error::ElementType { .. } => PyTypeError::new_err(text),
        // No argument is wrong if a rank did not arrive.
        Error::Unsupported { operation: "parallel", .. } => PyRuntimeError::new_err(text),
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

/// An argument with an invalid value.
pub fn value(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}

/// An argument of an invalid type.
pub fn kind(text: impl Into<String>) -> PyErr {
    PyTypeError::new_err(text.into())
}
