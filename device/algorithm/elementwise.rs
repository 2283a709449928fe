//! Functions of elements: `transform`, `axpby`.

use crate::arch::Fma;
use crate::atom::TilingError;
use crate::layout::Layout;
use crate::tensor::{Access, AccessMut, Engine, StaticLayout, Tensor};

/// The tensors have the same number of elements, or the call does not compile.
const fn same_size(what: &str, from: Layout, to: Layout) {
    if from.size() != to.size() {
        TilingError::of(what)
            .layout(&from)
            .str(" has ")
            .int(from.size())
            .str(" elements and ")
            .layout(&to)
            .str(" has ")
            .int(to.size())
            .str(": both must have the same number of elements")
            .raise();
    }
}

/// Sets every element of `output` to `f` of the element of `input` at the same index, CuTe's
/// `transform`.
///
/// The element types may differ: a conversion is a transform.
///
/// # Safety
/// The input may be read and the output written; no other thread writes elements of the input or
/// touches those of the output meanwhile, nor, of output elements smaller than a byte, others in
/// the same bytes: those are written by reading their byte and writing it back.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn transform<A, LA, B, LB>(
    input: &Tensor<A, LA>,
    output: &mut Tensor<B, LB>,
    mut f: impl FnMut(A::Element) -> B::Element,
) where
    A: Access,
    B: AccessMut,
    LA: StaticLayout,
    LB: StaticLayout,
{
    const { same_size("transform", LA::LAYOUT, LB::LAYOUT) };
    for i in 0..Tensor::<A, LA>::SIZE {
        // SAFETY: the caller's contract; inside both.
        unsafe { output.set(i, f(input.get(i))) };
    }
}

/// `y = alpha * x + beta * y`, CuTe's `axpby`.
///
/// With a `beta` of zero `y` is not read, so that its previous value (NaN, for example) has no
/// effect. The product with `beta` is rounded, then the sum with `alpha * x` once more.
///
/// # Safety
/// `x` may be read and `y` read and written; no other thread writes elements of `x` or touches
/// those of `y` meanwhile. (Types with a multiply-add have whole bytes, which nothing else is in.)
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
    const { same_size("axpby", LX::LAYOUT, LY::LAYOUT) };
    let reads = beta != T::ZERO;
    for i in 0..Tensor::<X, LX>::SIZE {
        // SAFETY: the caller's contract; inside both.
        unsafe {
            let old = if reads { beta.fma(y.get(i), T::ZERO) } else { T::ZERO };
            y.set(i, alpha.fma(x.get(i), old));
        }
    }
}
