//! Sums of multiples, casts and constants: elementwise, in f32.

use moye_device::algorithm::{MAP_THREADS, MapModes, map};
use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// `out = alpha x + (beta y + constant)`, each sum rounded once to f32. An operand whose address is
/// 0 is left out; with a factor and a constant of -0 it changes no bit.
///
/// # Safety
/// The operands have the elements of `modes`; `out` is an input of the same strides, or overlaps
/// none.
#[kernel(threads = MAP_THREADS, instances = affine<f32 | f16 | bf16, f32 | f16 | bf16>)]
pub unsafe fn affine<T: Element + Convert<f32>, U: Element>(
    x: Global<T>,
    y: Global<T>,
    out: GlobalMut<U>,
    modes: MapModes<2>,
    alpha: f32,
    beta: f32,
    constant: f32,
) where
    f32: Convert<U>,
{
    overlap_launches();
    map((x, y), out, &modes, |[x, y]: [f32; 2]| alpha.fma(x, beta.fma(y, constant)));
}
