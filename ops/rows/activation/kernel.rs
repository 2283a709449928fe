//! Activations with a bias, and gated ones: elementwise, in f32.

use moye_device::algorithm::{MAP_THREADS, MapModes, map};
use moye_device::arch::{Bf16x2, F16x2, overlap_launches};
use moye_device::prelude::*;

/// `x`.
pub const NONE: u32 = 0;
/// `max(x, 0)`.
pub const RELU: u32 = 1;
/// `max(x, 0)^2`.
pub const RELU2: u32 = 2;
/// `x sigmoid(x)`.
pub const SILU: u32 = 3;
/// GELU by the error function.
pub const GELU: u32 = 4;
/// GELU by a hyperbolic tangent.
pub const GELU_TANH: u32 = 5;

/// [`NONE`], [`RELU`] or [`RELU2`].
#[inline(always)]
fn rectified(x: f32, activation: u32) -> f32 {
    let y = if activation == NONE { x } else { math::relu(x) };
    if activation == RELU2 { y * y } else { y }
}

/// Calls `$map` with the function of an activation: the branch is uniform, and outside the loads.
macro_rules! with_activation {
    ($activation:ident, |$f:ident| $map:expr) => {
        match $activation {
            SILU => {
                let $f = math::fast::silu;
                $map
            }
            GELU => {
                let $f = math::fast::gelu;
                $map
            }
            GELU_TANH => {
                let $f = math::fast::gelu_tanh;
                $map
            }
            _ => {
                let $f = |x: f32| rectified(x, $activation);
                $map
            }
        }
    };
}

/// `out = f(x) * other` if it is `gated`, else `f(x + other)`, or `f(x)` where the address of
/// `other` is 0.
///
/// # Safety
/// The operands have the elements of `modes`; `out` is an input of the same strides, or overlaps
/// none.
#[kernel(threads = MAP_THREADS, instances = activated<f32 | f16 | bf16>, table = ActivatedKernels)]
pub unsafe fn activated<T: Element + Convert<f32>>(
    x: Global<T>,
    other: Global<T>,
    out: GlobalMut<T>,
    modes: MapModes<2>,
    activation: u32,
    gated: bool,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let biased = !gated && other.address() != 0;
    with_activation!(activation, |f| map((x, other), out, &modes, |[x, other]: [f32; 2]| {
        // A zero keeps its sign without a bias.
        let y = f(if biased { x + other } else { x });
        if gated { y * other } else { y }
    }))
}

/// `out = f(a) * b` of adjacent elements `a`, `b` of `x`: `P` is a pair of `T`.
///
/// # Safety
/// As [`activated`]; elements of `x` are pairs.
#[kernel(
    threads = MAP_THREADS,
    instances = (gated_pairs_f32<f32, [f32; 2]>, gated_pairs_f16<f16, F16x2>, gated_pairs_bf16<bf16, Bf16x2>),
    table = GatedPairKernels
)]
pub unsafe fn gated_pairs<T: Element, P: Element + Convert<[f32; 2]>>(
    x: Global<T>,
    out: GlobalMut<T>,
    modes: MapModes<1>,
    activation: u32,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let pairs = x.cast::<P>();
    with_activation!(activation, |f| map((pairs,), out, &modes, |[[a, b]]: [[f32; 2]; 1]| f(a) * b))
}
