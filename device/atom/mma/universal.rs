//! `UniversalFma`: one multiply-add of one thread, for any types.

use super::{AddsInPlace, MmaAtom};
use crate::arch::MulAdd;
use crate::arch::mma::Register;
use crate::layout::{Layout, layout};
use crate::number::Number;
use core::marker::PhantomData;

/// `d = a * b + c` by one thread: a 1 x 1 x 1 product, CuTe's `UniversalFMA<D, A, B, C>`.
///
/// The operands may have narrower types than the result, which may differ; C has the result's type.
/// [`MulAdd`] lists the combinations, and can be implemented for custom types, like
/// [`Number`](crate::number::Number). The types determine the instruction and its requirements:
/// `fma.rn.f32`, or `mad.lo.s32` for integers.
///
/// ```
/// use moye_device::atom::TiledMma;
/// use moye_device::atom::mma::UniversalFma;
/// use moye_device::layout::{layout, tuple};
///
/// // 256 threads, 16 by 16, of which each has 8 x 8 accumulators of a 128 x 128 tile.
/// const MMA: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((16, 16, 1)));
/// assert_eq!(MMA.partition_c(layout!((128, 128))), layout!((1, 8, 8):(0, 16, 2048)));
/// ```
#[derive(Debug, PartialEq, Eq)]
#[allow(clippy::type_complexity, reason = "four type parameters, which no value has")]
pub struct UniversalFma<D, A = D, B = A, C = D>(PhantomData<fn() -> (D, A, B, C)>);

impl<D, A, B, C> Clone for UniversalFma<D, A, B, C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D, A, B, C> Copy for UniversalFma<D, A, B, C> {}
impl<D, A, B, C> Default for UniversalFma<D, A, B, C> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<D, A, B> AddsInPlace for UniversalFma<D, A, B, D> where
    Self: MmaAtom<RegistersC = [D; 1], RegistersD = [D; 1]>
{
}

impl<D, A, B, C> MmaAtom for UniversalFma<D, A, B, C>
where
    D: MulAdd<A, B, C> + MulAdd<A, B, D> + Register,
    A: Number + Register,
    B: Number + Register,
    C: Number + Register,
{
    const NAME: &'static str = "UniversalFma";
    const MOYE_NAME: Option<&'static str> = Some("UniversalFMA");
    const ARCH: u32 = 0;
    const OLDEST_ARCH: u32 = <D as MulAdd<A, B, C>>::OLDEST_ARCH;
    const PTX_VERSION: (u32, u32) = <D as MulAdd<A, B, C>>::PTX_VERSION;
    const INSTRUCTION: &'static str = <D as MulAdd<A, B, C>>::INSTRUCTION;
    const INSTRUCTION_COUNT: usize = <D as MulAdd<A, B, C>>::INSTRUCTION_COUNT;
    const SHAPE_MNK: [i64; 3] = [1, 1, 1];
    const THR_ID: Layout = layout!(1);
    const A: Layout = layout!((1, 1));
    const B: Layout = layout!((1, 1));
    const C: Layout = layout!((1, 1));
    const D: Layout = layout!((1, 1));
    type A = A;
    type B = B;
    type C = C;
    type D = D;
    type RegistersA = [A; 1];
    type RegistersB = [B; 1];
    type RegistersC = [C; 1];
    type RegistersD = [D; 1];

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn fma(d: &mut [D; 1], [a]: [A; 1], [b]: [B; 1], [c]: [C; 1]) {
        *d = [D::mul_add(a, b, c)];
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn accumulate(d: &mut [D; 1], [a]: [A; 1], [b]: [B; 1]) {
        *d = [D::mul_add(a, b, d[0])];
    }
}
