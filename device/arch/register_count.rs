//! `setmaxnreg`: a warpgroup releases registers, or takes registers that others have released.
//!
//! A block starts with the number of registers for each thread that its kernel was compiled for. A
//! producer warpgroup, which only issues copies, releases registers, and consumer warpgroups take
//! them for accumulators. The kernel must declare its number of threads (`#[kernel(threads = N)]`),
//! without which the instruction has no meaning.
//!
//! An H100 has 65,536 registers for a block: with 240 per thread in two warpgroups and 24 in one,
//! `128 * (240 + 240 + 24) = 64,512`.

use super::target::needs;

/// Checks that `setmaxnreg` accepts this count.
#[track_caller]
const fn check(registers: u32) {
    assert!(
        registers >= 24 && registers <= 256 && registers.is_multiple_of(8),
        "setmaxnreg takes a number of registers from 24 to 256 that is a multiple of 8"
    );
}

macro_rules! set {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => { $(
        $(#[$doc])*
        #[doc = concat!(" (`", $text, "`).")]
        ///
        /// `REGISTERS` is a multiple of 8, 24 to 256; other values do not compile.
        ///
        /// # Safety
        /// All warps of the warpgroup execute it, each with all its lanes, and none of them
        /// executes another `setmaxnreg` before the others have executed this one.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<const REGISTERS: u32>() {
            const { check(REGISTERS) };
            needs!("setmaxnreg", sm_90a 8.0);
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: all warps of the warpgroup execute it, with all lanes.
            unsafe {
                core::arch::asm!(concat!($text, " {};"), const REGISTERS, options(nostack))
            }
            #[cfg(not(target_arch = "nvptx64"))]
            moye_sim::intrinsics::count_instruction($text);
        }
    )* };
}
set! {
    /// Waits until `REGISTERS` registers per thread are available, and takes them
    increase_registers "setmaxnreg.inc.sync.aligned.u32";
    /// Releases all registers except `REGISTERS`
    decrease_registers "setmaxnreg.dec.sync.aligned.u32";
}
