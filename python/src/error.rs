//! Errors of the layout algebra as Python exceptions, beside those of the runtime.

pub use moye_python_support::error::*;

use moye_draw::DrawError;
use moye_eval::EvalError;
use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, create_exception};

create_exception!(
    moye,
    LayoutError,
    PyValueError,
    "A layout is invalid, or an operation on layouts has no result."
);

/// The exception for an operation of the layout algebra.
pub fn of_eval(error: EvalError) -> PyErr {
    LayoutError::new_err(error.to_string())
}

/// The exception for a picture.
pub fn of_draw(error: DrawError) -> PyErr {
    LayoutError::new_err(error.to_string())
}
