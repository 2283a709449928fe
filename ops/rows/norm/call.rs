//! From a call to launches.

use super::kernel::{NormKernels, Output, Strides};
use crate::code::Code;
use crate::of_floats;
use crate::rows::{Operand, RowArray, RowKernel, RowLaunch, RowsOf, expect, last_axis};
use moye::operation::{ArrayType, Call, Dtype, Options};
use moye::{Error, Result, Stream};
use std::marker::PhantomData;

/// What is computed.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    /// Whether the mean is taken off, and there is a bias.
    pub center: bool,
    /// Whether the result has 8 bits, and a scale a row.
    pub quantized: bool,
}

/// Norms of elements `T`.
struct Norm<T>(PhantomData<T>);

impl<T: NormKernels> RowKernel<7> for Norm<T> {
    const NAME: &'static str = "norm";
    /// `eps`, whether the mean is taken off, and the type of 8 bits or the [`Output`].
    type Scalars = (u32, bool, u32);

    fn name(instance: usize) -> &'static str {
        T::KERNELS[instance].name()
    }

    unsafe fn launch(
        on: &RowLaunch<'_>,
        [x, weight, bias, residual, y, sum, scales]: [RowArray; 7],
        (eps, center, code): (u32, bool, u32),
    ) -> Result<()> {
        let ld = Strides {
            x: x.stride,
            weight: weight.stride,
            bias: bias.stride,
            residual: residual.stride,
            y: y.stride,
            sum: sum.stride,
            scales: scales.stride,
        };
        let arguments = (
            x.read(),
            weight.read(),
            bias.read(),
            residual.read(),
            y.write(),
            sum.write(),
            scales.write(),
            on.rows,
            on.columns,
            ld,
            f32::from_bits(eps),
            center,
            code,
        );
        // SAFETY: the arrays hold the rows.
        unsafe { on.launch(T::KERNELS, arguments) }
    }
}

/// The names of result types: that of x, and others.
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
pub fn results(kind: Kind, inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let (x, columns) = last_axis(kind.name, inputs)?;
    let names: &[_] = if kind.center { &["weight", "bias", "residual"] } else { &["weight", "residual"] };
    for (of, input) in names.iter().zip(&inputs[1..]) {
        expect(kind.name, of, input, if *of == "residual" { x } else { &columns })?;
    }
    if !kind.quantized {
        let out = ArrayType { dtype: output(options, x.dtype).0, shape: x.shape.clone() };
        return Ok(vec![out, x.clone()]);
    }
    let dtype = options.dtype("dtype");
    if !Dtype::BYTES.contains(&dtype) {
        let detail = format!("dtype is {dtype}, and may be int8, float8_e4m3fn or float8_e5m2");
        return Err(Error::Unsupported { operation: kind.name, detail });
    }
    let scales = ArrayType { dtype: Dtype::F32, shape: x.shape[..x.shape.len() - 1].to_vec() };
    Ok(vec![ArrayType { dtype, shape: x.shape.clone() }, scales, x.clone()])
}

/// The kernel's arrays: x, weight, bias, residual, out, sum, scales.
fn rows(call: &Call<'_>, kind: Kind) -> Result<RowsOf<7>> {
    let mut operands = call.operands.iter().map(Option::as_ref);
    let mut next = |is_there: bool| if is_there { operands.next().flatten() } else { None };
    let [x, weight, bias, residual, out, scales, sum] =
        [true, true, kind.center, true, true, kind.quantized, true].map(&mut next);
    let [x, residual, out, sum] = [x, residual, out, sum].map(Operand::Rows);
    let operands =
        [x, Operand::Columns(weight), Operand::Columns(bias), residual, out, sum, Operand::Each(scales)];
    RowsOf::new(kind.name, operands, call.operand(0).axis(kind.name, -1)?)
}

/// Computes LayerNorm or RMSNorm.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>, kind: Kind) -> Result<()> {
    let rows = rows(call, kind)?;
    let code = if kind.quantized {
        Code::of(call.options.dtype("dtype")) as u32
    } else {
        output(call.options, rows.dtype).1 as u32
    };
    let scalars = ((call.options.float("eps") as f32).to_bits(), kind.center, code);
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    of_floats!(kind.name, rows.dtype, T => unsafe { rows.run::<Norm<T>>(kind.name, stream, |_| scalars) })
}

/// The kernel that computes a call.
pub fn explain(stream: &Stream, call: &Call<'_>, kind: Kind) -> Result<&'static str> {
    let rows = rows(call, kind)?;
    of_floats!(kind.name, rows.dtype, T => rows.explain::<Norm<T>>(kind.name, stream))
}
