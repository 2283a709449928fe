//! Tensor maps in kernels: as a parameter, or by address in global memory.

use crate::arch::parameter_address;
use crate::kernel::{KernelParam, ParamType};

/// A pointer to a tensor map in global memory: 128 bytes at a multiple of 64, which describe a
/// tensor and its boxes for TMA. The host builds it; as a kernel parameter, a [`TensorMap`], it
/// needs no memory and no copy. A thread that copies by a map in memory first executes
/// [`fence_proxy_tensormap`](crate::arch::fence_proxy_tensormap).
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

// SAFETY: a device address, like the pointers to global memory.
unsafe impl KernelParam for TensorMapPointer {
    const TYPE: ParamType = ParamType::Global { element: "TensorMap", written: false };
}

/// A tensor map that is passed to a kernel by value. TMA takes the address of the parameter, which
/// [`pointer`](Self::pointer) returns.
///
/// In CUDA C++ this is `const __grid_constant__ CUtensorMap`. Here the compiler sees 128 bytes of
/// which the kernel uses only the address, and `moye-build` sets the alignment.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(target_arch = "nvptx64", repr(C))]
#[cfg_attr(not(target_arch = "nvptx64"), repr(C, align(64)))]
pub struct TensorMap([u64; 16]);

impl TensorMap {
    /// The map with these words, in the form of the device that will run the kernel.
    #[must_use]
    pub const fn from_words(words: [u64; 16]) -> Self {
        Self(words)
    }

    /// The address of the parameter, valid as long as the kernel runs. Call it on the parameter
    /// itself: a copy may be gone before the instruction that uses its address.
    #[inline(always)]
    #[must_use]
    pub fn pointer(&self) -> TensorMapPointer {
        TensorMapPointer(parameter_address(&self.0))
    }
}

// SAFETY: 128 bytes in the form that the device's tensor copies take; aligned to 64 on both sides,
// since moye-build writes the alignment of a `Constant`, and to 8 where the compiler passes it.
unsafe impl KernelParam for TensorMap {
    const TYPE: ParamType = ParamType::Constant { name: "TensorMap", size: size_of::<Self>() };

    #[inline(always)]
    fn at(self, address: u64) -> Self {
        let mut words = self.0;
        words[0] = address;
        Self(words)
    }
}
