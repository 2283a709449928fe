//! The kernels of an element type of activations.

use super::activations::ActivationKernels;
use super::codes::{Rows, Weights};
use super::floats::FloatKernels;
use super::formats::UnpackKernels;
use super::kernel::{Finish, LinearKernels};
use super::many::{Activation, GateKernels, ManyKernels};
use half::{bf16, f16};
use moye_device::atom::tma::TmaElement;
use moye_device::kernel::Kernel;
use moye_device::memory::{Global, GlobalMut};

/// A type of activations: f16 or bf16.
pub trait WeightKernels:
    LinearKernels
    + FloatKernels
    + UnpackKernels
    + ManyKernels
    + GateKernels
    + ActivationKernels
    + Activation
    + TmaElement
{
}
impl WeightKernels for f16 {}
impl WeightKernels for bf16 {}

/// A kernel for few rows of elements `T`.
type FewKernel<T> = Kernel<(Global<T>, GlobalMut<T>, Weights, u32, Rows, Rows, Finish)>;

/// A kernel for few rows, by index: the kernels of integers, then those of e4m3.
pub fn few<T: WeightKernels>(kernel: usize) -> &'static FewKernel<T> {
    let integers = <T as LinearKernels>::KERNELS;
    integers.get(kernel).unwrap_or_else(|| &<T as FloatKernels>::KERNELS[kernel - integers.len()])
}
