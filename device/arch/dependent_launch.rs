//! Programmatic dependent launch (PDL): a kernel starts while the previous one in the stream still
//! runs.
//!
//! The launch must allow it; otherwise both instructions have no effect. The simulator runs
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
            // SAFETY: it waits, or lets the next kernel start.
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

/// Both instructions; call it before any access to memory. The next kernel may start as SMs become
/// free, and waits in the same way. It has no effect in a kernel compiled for an architecture
/// before sm_90, which lacks both; on any GPU such a kernel is launched after earlier ones have
/// completed.
///
/// The kernel must not access other kernels' memory before it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn overlap_launches() {
    #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))]
    {
        launch_dependents();
        wait_for_prior_kernels();
    }
}

/// Both instructions in the other order: the next kernel starts when all blocks have waited here.
/// Before its own wait that kernel may read what kernels before this one have written.
///
/// The kernel must not access other kernels' memory before it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn overlap_next_launch() {
    #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))]
    {
        wait_for_prior_kernels();
        launch_dependents();
    }
}
