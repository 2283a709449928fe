//! The accumulators of a thread.

use crate::arch::mma::Register;

/// A thread's accumulators: an array of `f32`, of `i32`, or of `u32` that hold two `f16` each.
pub trait Accumulators: Copy + Send + Sync + 'static {
    /// The register type: 32 bits.
    type Register: Register;

    /// The number of registers.
    const COUNT: usize;

    /// All registers zero, for any type.
    const ZERO: Self;

    /// The registers in order.
    fn as_slice(&self) -> &[Self::Register];

    /// The registers in order, mutable.
    fn as_mut_slice(&mut self) -> &mut [Self::Register];

    /// Makes the compiler assume that a register has changed.
    #[doc(hidden)]
    #[cfg(target_arch = "nvptx64")]
    fn changed(&mut self, index: usize);
}

macro_rules! accumulators {
    ($($t:ty = $zero:expr),*) => { $(
        impl<const N: usize> Accumulators for [$t; N] {
            type Register = $t;
            const COUNT: usize = N;
            const ZERO: Self = [$zero; N];

            #[inline(always)]
            fn as_slice(&self) -> &[$t] {
                self
            }

            #[inline(always)]
            fn as_mut_slice(&mut self) -> &mut [$t] {
                self
            }

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            fn changed(&mut self, index: usize) {
                // SAFETY: a comment without an instruction; the register does not change.
                unsafe { core::arch::asm!("// {}", inout(reg32) self[index], options(nostack, preserves_flags)) };
            }
        }
    )* };
}
accumulators!(u32 = 0, i32 = 0, f32 = 0.0);

/// The registers as words.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) fn words<A: Accumulators>(registers: &mut A) -> &mut [u32] {
    let registers = registers.as_mut_slice();
    const { assert!(size_of::<A::Register>() == 4, "a register has 32 bits") };
    // SAFETY: the same number of values of the same size, any bits of which are valid in both
    // types.
    unsafe { core::slice::from_raw_parts_mut(registers.as_mut_ptr().cast(), registers.len()) }
}

/// Tells the compiler that the accumulators change here, by instructions whose wait precedes this
/// call; it emits no instruction.
///
/// Without it, computations from the accumulators could move above the wait. In the simulator the
/// accumulators get their values here.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wgmma_fence_registers<A: Accumulators>(registers: &mut A) {
    #[cfg(target_arch = "nvptx64")]
    {
        let mut i = 0;
        while i < A::COUNT {
            registers.changed(i);
            i += 1;
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::wgmma_take_results(words(registers));
}
