//! Activations with a bias, and gated activations: elementwise, in f32.

use moye_device::algorithm::{MAP_THREADS, MapModes, map};
use moye_device::arch::{Bf16x2, F16x2, overlap_launches};
use moye_device::prelude::*;

/// The function of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Activation {
    /// `x`.
    None,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2`.
    Relu2,
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`.
    Gelu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.
    GeluTanh,
}

const NONE: u32 = Activation::None as u32;
const RELU2: u32 = Activation::Relu2 as u32;
const SILU: u32 = Activation::Silu as u32;
const GELU: u32 = Activation::Gelu as u32;
const GELU_TANH: u32 = Activation::GeluTanh as u32;

/// ReLU, its square and the identity, which `math` lacks.
#[inline(always)]
fn rectified(x: f32, activation: u32) -> f32 {
    let y = if activation == NONE { x } else { math::relu(x) };
    if activation == RELU2 { y * y } else { y }
}

/// Calls `$map` with the function of an activation: the branch is uniform, and precedes the loads.
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
/// Same contract as [`activated`]; elements of `x` are pairs.
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
