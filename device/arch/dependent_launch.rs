//! Programmatic dependent launch (PDL): a kernel starts while the previous one in the stream still
//! runs.
//!
//! The launch has to allow it; otherwise both instructions have no effect. The simulator runs
//! launches in order, and reports an access to memory of the previous launch as a race if the
//! thread has not waited.

use super::target::needs;

macro_rules! control {
    ($($(#[$doc:meta])* $name:ident $text:literal, $simulated:expr;)*) => { $(
        $(#[$doc])*
        #[doc = concat!(" (`", $text, "`).")]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name() {
            needs!($text, 90 7.8);
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: it waits, or allows the next kernel to start.
            unsafe {
                core::arch::asm!(concat!($text, ";"), options(nostack))
            }
            #[cfg(not(target_arch = "nvptx64"))]
            $simulated
        }
    )* };
}
control! {
    /// Waits until the kernels on which this one depends have completed, and their writes are
    /// visible
    wait_for_prior_kernels "griddepcontrol.wait", moye_sim::intrinsics::wait_for_prior_launch();
    /// Allows the dependent kernels to start once all blocks have done so or exited
    launch_dependents "griddepcontrol.launch_dependents",
        moye_sim::intrinsics::launch_dependents();
}

/// Both, before any access to memory: the next kernel may start as SMs become free, and waits in
/// the same way. Has no effect in a kernel that is compiled for an architecture older than sm_90,
/// which lacks both; the host launches such a kernel after earlier ones have completed, on any GPU.
///
/// The kernel touches no memory of other kernels before it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn overlap_launches() {
    #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))]
    {
        launch_dependents();
        wait_for_prior_kernels();
    }
}
