//! `gemm`: a thread's part of a matrix product.

use crate::arch::Fma;
use crate::atom::TilingError;
use crate::layout::Layout;
use crate::tensor::{Access, Engine, Fragment, FragmentLike, ModeOf, StaticLayout, Tensor};

/// `c(m, n) += a(m, k) * b(n, k)` over all `k`, by fused multiply-adds: `a` is `(M, K)`, `b` is
/// `(N, K)` and the accumulator `c` is `(M, N)`.
///
/// For each `k` the thread loads its column of `a` and of `b` once and computes their outer
/// product, so `M + N` loads serve `M * N` multiply-adds. Products accumulate in the order of `k`,
/// in the precision of the elements.
///
/// # Safety
/// `a` and `b` may be read, and no other thread writes them meanwhile.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn gemm<T, A, LA, B, LB, LC>(a: &Tensor<A, LA>, b: &Tensor<B, LB>, c: &mut Fragment<T, LC>)
where
    T: Fma,
    A: Access + Engine<Element = T>,
    B: Access + Engine<Element = T>,
    LA: StaticLayout,
    LB: StaticLayout,
    LC: StaticLayout,
{
    let (m, n, k) = const { extents(LA::LAYOUT, LB::LAYOUT, LC::LAYOUT) };
    for k in 0..k {
        // SAFETY: each element is set below, before it is read.
        let (mut column_a, mut column_b) =
            unsafe { (Column::<T, LA>::untracked(), Column::<T, LB>::untracked()) };
        for i in 0..m {
            // SAFETY: `a` is readable; inside both tensors.
            unsafe { column_a.set(i, a.get(i + k * m)) };
        }
        for j in 0..n {
            // SAFETY: `b` is readable; inside both tensors.
            unsafe { column_b.set(j, b.get(j + k * n)) };
        }
        for j in 0..n {
            for i in 0..m {
                // SAFETY: inside the fragments.
                unsafe { c.set(i + j * m, column_a.get(i).fma(column_b.get(j), c.get(i + j * m))) };
            }
        }
    }
}

/// A column of an operand, in registers.
type Column<T, L> = Fragment<T, FragmentLike<ModeOf<L, 0>>>;

/// `(M, N, K)`, on which the three layouts must agree.
const fn extents(a: Layout, b: Layout, c: Layout) -> (usize, usize, usize) {
    let wrong = if a.rank() != 2 || b.rank() != 2 || c.rank() != 2 {
        Some("one of them does not have two modes")
    } else if a.extent(0) != c.extent(0) {
        Some("a and c differ in M")
    } else if b.extent(0) != c.extent(1) {
        Some("b and c differ in N")
    } else if a.extent(1) != b.extent(1) {
        Some("a and b differ in K")
    } else {
        None
    };
    if let Some(wrong) = wrong {
        TilingError::of("gemm")
            .str("the operands are a (M, K), b (N, K) and c (M, N); with a = ")
            .layout(&a)
            .str(", b = ")
            .layout(&b)
            .str(" and c = ")
            .layout(&c)
            .str(": ")
            .str(wrong)
            .str("; take parts of tiles that agree")
            .raise();
    }
    (a.extent(0) as usize, b.extent(0) as usize, a.extent(1) as usize)
}
