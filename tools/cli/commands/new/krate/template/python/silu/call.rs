//! From a call to launches.

use crate::kernel::SiluKernels;
use moye::operation::{
    ArrayType, Call, Dtype, Launch, On, Options, To, map_grid, map_launches, of_floats,
};
use moye::{Global, GlobalMut, Ptx, Result};
use moye_device::algorithm::MapLaunch;

static KERNELS: Ptx = moye::include_ptx!("new_kernels");

/// Type and shape of the result: those of x.
pub fn results(inputs: &[Option<ArrayType>], _: &Options) -> Result<Vec<ArrayType>> {
    Ok(vec![inputs[0].clone().expect("x is not optional")])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn compute(on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let (x, out) = (call.operand(0), call.operand(1));
    map_launches("silu", [Some(x)], out)?.into_iter().try_for_each(|map| {
        // SAFETY: the arrays of a call are on the stream's device until the work is complete.
        unsafe { on.launch(&Silu { dtype: x.dtype, map }) }
    })
}

/// A launch: with the same values a thread replays it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Silu {
    dtype: Dtype,
    map: MapLaunch<1>,
}

impl Launch for Silu {
    fn ptx() -> &'static Ptx {
        &KERNELS
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let (map, x) = (&self.map, self.map.inputs[0]);
        // SAFETY: the operands have the elements of the modes.
        of_floats!("silu", self.dtype, T => unsafe {
            let arguments = (Global::from_address(x), GlobalMut::from_address(map.out), map.modes);
            to.launch(&<T as SiluKernels>::KERNELS[0], map_grid(map), arguments)
        })
    }
}
