//! The order of the instructions: fences, groups and waits.

use crate::arch::target::needs;
use crate::tiling::TilingError;

macro_rules! ordered {
    ($($(#[$doc:meta])* $name:ident $intrinsic:literal $instruction:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// All lanes of all four warps of the warpgroup must execute it.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name() {
            needs!($instruction, sm_90a 8.0);
            #[cfg(target_arch = "nvptx64")]
            {
                unsafe extern "C" {
                    #[link_name = $intrinsic]
                    fn order();
                }
                // SAFETY: a convergent intrinsic that accesses no memory.
                unsafe { order() }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            moye_sim::intrinsics::$name();
        }
    )* };
}
ordered! {
    /// Orders the threads' register accesses before the instructions that follow
    /// (`wgmma.fence.sync.aligned`).
    wgmma_fence "llvm.nvvm.wgmma.fence.sync.aligned" "wgmma.fence";
    /// Commits the instructions since the previous group as a group
    /// (`wgmma.commit_group.sync.aligned`).
    wgmma_commit_group "llvm.nvvm.wgmma.commit_group.sync.aligned" "wgmma.commit_group";
}

/// Waits until all groups except the `PENDING` youngest, at most 7, are complete
/// (`wgmma.wait_group.sync.aligned`). All lanes of the warpgroup must execute it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wgmma_wait_group<const PENDING: u32>() {
    const {
        if PENDING > 7 {
            TilingError::of("wgmma_wait_group")
                .int(PENDING as i64)
                .str(" groups may be under way; 0 to 7 would work")
                .raise();
        }
    };
    needs!("wgmma.wait_group", sm_90a 8.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction only waits.
    unsafe {
        core::arch::asm!("wgmma.wait_group.sync.aligned {};", const PENDING, options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::wgmma_wait_group(PENDING);
}

/// [`wgmma_wait_group`], but not before `values` are computed: earlier arithmetic stays before the
/// wait, and overlaps the products.
///
/// `ptxas` moves a wait upwards, above arithmetic that should run meanwhile. Here each value is the
/// predicate of a store that never happens, since no arithmetic returns this NaN: one comparison
/// and one predicated instruction each.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wgmma_wait_group_after<const PENDING: u32, const N: usize>(values: [f32; N]) {
    needs!("wgmma.wait_group", sm_90a 8.0);
    #[cfg(target_arch = "nvptx64")]
    {
        let mut i = 0;
        while i < N {
            // SAFETY: no arithmetic returns this NaN, so nothing is stored.
            unsafe {
                core::arch::asm!(
                    "{{ .reg .pred p; setp.eq.b32 p, {value}, 0x7fbadbad; @p st.shared.b32 [{value}], {value}; }}",
                    value = in(reg32) values[i].to_bits(), options(nostack)
                );
            }
            i += 1;
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = values;
    wgmma_wait_group::<PENDING>();
}
