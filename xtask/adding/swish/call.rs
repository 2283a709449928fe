//! Builds the launches of a call.

use super::kernel::SwishKernels;
use crate::prelude::*;
use moye_device::algorithm::MapLaunch;

/// A launch for elements of a type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Swish {
    dtype: Dtype,
    map: MapLaunch<1>,
}

impl Launch for Swish {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let (map, x) = (&self.map, self.map.inputs[0]);
        // SAFETY: the operands have the elements of the modes.
        of_floats!("swish", self.dtype, T => unsafe {
            let arguments = (Global::from_address(x), GlobalMut::from_address(map.out), map.modes);
            to.launch(&<T as SwishKernels>::KERNELS[0], map_grid(map).dependent(), arguments)
        })
    }
}

/// Type and shape of the result: those of x.
pub fn results(inputs: &[Option<ArrayType>], _: &Options) -> Result<Vec<ArrayType>> {
    Ok(vec![given(inputs, 0).clone()])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let (x, out) = (call.operand(0), call.operand(1));
    map_launches("swish", [Some(x)], out)?.into_iter().try_for_each(|map| {
        // SAFETY: the call's arrays are on the stream's device until the work is complete.
        unsafe { on.launch(&Swish { dtype: x.dtype, map }) }
    })
}
