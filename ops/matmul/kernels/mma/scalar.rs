//! The epilogue's arithmetic: in f32 for half precision and tf32, in f64 for f64, in i32 for
//! integers.

use super::arguments::{Activation, Arguments};
use half::{bf16, f16};
use moye_device::algorithm::transform;
use moye_device::arch::{self, Convert, Fma, opaque};
use moye_device::kernel::KernelParam;
use moye_device::math;
use moye_device::memory::Element;
use moye_device::tensor::{Access, Engine, Fragment, StaticLayout, Tensor};

/// The type of `alpha`, `beta`, the bias and the activation's arithmetic.
pub trait Scalar: Fma + KernelParam + PartialEq {
    /// The value 1.
    const ONE: Self;
    /// The additive identity for all values: -0 for floats, since `-0 + 0` is 0.
    const NOTHING: Self;

    /// [`Activation::Relu`].
    #[must_use]
    fn relu(self) -> Self;

    /// [`Activation::Gelu`]. Integers are returned unchanged; the host refuses GELU of integers.
    #[must_use]
    fn gelu(self) -> Self;

    /// [`Activation::GeluTanh`]; integers as in [`Scalar::gelu`].
    #[must_use]
    fn gelu_tanh(self) -> Self;

    /// [`Activation::Silu`]; integers as in [`Scalar::gelu`].
    #[must_use]
    fn silu(self) -> Self;

    /// [`Scalar::gelu`] of two values, if that takes fewer instructions.
    #[inline(always)]
    #[must_use]
    fn gelu_of_two(pair: [Self; 2]) -> [Self; 2] {
        pair.map(Self::gelu)
    }

    /// [`Scalar::gelu_tanh`] of two values, if that takes fewer instructions.
    #[inline(always)]
    #[must_use]
    fn gelu_tanh_of_two(pair: [Self; 2]) -> [Self; 2] {
        pair.map(Self::gelu_tanh)
    }

    /// [`Scalar::silu`] of two values, if that takes fewer instructions.
    #[inline(always)]
    #[must_use]
    fn silu_of_two(pair: [Self; 2]) -> [Self; 2] {
        pair.map(Self::silu)
    }
}

/// An element type of C, or of the bias, for arithmetic in `S`.
pub trait Convertible<S>: Element {
    /// The value in `S`.
    fn widen(self) -> S;
}

/// Replaces `results`, which hold the previous C if `beta` is not 0, by
/// `activation(alpha * sums + beta * c + bias)`.
///
/// `empty` means that there is no product: neither `alpha` nor `sums` is read, and `beta * c` keeps
/// its bits. Each condition is tested once for all elements: the code has one branch per condition,
/// not per element.
///
/// # Safety
/// `sums` is readable, and so is `bias` if there is one.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub(super) unsafe fn finish<T, O, S, A, LA, B, LB, LR>(
    arguments: &Arguments<T, O, S>,
    sums: &Tensor<A, LA>,
    bias: &Tensor<B, LB>,
    results: &mut Fragment<B::Element, LR>,
    empty: bool,
) where
    T: Element,
    O: Element,
    S: Scalar + Convert<B::Element>,
    A: Access + Engine<Element: Convertible<S>>,
    B: Access + Engine<Element: Convertible<S>>,
    LA: StaticLayout,
    LB: StaticLayout,
    LR: StaticLayout,
{
    let count = const { LR::LAYOUT.size() as usize };
    let mut values = Fragment::<S, LR>::uninit();
    if empty {
        let none = if arguments.beta == S::ZERO { S::ZERO } else { S::NOTHING };
        transform(sums, &mut values, |_| none);
    } else {
        transform(sums, &mut values, |sum| arguments.alpha.fma(sum.widen(), S::ZERO));
    }
    if arguments.beta != S::ZERO {
        for e in 0..count {
            values.set(e, arguments.beta.fma(results.get(e).widen(), values.get(e)));
        }
    }
    if arguments.bias.address() != 0 {
        for e in 0..count {
            values.set(e, S::ONE.fma(bias.get(e).widen(), values.get(e)));
        }
    }
    // A branch for each group: testing the condition for each element is too slow, and the compiler
    // schedules all instructions between two branches together, in time that grows with the square
    // of their number.
    for group in 0..count.div_ceil(GROUP) {
        let group = group * GROUP..((group + 1) * GROUP).min(count);
        match opaque(arguments.activation) {
            RELU => {
                for e in group {
                    values.set(e, values.get(e).relu());
                }
            }
            GELU => {
                for e in group {
                    values.set(e, values.get(e).gelu());
                }
            }
            GELU_TANH => {
                for e in group {
                    values.set(e, values.get(e).gelu_tanh());
                }
            }
            SILU => {
                for e in group {
                    values.set(e, values.get(e).silu());
                }
            }
            _ => {}
        }
    }
    transform(&values, results, |value| value);
}

/// Elements whose activation is computed between two branches.
const GROUP: usize = 16;

const RELU: u32 = Activation::Relu as u32;
const GELU: u32 = Activation::Gelu as u32;
const GELU_TANH: u32 = Activation::GeluTanh as u32;
const SILU: u32 = Activation::Silu as u32;

// On the host the activations are separate functions: inlined into each kernel they would take most
// of the time of the simulator's build.
impl Scalar for f32 {
    const ONE: Self = 1.0;
    const NOTHING: Self = -0.0;

    #[inline(always)]
    fn relu(self) -> Self {
        math::relu(self)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu(self) -> Self {
        math::fast::gelu(self)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu_tanh(self) -> Self {
        math::fast::gelu_tanh(self)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn silu(self) -> Self {
        math::fast::silu(self)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu_of_two(pair: [Self; 2]) -> [Self; 2] {
        math::fast::gelu_of_two(pair)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu_tanh_of_two(pair: [Self; 2]) -> [Self; 2] {
        math::fast::gelu_tanh_of_two(pair)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn silu_of_two(pair: [Self; 2]) -> [Self; 2] {
        math::fast::silu_of_two(pair)
    }
}

impl Scalar for i32 {
    const ONE: Self = 1;
    const NOTHING: Self = 0;

    #[inline(always)]
    fn relu(self) -> Self {
        if self < 0 { 0 } else { self }
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu(self) -> Self {
        self
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu_tanh(self) -> Self {
        self
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn silu(self) -> Self {
        self
    }
}

macro_rules! same {
    ($($t:ty),*) => { $(
        impl Convertible<$t> for $t {
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
        }
    )* };
}
same!(f32, f64, i32);

impl Convertible<f32> for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        arch::f16_to_f32(self)
    }
}

impl Convertible<f32> for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        arch::bf16_to_f32(self)
    }
}

#[cfg(test)]
#[path = "scalar_tests.rs"]
mod tests;
