//! Copies of bytes. Addresses and sizes are multiples of 16.

use crate::arch::CachePolicy;
use crate::arch::target::needs;
use crate::memory::Element;
use half::{bf16, f16};

/// Loads `bytes` bytes into shared memory, which complete on `mbarrier`
/// (`cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes`).
///
/// # Safety
/// `destination` and `mbarrier` are shared addresses of one block of the cluster; with `multicast`,
/// of the block itself, and each block that the mask names has such memory there. No thread
/// accesses the destination until the mbarrier's phase, which expects the bytes, completes.
/// `source` is the global address of readable memory.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn bulk_load(
    destination: u32,
    source: u64,
    bytes: u32,
    mbarrier: u32,
    multicast: Option<u16>,
    policy: Option<CachePolicy>,
) {
    needs!("cp.async.bulk", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    {
        macro_rules! load {
            ($suffix:literal, $last:literal, $($operand:tt)*) => {
                core::arch::asm!(
                    concat!(
                        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", $suffix,
                        " [{destination}], [{source}], {bytes}, [{mbarrier}]", $last, ";"
                    ),
                    destination = in(reg32) destination, source = in(reg64) source, bytes = in(reg32) bytes,
                    mbarrier = in(reg32) mbarrier, $($operand)* options(nostack)
                )
            };
        }
        // SAFETY: shared addresses of one block of the cluster, and a readable source.
        unsafe {
            match (multicast, policy) {
                (None, None) => load!("", "",),
                (None, Some(policy)) => load!(".L2::cache_hint", ", {policy}", policy = in(reg64) policy.0,),
                (Some(mask), None) => load!(".multicast::cluster", ", {mask}", mask = in(reg16) mask,),
                (Some(mask), Some(policy)) => load!(
                    ".multicast::cluster.L2::cache_hint", ", {mask}, {policy}",
                    mask = in(reg16) mask, policy = in(reg64) policy.0,
                ),
            }
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = policy;
        moye_sim::intrinsics::bulk_load(destination, source, bytes, mbarrier, multicast);
    }
}

/// Copies `bytes` bytes of the block's shared memory to a block of the cluster, where they complete
/// on `mbarrier` (`cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes`).
///
/// # Safety
/// `destination` and `mbarrier` are addresses of the cluster's shared memory in one block, `source`
/// is a shared address of this block, and its bytes were fenced. No thread accesses the destination
/// or writes the source until the mbarrier's phase, which expects the bytes, completes; neither
/// block exits before.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn bulk_copy_to_cluster(destination: u32, source: u32, bytes: u32, mbarrier: u32) {
    needs!("cp.async.bulk", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: shared addresses of blocks that have not exited, and a fenced source.
    unsafe {
        core::arch::asm!(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [{destination}], [{source}], {bytes}, [{mbarrier}];",
            destination = in(reg32) destination, source = in(reg32) source, bytes = in(reg32) bytes,
            mbarrier = in(reg32) mbarrier, options(nostack)
        )
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::bulk_copy_to_cluster(destination, source, bytes, mbarrier);
}

/// Stores `bytes` bytes of shared memory (`cp.async.bulk.global.shared::cta.bulk_group`).
///
/// # Safety
/// `source` is a shared address of the block, its bytes were fenced
/// ([`fence_proxy_async_shared`](crate::arch::fence_proxy_async_shared)), and no thread writes it
/// until the thread has waited for the group. `destination` is the global address of writable
/// memory that no other thread accesses.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn bulk_store(destination: u64, source: u32, bytes: u32, policy: Option<CachePolicy>) {
    needs!("cp.async.bulk", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: a fenced source in the block's shared memory, and a writable destination.
    unsafe {
        match policy {
            None => core::arch::asm!(
                "cp.async.bulk.global.shared::cta.bulk_group [{destination}], [{source}], {bytes};",
                destination = in(reg64) destination, source = in(reg32) source, bytes = in(reg32) bytes,
                options(nostack)
            ),
            Some(policy) => core::arch::asm!(
                "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [{destination}], [{source}], {bytes}, {policy};",
                destination = in(reg64) destination, source = in(reg32) source, bytes = in(reg32) bytes,
                policy = in(reg64) policy.0, options(nostack)
            ),
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = policy;
        moye_sim::intrinsics::bulk_store(destination, source, bytes);
    }
}

/// An element type that bulk copies can add.
pub trait BulkReduceAdd: Element {
    /// Adds `bytes` bytes of elements in shared memory to elements in global memory
    /// (`cp.reduce.async.bulk.global.shared::cta.bulk_group.add`).
    ///
    /// # Safety
    /// Same contract as [`bulk_store`]; other threads may add to the same elements.
    unsafe fn bulk_reduce_add(destination: u64, source: u32, bytes: u32);
}

macro_rules! reduce {
    ($($t:ty: $suffix:literal $element:ident;)*) => { $(
        impl BulkReduceAdd for $t {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn bulk_reduce_add(destination: u64, source: u32, bytes: u32) {
                needs!("cp.reduce.async.bulk", 90 8.0);
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: a fenced source in the block's shared memory, and a writable destination.
                unsafe {
                    core::arch::asm!(
                        concat!(
                            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.", $suffix,
                            " [{destination}], [{source}], {bytes};"
                        ),
                        destination = in(reg64) destination, source = in(reg32) source, bytes = in(reg32) bytes,
                        options(nostack)
                    )
                }
                #[cfg(not(target_arch = "nvptx64"))]
                moye_sim::intrinsics::bulk_reduce_add(
                    destination, source, bytes, moye_sim::intrinsics::TensorElement::$element,
                );
            }
        }
    )* };
}
reduce! {
    u32: "u32" U32;
    i32: "s32" I32;
    u64: "u64" U64;
    f32: "f32" F32;
    f64: "f64" F64;
    f16: "noftz.f16" F16;
    bf16: "noftz.bf16" Bf16;
}
