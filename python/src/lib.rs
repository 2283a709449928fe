//! The extension module `moye._moye` of the Python package `moye`.
//!
//! The package's Python files name the arguments, find out which library an array is of and make
//! results of the same kind; this module checks and computes. `algebra` and `picture` have the
//! layout algebra; `operand`, `array` and `dlpack` exchange arrays, `arguments` takes the other
//! values; `device`, `lent`, `work`, `resident`, `tensor`, `matmul`, `attention`, `movement`
//! and `operation` compute with them; `ptx` launches kernels of a PTX file.

mod algebra;
mod arguments;
mod array;
#[cfg(feature = "attention")]
mod attention;
mod device;
mod dlpack;
mod element;
mod error;
mod lent;
mod matmul;
mod movement;
mod operand;
mod operation;
mod picture;
mod ptx;
mod resident;
mod tensor;
mod work;

use pyo3::prelude::*;

#[pymodule]
fn _moye(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DeviceError", py.get_type::<error::DeviceError>())?;
    module.add("KernelFault", py.get_type::<error::KernelFault>())?;
    module.add("LayoutError", py.get_type::<error::LayoutError>())?;
    module.add_class::<algebra::Layout>()?;
    module.add_class::<algebra::Composed>()?;
    module.add_class::<algebra::Swizzle>()?;
    module.add_class::<picture::Picture>()?;
    module.add_class::<picture::TiledCopy>()?;
    module.add_class::<picture::TiledMma>()?;
    module.add_class::<operand::Operand>()?;
    module.add_class::<array::Array>()?;
    module.add_class::<ptx::PtxModule>()?;
    module.add_function(wrap_pyfunction!(operand::element_types, module)?)?;
    module.add_function(wrap_pyfunction!(algebra::apply, module)?)?;
    module.add_function(wrap_pyfunction!(algebra::evaluated, module)?)?;
    module.add_function(wrap_pyfunction!(algebra::operations, module)?)?;
    module.add_function(wrap_pyfunction!(picture::thread_value, module)?)?;
    module.add_function(wrap_pyfunction!(picture::banks, module)?)?;
    module.add_function(wrap_pyfunction!(picture::mma_atoms, module)?)?;
    module.add_function(wrap_pyfunction!(picture::copy_atom_names, module)?)?;
    module.add_function(wrap_pyfunction!(device::device_name, module)?)?;
    module.add_function(wrap_pyfunction!(device::why_simulated, module)?)?;
    module.add_function(wrap_pyfunction!(matmul::matmul, module)?)?;
    module.add_function(wrap_pyfunction!(matmul::matmul_result, module)?)?;
    #[cfg(feature = "attention")]
    module.add_function(wrap_pyfunction!(attention::attention, module)?)?;
    #[cfg(feature = "attention")]
    module.add_function(wrap_pyfunction!(attention::attention_result, module)?)?;
    module.add_function(wrap_pyfunction!(movement::copy, module)?)?;
    module.add_function(wrap_pyfunction!(operation::declared, module)?)?;
    module.add_function(wrap_pyfunction!(operation::declared_results, module)?)?;
    module.add_function(wrap_pyfunction!(operation::run_declared, module)?)?;
    Ok(())
}
