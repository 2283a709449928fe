//! Bulk copies: one thread moves bytes, or a box of a tensor, between global and shared memory,
//! asynchronously.
//!
//! A load's bytes arrive when a thread looks at its mbarrier; until then, no thread may access the
//! destination. A store reads its source when its thread waits for the read; only a thread that
//! knows of this wait may write the source. Both run in PTX's *async proxy*: threads' writes to
//! shared memory become visible to it only after a [`fence_proxy_async`]. The simulator requires
//! the fence from the writing thread, after its write, or from the warp that issues the operation.
//! The same holds for global memory and [`fence_proxy_async_global`]. An operation in flight when
//! the block ends is a fault.
//!
//! A tensor map is the 128 bytes of [`TensorMap::encode`], at a multiple of 64 bytes: in global
//! memory, or in a kernel parameter, whose address has the bit [`PARAMETER_SPACE`].

use crate::block::{BulkSink, LoadSource, StoreWait, current};
use crate::fault::{Access, FaultKind};
use crate::memory::words;
use crate::tensor_map::{MAX_TENSOR_RANK, PARAMETER_SPACE, TENSOR_MAP_BYTES, TensorElement, TensorMap, Tile};
use std::panic::Location;

/// The start of the box of a tensor copy: a coordinate for each dimension, the fastest first.
fn tile<const R: usize>(operation: &'static str, map: u64, start: [i32; R]) -> Result<Tile, FaultKind> {
    const { assert!(R >= 1 && R <= MAX_TENSOR_RANK, "a tensor map has 1 to 5 dimensions") };
    let block = current();
    let invalid = |reason: String| FaultKind::InvalidOperand { operation, reason };
    if !map.is_multiple_of(64) {
        return Err(invalid(format!("the tensor map is at {map:#x}, which is not a multiple of 64")));
    }
    let in_parameter = map & PARAMETER_SPACE != 0;
    let map = map & !PARAMETER_SPACE;
    if !in_parameter {
        block.check_global(Access::Read, map, TENSOR_MAP_BYTES as u64)?;
    }
    // SAFETY: the address was looked up, or is the kernel's own parameter: the caller that sets the
    // bit guarantees it.
    let bits = std::array::from_fn(|at| unsafe { words::load(map + 8 * at as u64) });
    let map_at = map;
    let map =
        TensorMap::decode(bits).ok_or_else(|| invalid(format!("there is no tensor map at {map_at:#x}")))?;
    map.check().map_err(|error| invalid(error.to_string()))?;
    if map.rank != R {
        return Err(invalid(format!("the copy has {R} coordinates, and the tensor {} dimensions", map.rank)));
    }
    // Other alignments are illegal instructions on an H200 (observed with loads).
    let first = i64::from(start[0]) * map.element.bytes() as i64;
    if first % 16 != 0 {
        let (start, bytes) = (start[0], map.element.bytes());
        return Err(invalid(format!(
            "the box begins at element {start} of {bytes} bytes along dimension 0; a box begins at a multiple of 16 bytes there"
        )));
    }
    Ok(Tile { map, start: std::array::from_fn(|d| start.get(d).copied().unwrap_or(0)), tails: 0 })
}

/// Loads a box of a tensor:
/// `cp.async.bulk.tensor.Rd.shared::cluster.global.mbarrier::complete_tx::bytes`.
///
/// `destination` and `mbarrier` are addresses of the cluster's shared memory, in one block; the
/// former a multiple of 128. With a mask, `.multicast::cluster`: to the same offsets in each block
/// of the mask.
#[track_caller]
pub fn tensor_load<const R: usize>(
    destination: u32,
    map: u64,
    start: [i32; R],
    mbarrier: u32,
    multicast: Option<u16>,
) {
    let block = current();
    block.step();
    let operation = "cp.async.bulk.tensor.shared::cluster.global";
    let loaded = tile(operation, map, start).and_then(|tile| {
        let source = LoadSource::Tile(tile);
        block.bulk_load(operation, source, destination, mbarrier, multicast, Location::caller())
    });
    block.or_raise(loaded);
}

/// Stores the in-bounds part of a box of a tensor:
/// `cp.async.bulk.tensor.Rd.global.shared::cta.bulk_group`. A box that a GPU does not store
/// ([`TensorMap::stores_from`]) is a fault. A row of the tensor that ends within 16 bytes is stored
/// up to their end, as on an H200.
#[track_caller]
pub fn tensor_store<const R: usize>(map: u64, start: [i32; R], source: u32) {
    store(map, start, source, false);
}

/// Adds a box of elements to those of a tensor:
/// `cp.reduce.async.bulk.tensor.Rd.global.shared::cta.add.bulk_group`. The start is restricted as
/// for [`tensor_store`].
#[track_caller]
pub fn tensor_reduce_add<const R: usize>(map: u64, start: [i32; R], source: u32) {
    store(map, start, source, true);
}

#[track_caller]
fn store<const R: usize>(map: u64, start: [i32; R], source: u32, adds: bool) {
    let block = current();
    block.step();
    let operation =
        if adds { "cp.reduce.async.bulk.tensor" } else { "cp.async.bulk.tensor.global.shared::cta" };
    let stored = tile(operation, map, start).and_then(|tile| {
        if !tile.map.stores_from(&start) {
            let reason = format!(
                "the box begins at {start:?}, below 0: to a GPU that is an illegal instruction (seen on an H200); let it begin at 0 or more, as only loads may begin below"
            );
            return Err(FaultKind::InvalidOperand { operation, reason });
        }
        let element = tile.map.element;
        if adds && matches!(element, TensorElement::U8 | TensorElement::U16 | TensorElement::F64) {
            let reason = format!("elements of type {element:?} cannot be added");
            return Err(FaultKind::InvalidOperand { operation, reason });
        }
        block.bulk_store(
            operation,
            source,
            BulkSink::Tile(tile),
            adds.then_some(element),
            Location::caller(),
        )
    });
    block.or_raise(stored);
}

/// Prefetches a box of a tensor into L2; the simulator has no cache:
/// `cp.async.bulk.prefetch.tensor.Rd`.
#[track_caller]
pub fn tensor_prefetch<const R: usize>(map: u64, start: [i32; R]) {
    let block = current();
    block.step();
    block.profile_event("cp.async.bulk.prefetch.tensor", Location::caller());
    block.or_raise(tile("cp.async.bulk.prefetch.tensor", map, start));
}

/// Loads bytes: `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes`. Both addresses
/// and `bytes` are multiples of 16.
#[track_caller]
pub fn bulk_load(destination: u32, source: u64, bytes: u32, mbarrier: u32, multicast: Option<u16>) {
    let block = current();
    block.step();
    let source = LoadSource::Bytes { address: source, bytes };
    let operation = "cp.async.bulk.shared::cluster.global";
    let loaded = block.bulk_load(operation, source, destination, mbarrier, multicast, Location::caller());
    block.or_raise(loaded);
}

/// Copies bytes of the block's shared memory to a block of the cluster:
/// `cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes`.
#[track_caller]
pub fn bulk_copy_to_cluster(destination: u32, source: u32, bytes: u32, mbarrier: u32) {
    let block = current();
    block.step();
    let source = LoadSource::Shared { rank: block.rank, address: source, bytes };
    let operation = "cp.async.bulk.shared::cluster.shared::cta";
    let loaded = block.bulk_load(operation, source, destination, mbarrier, None, Location::caller());
    block.or_raise(loaded);
}

/// Stores bytes: `cp.async.bulk.global.shared::cta.bulk_group`.
#[track_caller]
pub fn bulk_store(destination: u64, source: u32, bytes: u32) {
    let block = current();
    block.step();
    let sink = BulkSink::Bytes { address: destination, bytes };
    let operation = "cp.async.bulk.global.shared::cta";
    block.or_raise(block.bulk_store(operation, source, sink, None, Location::caller()));
}

/// Adds elements to those in global memory:
/// `cp.reduce.async.bulk.global.shared::cta.bulk_group.add`.
#[track_caller]
pub fn bulk_reduce_add(destination: u64, source: u32, bytes: u32, element: TensorElement) {
    let block = current();
    block.step();
    let sink = BulkSink::Bytes { address: destination, bytes };
    block.or_raise(block.bulk_store("cp.reduce.async.bulk", source, sink, Some(element), Location::caller()));
}

/// Prefetches bytes into L2; the simulator has no cache: `cp.async.bulk.prefetch.L2.global`.
#[track_caller]
pub fn bulk_prefetch(address: u64, bytes: u32) {
    let block = current();
    block.step();
    block.profile_event("cp.async.bulk.prefetch.L2", Location::caller());
    let checked = if bytes.is_multiple_of(16) && address.is_multiple_of(16) {
        block.check_global(Access::BulkSource, address, bytes.into())
    } else {
        let reason = format!("{bytes} bytes at {address:#x}: size and address must be multiples of 16");
        Err(FaultKind::InvalidOperand { operation: "cp.async.bulk.prefetch.L2", reason })
    };
    block.or_raise(checked);
}

/// Commits the thread's stores since the last commit as a group, which may be empty:
/// `cp.async.bulk.commit_group`.
#[track_caller]
pub fn bulk_commit() {
    let block = current();
    block.profile_event("cp.async.bulk.commit_group", Location::caller());
    block.bulk_commit();
}

/// Waits until all of the thread's groups except the `pending` youngest are complete:
/// `cp.async.bulk.wait_group`.
#[track_caller]
pub fn bulk_wait_group(pending: u32) {
    let block = current();
    block.profile_wait_for_stores("cp.async.bulk.wait_group", Location::caller());
    block.bulk_wait(pending as usize, StoreWait::Written);
}

/// Waits until all of the thread's groups except the `pending` youngest have read their sources:
/// `cp.async.bulk.wait_group.read`.
#[track_caller]
pub fn bulk_wait_group_read(pending: u32) {
    let block = current();
    block.profile_wait_for_stores("cp.async.bulk.wait_group.read", Location::caller());
    block.bulk_wait(pending as usize, StoreWait::Read);
}

/// Makes threads' writes to shared and global memory visible to bulk copies and `wgmma`:
/// `fence.proxy.async`.
///
/// A bulk copy of bytes that threads of the same launch wrote is a fault unless the writing thread,
/// or another thread ordered after the write, has fenced since.
#[track_caller]
pub fn fence_proxy_async() {
    let block = current();
    block.profile_event("fence.proxy.async", Location::caller());
    block.fence_proxies();
    block.order_proxies();
}

/// Same as [`fence_proxy_async`], for the block's shared memory only:
/// `fence.proxy.async.shared::cta`.
#[track_caller]
pub fn fence_proxy_async_shared() {
    let block = current();
    block.profile_event("fence.proxy.async.shared::cta", Location::caller());
    block.fence_proxies();
}

/// Same as [`fence_proxy_async`], for global memory only: `fence.proxy.async.global`.
#[track_caller]
pub fn fence_proxy_async_global() {
    let block = current();
    block.profile_event("fence.proxy.async.global", Location::caller());
    block.order_proxies();
}
