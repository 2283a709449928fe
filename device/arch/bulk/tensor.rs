//! Tensor copies: boxes of a tensor, by a tensor map.

use super::check_rank;
#[cfg(target_arch = "nvptx64")]
use super::{coordinate, each_rank};
use crate::arch::CachePolicy;
use crate::arch::target::needs;
use crate::memory::TensorMapPointer;

/// Loads a box into shared memory, which completes on `mbarrier`
/// (`cp.async.bulk.tensor.Rd.shared::cluster.global.mbarrier::complete_tx::bytes`).
///
/// # Safety
/// `destination`, a multiple of 128 (of 1,024 if a 128-byte swizzle starts there), and `mbarrier`
/// are shared addresses of one block of the cluster; with `multicast`, of the block itself, and
/// each block that the mask names has such memory there. If the map has a swizzle and a box's rows
/// are shorter than its span, each row takes a span. No thread accesses the destination until the
/// mbarrier's phase, which expects the bytes of the box, completes. `map` is the address of a
/// tensor map of `R` dimensions, whose tensor is readable memory.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn tensor_load<const R: usize>(
    destination: u32,
    map: TensorMapPointer,
    start: [i32; R],
    mbarrier: u32,
    multicast: Option<u16>,
    policy: Option<CachePolicy>,
) {
    const { check_rank::<R>() };
    needs!("cp.async.bulk.tensor", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    {
        macro_rules! load {
            ($rank:literal, $list:literal, $($c:ident $at:literal),+) => {
                load!(@ concat!("cp.async.bulk.tensor.", $rank, ".shared::cluster.global.mbarrier::complete_tx::bytes"),
                    concat!(" [{destination}], [{map}, {{", $list, "}}], [{mbarrier}]"), $($c $at),+)
            };
            (@ $name:expr, $operands:expr, $($c:ident $at:literal),+) => {
                // SAFETY: aligned shared memory of one block, and a map of readable memory.
                unsafe {
                    match (multicast, policy) {
                        (None, None) => load!(@@ ($name, $operands, ";"), ($($c $at),+),),
                        (None, Some(policy)) => load!(
                            @@ ($name, ".L2::cache_hint", $operands, ", {policy};"), ($($c $at),+), policy = in(reg64) policy.0,
                        ),
                        (Some(mask), None) => load!(
                            @@ ($name, ".multicast::cluster", $operands, ", {mask};"), ($($c $at),+), mask = in(reg16) mask,
                        ),
                        (Some(mask), Some(policy)) => load!(
                            @@ ($name, ".multicast::cluster.L2::cache_hint", $operands, ", {mask}, {policy};"), ($($c $at),+),
                            mask = in(reg16) mask, policy = in(reg64) policy.0,
                        ),
                    }
                }
            };
            (@@ ($($text:expr),+), ($($c:ident $at:literal),+), $($operand:tt)*) => {
                core::arch::asm!(
                    concat!($($text),+),
                    destination = in(reg32) destination, map = in(reg64) map.address(), mbarrier = in(reg32) mbarrier,
                    $($c = in(reg32) coordinate(start, $at),)+
                    $($operand)*
                    options(nostack)
                )
            };
        }
        each_rank!(R, load)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = policy;
        moye_sim::intrinsics::tensor_load(destination, map.address(), start, mbarrier, multicast);
    }
}

macro_rules! stores {
    ($d:tt $($(#[$doc:meta])* $name:ident $prefix:literal $infix:literal $simulated:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// A box starts at 0 or more along each dimension: a start below 0 is an illegal
        /// instruction on an H200 (driver 580.159.04; observed with 1 to 5 dimensions, along the
        /// first and the last), even if most of the box is in the tensor, and a fault in the
        /// simulator. A box may start past the tensor's end, and then nothing is written; loads may
        /// start below 0.
        ///
        /// # Safety
        /// `source`, a multiple of 128, is a shared address of the block, its bytes were fenced
        /// ([`fence_proxy_async_shared`](crate::arch::fence_proxy_async_shared)), and no thread
        /// writes it until the thread has waited for the group. `map` is the address of a tensor
        /// map of `R` dimensions, whose tensor is writable memory that no other thread accesses
        /// except by additions.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<const R: usize>(
            map: TensorMapPointer,
            start: [i32; R],
            source: u32,
            policy: Option<CachePolicy>,
        ) {
            const { check_rank::<R>() };
            needs!($prefix, 90 8.0);
            #[cfg(target_arch = "nvptx64")]
            {
                macro_rules! store {
                    ($d rank:literal, $d list:literal, $d($d c:ident $d at:literal),+) => {
                        // SAFETY: fenced shared memory of the block, and a map of writable memory.
                        unsafe {
                            match policy {
                                None => core::arch::asm!(
                                    concat!($prefix, ".", $d rank, $infix, ".bulk_group [{map}, {{", $d list, "}}], [{source}];"),
                                    map = in(reg64) map.address(), source = in(reg32) source,
                                    $d($d c = in(reg32) coordinate(start, $d at),)+ options(nostack)
                                ),
                                Some(policy) => core::arch::asm!(
                                    concat!(
                                        $prefix, ".", $d rank, $infix, ".bulk_group.L2::cache_hint [{map}, {{", $d list,
                                        "}}], [{source}], {policy};"
                                    ),
                                    map = in(reg64) map.address(), source = in(reg32) source,
                                    policy = in(reg64) policy.0,
                                    $d($d c = in(reg32) coordinate(start, $d at),)+ options(nostack)
                                ),
                            }
                        }
                    };
                }
                each_rank!(R, store)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let _ = policy;
                moye_sim::intrinsics::$simulated(map.address(), start, source);
            }
        }
    )* };
}
stores! {
    $
    /// Stores a box from shared memory (`cp.async.bulk.tensor.Rd.global.shared::cta.bulk_group`).
    ///
    /// If a row of the tensor ends within 16 bytes, the rest of the 16 bytes is written too
    /// (observed on an H200).
    tensor_store "cp.async.bulk.tensor" ".global.shared::cta" tensor_store;
    /// Adds a box of shared memory to the elements of a tensor
    /// (`cp.reduce.async.bulk.tensor.Rd.global.shared::cta.add.bulk_group`).
    tensor_reduce_add "cp.reduce.async.bulk.tensor" ".global.shared::cta.add" tensor_reduce_add;
}
