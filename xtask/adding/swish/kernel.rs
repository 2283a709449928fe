//! `x * sigmoid(x)`: elementwise, in f32.

use moye_device::algorithm::{MAP_THREADS, MapModes, map};
use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// `out = x / (1 + exp(-x))`.
///
/// # Safety
/// The operands have the elements of `modes`; `out` is `x`, or does not overlap it.
#[kernel(threads = MAP_THREADS, instances = swish<f32 | f16 | bf16>, table = SwishKernels)]
pub unsafe fn swish<T: Element + Convert<f32>>(x: Global<T>, out: GlobalMut<T>, modes: MapModes<1>)
where
    f32: Convert<T>,
{
    overlap_launches();
    map((x,), out, &modes, |[x]: [f32; 1]| math::fast::silu(x));
}
