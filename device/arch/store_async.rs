//! Asynchronous stores to the shared memory of a block of the cluster: one instruction stores the
//! value and completes its bytes on an mbarrier.
//!
//! A plain store of [`ClusterWord`](super::ClusterWord) needs a later arrival or a barrier of the
//! cluster to be visible; this store completes on an mbarrier. It is for words in registers; data
//! in shared memory are copied by [`bulk_copy_to_cluster`](super::bulk_copy_to_cluster).

use super::target::needs;
use super::word::{Word64x2, Word128};

/// The word of an asynchronous store: 4, 8 or 16 bytes, aligned to its size.
pub trait AsyncWord: Copy {
    /// Stores `value` at `address`, then completes the word's bytes on the mbarrier at `barrier`;
    /// both are addresses of the cluster's shared memory ([`map_shared`](super::map_shared)) in one
    /// block (`st.async.weak.shared::cluster.mbarrier::complete_tx::bytes`).
    ///
    /// A thread that has waited for the mbarrier's phase by
    /// [`mbarrier_wait_parity_cluster`](super::mbarrier_wait_parity_cluster) sees the value, but no
    /// other write of the storing thread. Threads see it without a fence; `wgmma` and bulk copies
    /// need [`fence_proxy_async`](super::fence_proxy_async) after the wait.
    ///
    /// # Safety
    /// The launch has clusters of at least two blocks: in others an H200 raises an illegal
    /// instruction. `address` is aligned to the word's size, and there is an mbarrier at `barrier`,
    /// whose current phase expects the bytes, or will before its last arrival (for example by
    /// [`mbarrier_arrive_expect_tx`](super::mbarrier_arrive_expect_tx) in its own block). Its block
    /// has started and the mbarrier is initialised, which a barrier of the cluster ensures, and the
    /// block does not exit before the phase is complete. From the store on, other threads do not
    /// access the bytes until they have waited for the phase.
    unsafe fn store_async(address: u32, value: Self, barrier: u32);
}

macro_rules! async_word {
    ($($word:ty: $ptx:literal $list:literal, ($($register:ident: $class:ident = $part:expr),+), |$value:ident| $to:expr;)*) => { $(
        impl AsyncWord for $word {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn store_async(address: u32, $value: Self, barrier: u32) {
                needs!("st.async", 90 8.1);
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: an aligned address, and an mbarrier that expects the bytes.
                unsafe {
                    core::arch::asm!(
                        concat!(
                            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.", $ptx,
                            " [{address}], ", $list, ", [{barrier}];"
                        ),
                        $($register = in($class) $part,)+ address = in(reg32) address, barrier = in(reg32) barrier,
                        options(nostack)
                    )
                }
                #[cfg(not(target_arch = "nvptx64"))]
                moye_sim::intrinsics::store_async(address, $to, barrier);
            }
        }
    )* };
}
async_word! {
    u32: "b32" "{a}", (a: reg32 = value), |value| value;
    f32: "b32" "{a}", (a: reg32 = value), |value| value;
    u64: "b64" "{a}", (a: reg64 = value), |value| value;
    Word64x2: "v2.b32" "{{{a}, {b}}}", (a: reg32 = value.0[0], b: reg32 = value.0[1]), |value| value.0;
    Word128: "v4.b32" "{{{a}, {b}, {c}, {d}}}",
        (a: reg32 = value.0[0], b: reg32 = value.0[1], c: reg32 = value.0[2], d: reg32 = value.0[3]), |value| value.0;
}
