//! The extension module `moye._moye` of the Python package `moye`.
//!
//! The package's Python files name the arguments, determine the library of an array and create
//! results of the same kind; this module checks and computes. `algebra` and `picture` contain the
//! layout algebra; `moye_python_support` exchanges arrays and has the declared operations;
//! `grouped` and `parallel` compute with lists of arrays and with several ranks; `ptx` launches
//! kernels of a PTX file.

mod algebra;
mod error;
mod grouped;
mod matmul;
mod parallel;
mod picture;
mod ptx;

use moye::operation::{Declaration, Plans};
use moye_python_support::{arguments, device, element, operand, tensor, work};
use pyo3::prelude::*;
use std::path::PathBuf;

/// The declared operations.
static OPERATIONS: &[&[&Declaration]] = &[
    moye_rows::OPERATIONS,
    moye_products::OPERATIONS,
    &[
        &moye::MATMUL,
        #[cfg(feature = "attention")]
        &moye::ATTENTION,
        &moye::COPY,
        &moye::TRANSPOSE,
    ],
];

/// Lets the declared operations of this module take the plans that `moye tune` has stored in
/// a file. Results may differ by rounding.
#[pyfunction]
fn use_plans(path: PathBuf) -> PyResult<()> {
    Plans::load(path).map_err(moye_python_support::error::raised)?.apply();
    Ok(())
}

#[pymodule]
fn _moye(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    moye_python_support::add(module, OPERATIONS)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("LayoutError", py.get_type::<error::LayoutError>())?;
    module.add_class::<algebra::Layout>()?;
    module.add_class::<algebra::Composed>()?;
    module.add_class::<algebra::Swizzle>()?;
    module.add_class::<picture::Picture>()?;
    module.add_class::<picture::TiledCopy>()?;
    module.add_class::<picture::TiledMma>()?;
    module.add_class::<ptx::PtxModule>()?;
    module.add_class::<parallel::ParallelGroup>()?;
    module.add_class::<parallel::ParallelProduct>()?;
    module.add_function(wrap_pyfunction!(use_plans, module)?)?;
    module.add_function(wrap_pyfunction!(algebra::apply, module)?)?;
    module.add_function(wrap_pyfunction!(algebra::evaluated, module)?)?;
    module.add_function(wrap_pyfunction!(algebra::operations, module)?)?;
    module.add_function(wrap_pyfunction!(picture::thread_value, module)?)?;
    module.add_function(wrap_pyfunction!(picture::banks, module)?)?;
    module.add_function(wrap_pyfunction!(picture::mma_atoms, module)?)?;
    module.add_function(wrap_pyfunction!(picture::copy_atom_names, module)?)?;
    module.add_function(wrap_pyfunction!(matmul::explain_matmul, module)?)?;
    module.add_function(wrap_pyfunction!(grouped::grouped_list, module)?)?;
    Ok(())
}
