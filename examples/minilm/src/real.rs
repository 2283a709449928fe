//! The element types of weights and states.

use crate::kernels;
use half::f16;
use moye::{Global, GlobalMut, Kernel, Operand, Output};
use moye_rows::norm::kernel::NormKernels;

/// The parameters of attention.
pub type AttentionKernel<T> = Kernel<(Global<T>, Global<i32>, GlobalMut<T>, u32, f32)>;

/// The parameters of the mean.
pub type MeanKernel<T> = Kernel<(Global<T>, Global<i32>, GlobalMut<T>, u32)>;

/// An element type: f32 or f16. Accumulators are f32.
pub trait Real: Operand<Scalar = f32> + Output<Self> + NormKernels {
    /// Attention, and the threads of its blocks.
    const ATTENTION: (AttentionKernel<Self>, u32);
    /// The mean of a sentence's tokens.
    const MEAN: MeanKernel<Self>;

    /// The element nearest to `number`.
    fn of(number: f32) -> Self;

    /// Its value.
    fn value(self) -> f32;
}

impl Real for f32 {
    const ATTENTION: (AttentionKernel<Self>, u32) = (kernels::attention_f32, kernels::THREADS_F32);
    const MEAN: MeanKernel<Self> = kernels::mean_f32;

    fn of(number: f32) -> Self {
        number
    }
    fn value(self) -> f32 {
        self
    }
}

impl Real for f16 {
    const ATTENTION: (AttentionKernel<Self>, u32) = (kernels::attention_f16, kernels::THREADS_F16);
    const MEAN: MeanKernel<Self> = kernels::mean_f16;

    fn of(number: f32) -> Self {
        Self::from_f32(number)
    }
    fn value(self) -> f32 {
        self.to_f32()
    }
}
