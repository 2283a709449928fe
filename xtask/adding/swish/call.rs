//! From a call to launches.

use super::kernel::SwishKernels;
use half::{bf16, f16};
use moye::operation::{Call, Dtype, Elementwise, Launcher, map_grid, run_elementwise};
use moye::{Error, Global, GlobalMut, Ptx, Result, Stream};
use moye_device::algorithm::MapLaunch;
use std::marker::PhantomData;

/// The operation on elements `T`.
struct Swish<T>(PhantomData<T>);

impl<T: SwishKernels> Elementwise<1> for Swish<T> {
    type Scalars = ();
    const NAME: &'static str = "swish";

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn kernel() -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch(call: &MapLaunch<1>, (): (), on: &Launcher<'_>) -> Result<()> {
        let arguments = (Global::from_address(call.inputs[0]), GlobalMut::from_address(call.out), call.modes);
        // SAFETY: the operands have the elements of the modes.
        unsafe { on.launch(&T::KERNELS[0], map_grid(call).dependent(), arguments) }
    }
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let (x, out) = (call.operand(0), call.operand(1));
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe {
        match x.dtype {
            Dtype::F32 => run_elementwise::<Swish<f32>, 1>(stream, [Some(x)], out, ()),
            Dtype::F16 => run_elementwise::<Swish<f16>, 1>(stream, [Some(x)], out, ()),
            Dtype::Bf16 => run_elementwise::<Swish<bf16>, 1>(stream, [Some(x)], out, ()),
            other => Err(no_kernel(other)),
        }
    }
}

/// The name of the kernel of a call.
pub fn explain(call: &Call<'_>) -> Result<&'static str> {
    match call.operand(0).dtype {
        Dtype::F32 => Ok(Swish::<f32>::kernel()),
        Dtype::F16 => Ok(Swish::<f16>::kernel()),
        Dtype::Bf16 => Ok(Swish::<bf16>::kernel()),
        other => Err(no_kernel(other)),
    }
}

fn no_kernel(dtype: Dtype) -> Error {
    let detail = format!("there are no kernels for elements of {dtype}; convert them to float32");
    Error::Unsupported { operation: "swish", detail }
}
