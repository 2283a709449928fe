//! The 16-bit floats, for kernels generic over both.

use super::{AddsInPlace, MmaAtom, SM80_16x8x16_F32BF16BF16F32_TN, SM80_16x8x16_F32F16F16F32_TN};
use crate::arch::Convert;
use crate::memory::Element;
use half::{bf16, f16};

/// f16 or bf16, with the `mma.sync` that multiplies it: a kernel of both is
/// `fn kernel<T: Half>(...)`, its tiled MMA `Mma<T: Half>: TiledMma<T::Atom>`.
pub trait Half: Element + Convert<f32> {
    /// 16 x 8 x 16, with f32 accumulators.
    type Atom: MmaAtom<C = f32> + AddsInPlace;
}

impl Half for f16 {
    type Atom = SM80_16x8x16_F32F16F16F32_TN;
}

impl Half for bf16 {
    type Atom = SM80_16x8x16_F32BF16BF16F32_TN;
}
