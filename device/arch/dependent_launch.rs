//! Programmatic dependent launch: a kernel begins while the one before it in the stream still runs.
//!
//! The launch has to allow it; without, both instructions have no effect. The simulator runs one launch after the other, and
//! tells an access to what the launch before touches, if the thread has not waited, as a race.

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
            // SAFETY: waits, or tells that others may begin.
            unsafe {
                core::arch::asm!(concat!($text, ";"), options(nostack))
            }
            #[cfg(not(target_arch = "nvptx64"))]
            $simulated
        }
    )* };
}
control! {
    /// Waits until the kernels that this one depends on have ended, and what they wrote is visible
    wait_for_prior_kernels "griddepcontrol.wait", moye_sim::intrinsics::wait_for_prior_launch();
    /// Says that the kernels that depend on this one may begin, once all blocks have said so or ended
    launch_dependents "griddepcontrol.launch_dependents", {};
}

/// Both, in front of all that touches memory: what comes behind may begin as multiprocessors are left, and waits as this one does. Nothing in a
/// kernel that is compiled for an older architecture than sm_90, which has neither, and which the host launches behind the kernel in front,
/// whatever GPU runs it.
///
/// No memory that another kernel touches may be touched in front of it.
#[inline(always)]
pub fn overlap_launches() {
    #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))]
    {
        launch_dependents();
        wait_for_prior_kernels();
    }
}
