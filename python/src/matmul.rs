//! The plan of a matrix product of arrays.

use moye_python_support::operand::Operand;
use moye_python_support::operation::{On, with_call};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The kernel, its tile and the split-K slices.
type Explained = (Option<&'static str>, (u32, u32), u32);

/// The kernel that would compute a product of these operands and options.
#[pyfunction]
#[pyo3(signature = (operands, given, *, device, stream))]
pub fn explain_matmul(
    py: Python<'_>,
    operands: Vec<Option<PyRef<'_, Operand>>>,
    given: &Bound<'_, PyDict>,
    device: &Bound<'_, PyAny>,
    stream: &Bound<'_, PyAny>,
) -> PyResult<Explained> {
    let mut explained = (None, (0, 0), 0);
    let on = On { device, stream, allocate: None };
    with_call(py, "matmul", &operands, given, on, |_, stream, call| {
        let plan = moye::explain_matmul(stream, call)?;
        explained = (plan.kernel, plan.tile, plan.splits);
        Ok(())
    })?;
    Ok(explained)
}
