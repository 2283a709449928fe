//! Prefetches of copies into the L2 cache.

use super::check_rank;
#[cfg(target_arch = "nvptx64")]
use super::{coordinate, each_rank};
use crate::arch::target::needs;
use crate::memory::TensorMapPointer;

/// Prefetches a box of a tensor into L2 (`cp.async.bulk.prefetch.tensor.Rd.L2.global`).
///
/// # Safety
/// Same contract as [`tensor_load`](super::tensor_load), for the map.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn tensor_prefetch<const R: usize>(map: TensorMapPointer, start: [i32; R]) {
    const { check_rank::<R>() };
    needs!("cp.async.bulk.prefetch.tensor", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    {
        macro_rules! prefetch {
            ($rank:literal, $list:literal, $($c:ident $at:literal),+) => {
                // SAFETY: `map` points to a tensor map.
                unsafe {
                    core::arch::asm!(
                        concat!("cp.async.bulk.prefetch.tensor.", $rank, ".L2.global [{map}, {{", $list, "}}];"),
                        map = in(reg64) map.address(), $($c = in(reg32) coordinate(start, $at),)+ options(nostack)
                    )
                }
            };
        }
        each_rank!(R, prefetch)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::tensor_prefetch(map.address(), start);
}

/// Prefetches `bytes` bytes into L2; address and size are multiples of 16
/// (`cp.async.bulk.prefetch.L2.global`).
///
/// # Safety
/// The bytes are readable memory.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn bulk_prefetch(address: u64, bytes: u32) {
    needs!("cp.async.bulk.prefetch", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the bytes are readable memory.
    unsafe {
        core::arch::asm!(
            "cp.async.bulk.prefetch.L2.global [{address}], {bytes};",
            address = in(reg64) address, bytes = in(reg32) bytes, options(nostack)
        )
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::bulk_prefetch(address, bytes);
}

/// Prefetches a tensor map for TMA, so that the first copy does not wait for it
/// (`prefetch.tensormap`).
///
/// # Safety
/// `map` points to a tensor map.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn prefetch_tensor_map(map: TensorMapPointer) {
    needs!("prefetch.tensormap", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: `map` points to a tensor map.
    unsafe {
        core::arch::asm!("prefetch.tensormap [{}];", in(reg64) map.address(), options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = map;
}
