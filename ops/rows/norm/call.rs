//! Builds the launches of a call.

use super::kernel::{NormKernels, Output, Strides};
use crate::code::Code;
use crate::prelude::*;

/// The norm and its options.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Whether the mean is subtracted, and there is a bias.
    pub center: bool,
    /// Whether the result is 8-bit, with a scale for each row.
    pub quantized: bool,
}

/// The scalars of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Norm {
    /// The bits of `eps`.
    eps: u32,
    center: bool,
    /// The [`Code`] of 8-bit results, or the [`Output`].
    code: u32,
}

impl RowKernel<7> for Norm {
    const SHAPES: &'static [RowInstance] = plan::SHAPES_OF_NORMS;

    plans!(NormKernels);

    fn variant(&self) -> u32 {
        self.code << 1 | u32::from(self.center)
    }

    unsafe fn launch(
        &self,
        on: &RowLaunch<'_>,
        [x, weight, bias, residual, y, sum, scales]: [RowArray; 7],
    ) -> Result<()> {
        let Self { center, code, .. } = *self;
        let (m, n, eps) = (on.rows, on.columns, f32::from_bits(self.eps));
        let ld = Strides {
            x: x.stride,
            weight: weight.stride,
            bias: bias.stride,
            residual: residual.stride,
            y: y.stride,
            sum: sum.stride,
            scales: scales.stride,
        };
        // SAFETY: the arrays hold the rows.
        of_floats!("norm", on.dtype, T => unsafe { on.launch(T::KERNELS, (
            x.read(), weight.read(), bias.read(), residual.read(), y.write(), sum.write(), scales.write(),
            m, n, ld, eps, center, code,
        )) })
    }
}

/// The names of result types; "same" is the type of x.
pub const TYPES: &[&str] = &["same", "float32", "float16", "bfloat16"];

/// The result type of an option for the type of x, and how the kernel names it.
fn output(options: &Options, x: Dtype) -> (Dtype, Output) {
    match (options.choice("dtype"), x) {
        ("float32", _) | ("same", Dtype::F32) => (Dtype::F32, Output::F32),
        ("float16", _) | ("same", Dtype::F16) => (Dtype::F16, Output::F16),
        _ => (Dtype::Bf16, Output::Bf16),
    }
}

/// Element types and shapes of `out`, if it has 8 bits `scales`, and `sum`. The inputs are x,
/// weight, with a mean bias, and residual.
pub fn results(
    name: &'static str,
    kind: Kind,
    inputs: &[Option<ArrayType>],
    options: &Options,
) -> Result<Vec<ArrayType>> {
    let (x, columns) = last_axis(name, inputs)?;
    let names: &[_] = if kind.center { &["weight", "bias", "residual"] } else { &["weight", "residual"] };
    for (of, input) in names.iter().zip(&inputs[1..]) {
        expect(name, of, input, if *of == "residual" { x } else { &columns })?;
    }
    let like_x = |dtype| ArrayType { dtype, shape: x.shape.clone() };
    if !kind.quantized {
        return Ok(vec![like_x(output(options, x.dtype).0), x.clone()]);
    }
    let scales = ArrayType { dtype: Dtype::F32, shape: x.shape[..x.shape.len() - 1].to_vec() };
    expect_elements(name, &x.shape, &scales.shape)?;
    Ok(vec![like_x(byte_option(name, options)?), scales, x.clone()])
}

/// Computes LayerNorm or RMSNorm.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(name: &'static str, kind: Kind, on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let mut operands = call.operands.iter().map(Option::as_ref);
    let mut next = |is_there: bool| if is_there { operands.next().flatten() } else { None };
    let [x, weight, bias, residual, out, scales, sum] =
        [true, true, kind.center, true, true, kind.quantized, true].map(&mut next);
    let [x, residual, out, sum] = [x, residual, out, sum].map(Operand::Rows);
    let operands =
        [x, Operand::Columns(weight), Operand::Columns(bias), residual, out, sum, Operand::Each(scales)];
    let rows = RowsOf::new(name, operands, call.operand(0).axis(name, -1)?)?;
    let code = if kind.quantized {
        Code::of(call.options.dtype("dtype")) as u32
    } else {
        output(call.options, rows.dtype).1 as u32
    };
    let norm = Norm { eps: bits(call.options, "eps"), center: kind.center, code };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { rows.launch(name, on, |_| norm) }
}
