//! Elementwise functions: `transform`, `axpby`.

use crate::arch::{Convert, Fma};
use crate::tensor::{Access, AccessMut, Engine, StaticLayout, Tensor, each_once, same_size};

/// Sets every element of `output` to `f` of the element of `input` at the same index, CuTe's
/// `transform`.
///
/// If `f` returns another type than the output's, the result is converted: f32 to f16 or bf16 two
/// values at a time (`cvt.rn.f16x2.f32`), so leave that conversion to `transform`.
///
/// ```
/// # #![allow(non_snake_case)]
/// use half::f16;
/// use moye_device::algorithm::transform;
/// use moye_device::layout::layout;
/// use moye_device::static_layout;
/// use moye_device::tensor::Fragment;
///
/// static_layout! { Values = layout!((2, 2)); } // (MMA, MMA_N)
/// let tCrC = Fragment::<f32, Values>::filled(0.2);
/// let mut results = Fragment::<f16, Values>::zeros();
/// // SAFETY: both are this thread's registers.
/// unsafe { transform(&tCrC, &mut results, |sum| 0.5 * sum) };
/// assert_eq!(results[(1, 1)], f16::from_f32(0.1));
/// ```
///
/// # Safety
/// The input is readable and the output writable; meanwhile no other thread writes elements of the
/// input or accesses elements of the output. For output elements smaller than a byte, whose byte is
/// read and written back, this includes all elements in the same bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn transform<A, LA, B, LB, R>(
    input: &Tensor<A, LA>,
    output: &mut Tensor<B, LB>,
    mut f: impl FnMut(A::Element) -> R,
) where
    A: Access,
    B: AccessMut,
    LA: StaticLayout,
    LB: StaticLayout,
    R: Convert<B::Element>,
{
    const {
        same_size("transform", &LA::LAYOUT, &LB::LAYOUT);
        each_once("transform", &LB::LAYOUT);
    };
    let pairs = const { if R::IN_PAIRS { Tensor::<A, LA>::SIZE / 2 } else { 0 } };
    // SAFETY: input and output may be accessed; inside both.
    unsafe {
        for pair in 0..pairs {
            let first = 2 * pair;
            let [low, high] = R::convert_pair([f(input.get(first)), f(input.get(first + 1))]);
            output.set(first, low);
            output.set(first + 1, high);
        }
        for i in 2 * pairs..Tensor::<A, LA>::SIZE {
            output.set(i, f(input.get(i)).convert());
        }
    }
}

/// `y = alpha * x + beta * y`, CuTe's `axpby`.
///
/// With a `beta` of zero `y` is not read, so that its previous value (NaN, for example) has no
/// effect. The product with `beta` is rounded; `alpha * x` is then added by a fused multiply-add.
///
/// # Safety
/// `x` is readable, and `y` readable and writable; meanwhile no other thread writes elements of `x`
/// or accesses elements of `y`. (Types with a multiply-add have whole bytes.)
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn axpby<T, X, LX, Y, LY>(alpha: T, x: &Tensor<X, LX>, beta: T, y: &mut Tensor<Y, LY>)
where
    T: Fma + PartialEq,
    X: Access + Engine<Element = T>,
    Y: AccessMut + Engine<Element = T>,
    LX: StaticLayout,
    LY: StaticLayout,
{
    const {
        same_size("axpby", &LX::LAYOUT, &LY::LAYOUT);
        each_once("axpby", &LY::LAYOUT);
    };
    let reads = beta != T::ZERO;
    for i in 0..Tensor::<X, LX>::SIZE {
        // SAFETY: `x` and `y` may be accessed; inside both.
        unsafe {
            let old = if reads { beta.fma(y.get(i), T::ZERO) } else { T::ZERO };
            y.set(i, alpha.fma(x.get(i), old));
        }
    }
}
