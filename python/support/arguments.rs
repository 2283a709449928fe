//! Arguments by name, with errors that state which one is wrong, its value, and what is accepted.

use crate::error;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

/// The valid devices, for messages.
pub const DEVICE: &str = "None, \"auto\", \"gpu\", \"gpu:N\" or \"sim\"";
/// The valid streams, for messages.
pub const STREAM: &str = "None, or the handle of a CUDA stream, an integer";

/// A value as extracted by `extract`.
///
/// # Errors
/// `TypeError`, or `ValueError` for a number out of range, with the name, the value and what is
/// accepted.
pub fn taken<'py, T>(
    value: &Bound<'py, PyAny>,
    name: &str,
    wanted: &str,
    extract: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<T> {
    extract(value).map_err(|reason| {
        let text = format!("{name} is {}, and must be {wanted}", shown(value));
        let py = value.py();
        let is_value = reason.is_instance_of::<PyOverflowError>(py)
            || reason.is_instance_of::<pyo3::exceptions::PyValueError>(py);
        if is_value { error::value(text) } else { error::kind(text) }
    })
}

/// A value as Python writes it, on one line and shortened.
fn shown(value: &Bound<'_, PyAny>) -> String {
    const MOST: usize = 60;
    let kind =
        || value.get_type().name().map_or_else(|_| "another object".to_owned(), |name| name.to_string());
    let text = value.repr().map_or_else(|_| kind(), |text| text.to_string());
    match text.contains('\n') || text.chars().count() > MOST {
        true => format!("a {}", kind()),
        false => text,
    }
}
