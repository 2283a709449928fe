//! Python functions for operations declared with [`moye_runtime::operation`].
//!
//! [`module!`] builds an extension module from declarations, with one function each. Two Python
//! files, which the package `moye` shares, name the arguments, determine the library of an array
//! and create results of the same kind; this crate checks and computes. `operand`, `array` and
//! `dlpack` exchange arrays, `arguments` extracts the other values; `device`, `tensor` and `work`
//! compute with them.

pub mod arguments;
pub mod array;
pub mod device;
pub mod dlpack;
pub mod element;
pub mod error;
pub mod lent;
pub mod operand;
pub mod operation;
pub mod tensor;
pub mod work;

pub use pyo3;

use moye_runtime::operation::Declaration;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::ffi::CString;

/// The Python files, by module name.
const FILES: [(&str, &str); 2] =
    [("_arrays", include_str!("_arrays.py")), ("_declared", include_str!("_declared.py"))];

/// An extension module with a function for each operation, and `explain`, which names the kernel
/// of a call of one.
///
/// ```ignore
/// moye_python_support::module!(row_sums, &[&SUM, &MEAN]);
/// ```
#[macro_export]
macro_rules! module {
    ($name:ident, $operations:expr) => {
        #[$crate::pyo3::pymodule]
        #[pyo3(crate = "moye_python_support::pyo3")]
        fn $name(
            module: &$crate::pyo3::Bound<'_, $crate::pyo3::types::PyModule>,
        ) -> $crate::pyo3::PyResult<()> {
            static OPERATIONS: &[&[&::moye::operation::Declaration]] = &[$operations];
            $crate::functions(module, OPERATIONS)
        }
    };
}

/// Adds a function for each operation to a module.
///
/// # Errors
/// The errors of Python.
pub fn functions(
    module: &Bound<'_, PyModule>,
    operations: &'static [&'static [&'static Declaration]],
) -> PyResult<()> {
    let py = module.py();
    let own = module.name()?;
    // The Python files are modules of a package beside this one, with `_moye` below as a module.
    let package = format!("_{own}_operations");
    let modules = py.import("sys")?.getattr("modules")?;
    let parent = PyModule::new(py, &package)?;
    parent.add("__path__", PyList::empty(py))?;
    let native = PyModule::new(py, &format!("{package}._moye"))?;
    add(&native, operations)?;
    parent.add("_moye", &native)?;
    modules.set_item(&package, &parent)?;
    modules.set_item(format!("{package}._moye"), &native)?;
    for (file, text) in FILES {
        let name = CString::new(format!("{package}.{file}"))?;
        let part =
            PyModule::from_code(py, &CString::new(text)?, &CString::new(format!("{file}.py"))?, &name)?;
        modules.set_item(format!("{package}.{file}"), &part)?;
        parent.add(file, part)?;
    }
    for class in ["Array", "DeviceError", "KernelFault"] {
        module.add(class, native.getattr(class)?)?;
    }
    let declared = parent.getattr("_declared")?;
    module.add("explain", declared.getattr("explain")?)?;
    let functions = declared.getattr("FUNCTIONS")?;
    for (name, function) in functions.cast::<PyDict>()? {
        function.setattr("__module__", &own)?;
        module.add(name.extract::<&str>()?, function)?;
    }
    Ok(())
}

/// Adds to a module what the Python files use: classes of arrays, exceptions, and calls of the
/// operations, which are those of one module of a library.
///
/// # Errors
/// The errors of Python.
pub fn add(
    module: &Bound<'_, PyModule>,
    operations: &'static [&'static [&'static Declaration]],
) -> PyResult<()> {
    operation::declare(operations);
    let py = module.py();
    module.add("DeviceError", py.get_type::<error::DeviceError>())?;
    module.add("KernelFault", py.get_type::<error::KernelFault>())?;
    module.add_class::<operand::Operand>()?;
    module.add_class::<array::Array>()?;
    module.add_function(wrap_pyfunction!(operand::element_types, module)?)?;
    module.add_function(wrap_pyfunction!(device::device_name, module)?)?;
    module.add_function(wrap_pyfunction!(device::why_simulated, module)?)?;
    module.add_function(wrap_pyfunction!(operation::declared, module)?)?;
    module.add_function(wrap_pyfunction!(operation::declared_results, module)?)?;
    module.add_function(wrap_pyfunction!(operation::run_declared, module)?)?;
    module.add_function(wrap_pyfunction!(operation::explain_declared, module)?)?;
    Ok(())
}
