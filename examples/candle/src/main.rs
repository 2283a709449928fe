//! A linear layer of candle, forward and backward, with moye's products: on GPU 0 with the feature
//! `cuda`, otherwise on the simulator.
//!
//! `cargo run`, `cargo run --release --features cuda`

use candle_core::{DType, Device, Result, Tensor, Var};
use moye::interop::candle::{Product, ProductInto};

fn main() -> Result<()> {
    let device = if cfg!(feature = "cuda") { Device::new_cuda(0)? } else { Device::Cpu };
    let (tokens, inputs, outputs) = if device.is_cuda() { (1000, 4096, 1024) } else { (50, 64, 24) };
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let x = Tensor::randn(0.0f32, 1.0, (2, tokens, inputs), &device)?.to_dtype(dtype)?;
        let weight =
            Var::from_tensor(&Tensor::randn(0.0f32, 0.1, (outputs, inputs), &device)?.to_dtype(dtype)?)?;
        // A view: no transpose, and no copy for the two batches.
        let turned = weight.t()?.broadcast_as((2, inputs, outputs))?;

        let product = Product::new();
        let y = x.apply_op2(&turned, product.clone())?;
        let exact = x.to_dtype(DType::F64)?.matmul(&turned.to_dtype(DType::F64)?.contiguous()?)?;
        close("y", &y, &exact, dtype)?;

        // y += x @ weight^T, in place.
        let twice = y.copy()?;
        twice.inplace_op3(&x, &turned, &ProductInto::new().beta(1.0))?;
        close("2 y", &twice, &(&exact * 2.0)?, dtype)?;

        let grads = y.to_dtype(DType::F32)?.sum_all()?.backward()?;
        let grad = grads.get(&weight).ok_or_else(|| candle_core::Error::msg("no gradient"))?;
        // The sum over all tokens, which is equal for all outputs.
        let sums = x.to_dtype(DType::F64)?.sum((0, 1))?.broadcast_as((outputs, inputs))?;
        close("the gradient", grad, &sums, dtype)?;
        println!("{dtype:?}: y, 2 y and the gradient are right, on {device:?}");
    }
    Ok(())
}

/// Rejects a result whose relative norm error exceeds the type's bound.
fn close(what: &str, result: &Tensor, exact: &Tensor, dtype: DType) -> Result<()> {
    let norm = |x: &Tensor| x.sqr()?.sum_all()?.sqrt()?.to_scalar::<f64>();
    let error = norm(&(result.to_dtype(DType::F64)? - exact)?)? / norm(exact)?;
    let tolerance = match dtype {
        DType::F32 => 1e-5,
        DType::F16 => 2e-3,
        _ => 2e-2,
    };
    if error > tolerance || error.is_nan() {
        candle_core::bail!("{what} in {dtype:?}: relative error {error:e}");
    }
    Ok(())
}
