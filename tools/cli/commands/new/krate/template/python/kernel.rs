//! The kernel, compiled for the host, where the simulator runs it, and to PTX.

use moye_device::algorithm::{MAP_THREADS, MapModes, map};
use moye_device::prelude::*;

/// `out = x / (1 + exp(-x))`, element by element, computed in f32.
///
/// # Safety
/// `x` and `out` have the elements of `modes`; `out` is `x`, or shares no element with it.
#[kernel(threads = MAP_THREADS, instances = silu<f32 | f16 | bf16>, table = SiluKernels)]
pub unsafe fn silu<T: Element + Convert<f32>>(x: Global<T>, out: GlobalMut<T>, modes: MapModes<1>)
where
    f32: Convert<T>,
{
    map((x,), out, &modes, |[x]: [f32; 1]| math::fast::silu(x));
}
