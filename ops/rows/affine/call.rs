//! From a call to launches.

use super::kernel::*;
use crate::of_floats;
use half::{bf16, f16};
use moye::operation::{
    Array, ArrayType, Call, Elementwise, Launcher, broadcast_shape, map_grid, run_elementwise,
};
use moye::{Error, Ptx, Result, Stream};
use moye_device::algorithm::{MapLaunch, MapModes};
use moye_device::kernel::Kernel;
use moye_device::memory::{Element, Global, GlobalMut};
use std::marker::PhantomData;

/// The kernel of elements `Self` with results `U`.
trait AffineTo<U: Element>: Element {
    const KERNEL: Kernel<(Global<Self>, Global<Self>, GlobalMut<U>, MapModes<2>, f32, f32, f32)>;
}

macro_rules! kernels {
    ($($kernel:ident: $t:ty => $u:ty;)+) => { $(
        impl AffineTo<$u> for $t {
            const KERNEL: Kernel<(Global<$t>, Global<$t>, GlobalMut<$u>, MapModes<2>, f32, f32, f32)> = $kernel;
        }
    )+ };
}
kernels! {
    affine_f32_f32: f32 => f32;
    affine_f32_f16: f32 => f16;
    affine_f32_bf16: f32 => bf16;
    affine_f16_f32: f16 => f32;
    affine_f16_f16: f16 => f16;
    affine_f16_bf16: f16 => bf16;
    affine_bf16_f32: bf16 => f32;
    affine_bf16_f16: bf16 => f16;
    affine_bf16_bf16: bf16 => bf16;
}

/// Sums of multiples of elements `T` as `U`.
struct Affine<T, U>(PhantomData<(T, U)>);

impl<T: AffineTo<U>, U: Element> Elementwise<2> for Affine<T, U> {
    /// The bits of alpha, beta and the constant.
    type Scalars = [u32; 3];
    const NAME: &'static str = "affine";

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn kernel() -> &'static str {
        T::KERNEL.name()
    }

    unsafe fn launch(call: &MapLaunch<2>, scalars: [u32; 3], on: &Launcher<'_>) -> Result<()> {
        let [x, y] = call.inputs.map(Global::from_address);
        let [alpha, beta, constant] = scalars.map(f32::from_bits);
        let arguments = (x, y, GlobalMut::from_address(call.out), call.modes, alpha, beta, constant);
        // SAFETY: the caller's contract; the operands have the elements of the modes.
        unsafe { on.launch(&T::KERNEL, map_grid(call).dependent(), arguments) }
    }
}

/// The type of `alpha x + beta y`: that of both, which are broadcast.
pub fn sum(operation: &'static str, inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let [x, y] = [0, 1].map(|index| inputs[index].as_ref().expect("checked: no input is optional"));
    if x.dtype != y.dtype {
        let detail = format!("x has elements of {}, and y of {}; convert one", x.dtype, y.dtype);
        return Err(Error::ShapeMismatch { operation, detail });
    }
    Ok(vec![ArrayType { dtype: x.dtype, shape: broadcast_shape(operation, &[x, y])? }])
}

/// Computes `out = alpha x + beta y + constant`; an input that is left out needs no factor.
///
/// # Safety
/// The arrays are in memory of the stream's device until the work is complete; `out` shares no
/// elements with an input, or is the same array.
pub unsafe fn affine(
    operation: &'static str,
    stream: &Stream,
    inputs: [Option<&Array>; 2],
    out: &Array,
    scalars: [Option<f64>; 3],
) -> Result<()> {
    let dtype = inputs.iter().flatten().next().map_or(out.dtype, |input| input.dtype);
    // Adding -0 changes no bit.
    let scalars = scalars.map(|value| (value.unwrap_or(-0.0) as f32).to_bits());
    // SAFETY: the arrays are on the stream's device until the work is complete.
    of_floats!(operation, dtype, T => of_floats!(operation, out.dtype, U => unsafe {
        run_elementwise::<Affine<T, U>, 2>(stream, inputs, out, scalars)
    }))
}

/// Copies an array to one of the same shape, of any strides; it converts to the type of `out`.
///
/// # Safety
/// As for [`affine`].
#[cfg(feature = "rope")]
pub unsafe fn copy(operation: &'static str, stream: &Stream, x: &Array, out: &Array) -> Result<()> {
    // SAFETY: the arrays are on the stream's device until the work is complete.
    unsafe { affine(operation, stream, [Some(x), None], out, [Some(1.0), None, None]) }
}

/// Computes a call; an operand whose factor is `None` is not read.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(
    operation: &'static str,
    stream: &Stream,
    call: &Call<'_>,
    [alpha, beta]: [Option<f64>; 2],
    constant: Option<f64>,
) -> Result<()> {
    let out = call.operand(call.operands.len() - 1);
    let inputs = [alpha.map(|_| call.operand(0)), beta.map(|_| call.operand(1))];
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { affine(operation, stream, inputs, out, [alpha, beta, constant]) }
}

/// The kernel that computes a call.
pub fn explain(operation: &'static str, call: &Call<'_>) -> Result<&'static str> {
    let [x, out]: [&Array; 2] = [0, call.operands.len() - 1].map(|index| call.operand(index));
    Ok(of_floats!(operation, x.dtype, T => of_floats!(operation, out.dtype, U => Affine::<T, U>::kernel())))
}
