//! Operations on candle's tensors on the host, computed on the simulator.

mod declared;
mod product;

use candle_core::{DType, Device, Result, Tensor};

/// Normally distributed elements.
fn random(shape: &[usize], dtype: DType) -> Result<Tensor> {
    Tensor::randn(0.0f64, 1.0, shape, &Device::Cpu)?.to_dtype(dtype)
}

/// The error of a result, relative by norm.
fn error(result: &Tensor, exact: &Tensor) -> Result<f64> {
    let norm = |x: &Tensor| x.sqr()?.sum_all()?.sqrt()?.to_scalar::<f64>();
    Ok(norm(&(result.to_dtype(DType::F64)? - exact)?)? / norm(exact)?)
}
