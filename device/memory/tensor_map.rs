//! A tensor map as a kernel has it: by its address.

use crate::kernel::{KernelParam, ParamType};

/// A pointer to a tensor map in global memory: 128 bytes at a multiple of 64, which tell TMA of a tensor and of the boxes that
/// are moved. The host makes them.
///
/// A by-value parameter of that alignment is more than the compiler takes (see the design's notes on compiling), and by a
/// pointer it is as fast.
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
