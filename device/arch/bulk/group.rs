//! Groups of stores.

use crate::arch::target::needs;

/// Commits the stores that the thread issued since its previous group as a group, which may be
/// empty (`cp.async.bulk.commit_group`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn bulk_commit_group() {
    needs!("cp.async.bulk.commit_group", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: groups the stores before it.
    unsafe {
        core::arch::asm!("cp.async.bulk.commit_group;", options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::bulk_commit();
}

macro_rules! waits {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name<const PENDING: u32>() {
            needs!("cp.async.bulk.wait_group", 90 8.0);
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: only waits.
            unsafe {
                core::arch::asm!(concat!($text, " {};"), const PENDING, options(nostack))
            }
            #[cfg(not(target_arch = "nvptx64"))]
            moye_sim::intrinsics::$name(PENDING);
        }
    )* };
}
waits! {
    /// Waits until all of the thread's groups except the `PENDING` youngest are complete: their
    /// destinations are written (`cp.async.bulk.wait_group`).
    bulk_wait_group "cp.async.bulk.wait_group";
    /// Waits until all of the thread's groups except the `PENDING` youngest have read shared
    /// memory, which may then be rewritten (`cp.async.bulk.wait_group.read`). A thread that has
    /// issued stores must wait before it exits.
    bulk_wait_group_read "cp.async.bulk.wait_group.read";
}
