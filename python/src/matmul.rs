//! The plan of a matrix product of arrays.

use moye_python_support::operand::Operand;
use moye_python_support::operation::{On, with_call};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The kernel that would compute a product of these operands and options, its tile and the split-K
/// slices, as a dict. The parameters are those of `run_declared`.
#[pyfunction]
#[pyo3(signature = (name, operands, given, *, device, stream, allocate=None))]
pub fn explain_matmul<'py>(
    py: Python<'py>,
    name: &str,
    operands: Vec<Option<PyRef<'_, Operand>>>,
    given: &Bound<'_, PyDict>,
    device: &Bound<'_, PyAny>,
    stream: &Bound<'_, PyAny>,
    allocate: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut plan = moye::Explanation::default();
    let on = On { device, stream, allocate };
    with_call(py, name, &operands, given, on, |_, stream, call| {
        plan = moye::explain_matmul(stream, call)?;
        Ok(())
    })?;
    let explained = PyDict::new(py);
    explained.set_item("kernel", plan.kernel)?;
    explained.set_item("tile", plan.tile)?;
    explained.set_item("split_k", plan.splits)?;
    Ok(explained)
}
