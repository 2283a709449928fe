//! Arguments by name, with errors that state which one is wrong, its value, and what is accepted.

use crate::error;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The valid devices, for messages.
pub const DEVICE: &str = "None, \"auto\", \"gpu\", \"gpu:N\" or \"sim\"";
/// The valid streams, for messages.
pub const STREAM: &str = "None, or the handle of a CUDA stream, an integer";

/// The options of a call by name.
pub struct Given<'a, 'py>(pub &'a Bound<'py, PyDict>);

impl<'py> Given<'_, 'py> {
    /// An option as extracted by `extract`; `wanted` states what may be given.
    pub fn get<T>(
        &self,
        name: &str,
        wanted: &str,
        extract: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> PyResult<T> {
        let value = self.0.get_item(name)?.ok_or_else(|| error::kind(format!("{name} is missing")))?;
        taken(&value, name, wanted, extract)
    }

    /// Two values, as a tuple, a list or another sequence.
    pub fn pair<T>(
        &self,
        name: &str,
        wanted: &str,
        extract: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> PyResult<Option<(T, T)>> {
        self.get(name, wanted, |value| {
            let Some(values) = value.extract::<Option<Vec<Bound<'py, PyAny>>>>()? else { return Ok(None) };
            match values.as_slice() {
                [first, second] => Ok(Some((extract(first)?, extract(second)?))),
                _ => Err(error::value("it has another length")),
            }
        })
    }
}

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
