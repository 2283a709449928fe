//! A tensor map as a kernel has it: as a parameter of its own, or by its address in global memory.

use crate::arch::parameter_address;
use crate::kernel::{KernelParam, ParamType};

/// A pointer to a tensor map in global memory: 128 bytes at a multiple of 64, which describe a
/// tensor and its boxes for TMA. The host makes them; as a parameter of a kernel, a [`TensorMap`],
/// it needs no memory and no copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct TensorMapPointer(u64);

impl TensorMapPointer {
    /// The pointer with this device address.
    #[inline(always)]
    #[must_use]
    pub const fn from_address(address: u64) -> Self {
        Self(address)
    }

    /// The device address, in bytes.
    #[inline(always)]
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0
    }
}

// SAFETY: a device address, as the pointers to global memory are.
unsafe impl KernelParam for TensorMapPointer {
    const TYPE: ParamType = ParamType::Global { element: "TensorMap", written: false };
}

/// A tensor map that is passed to a kernel by value: TMA takes it by the address of the parameter,
/// which [`pointer`](Self::pointer) gives.
///
/// CUDA C++ writes `const __grid_constant__ CUtensorMap`. Here the compiler takes it for 128 bytes
/// of which the kernel sees nothing but that address, and `moye-build` gives it its alignment.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(target_arch = "nvptx64", repr(C))]
#[cfg_attr(not(target_arch = "nvptx64"), repr(C, align(64)))]
pub struct TensorMap([u64; 16]);

impl TensorMap {
    /// The map of these bytes, in the form of the device that will run the kernel.
    #[must_use]
    pub const fn from_words(words: [u64; 16]) -> Self {
        Self(words)
    }

    /// The address of the parameter, valid as long as the kernel runs. Call it on the parameter
    /// itself: a copy may be gone before the instruction that takes its address.
    #[inline(always)]
    #[must_use]
    pub fn pointer(&self) -> TensorMapPointer {
        TensorMapPointer(parameter_address(&self.0))
    }
}

// SAFETY: 128 bytes in the form that the device's tensor copies take; a multiple of 64 on both
// sides, as moye-build writes the alignment of a `Constant`, and 8 where the compiler passes it.
unsafe impl KernelParam for TensorMap {
    const TYPE: ParamType = ParamType::Constant { name: "TensorMap", size: size_of::<Self>() };

    #[inline(always)]
    fn at(self, address: u64) -> Self {
        let mut words = self.0;
        words[0] = address;
        Self(words)
    }
}
