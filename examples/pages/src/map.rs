//! `x * sigmoid(y) + z` with any strides and broadcasts: the engine of elementwise kernels and a
//! closure.

use moye_device::algorithm::{MAP_THREADS, MapModes, map};
use moye_device::prelude::*;

/// The blocks of `modes`.
///
/// # Safety
/// The operands have the elements of `modes`; `out` is an input with the same strides, or overlaps
/// no input.
#[kernel(threads = MAP_THREADS, instances = (gate_f32<f32>, gate_bf16<bf16>))]
pub unsafe fn gate<T: Element + Convert<f32>>(
    x: Global<T>,
    y: Global<T>,
    z: Global<T>,
    out: GlobalMut<T>,
    modes: MapModes<3>,
) where
    f32: Convert<T>,
{
    let sigmoid = |y: f32| math::fast::rcp(1.0 + math::fast::exp(-y));
    map((x, y, z), out, &modes, |[x, y, z]: [f32; 3]| x * sigmoid(y) + z);
}
