//! Bulk loads: copies into shared memory, of bytes or of tensor boxes, that complete on an
//! mbarrier.
//!
//! A load claims its destination immediately. Its bytes are written when a thread looks at the
//! mbarrier: a read without a wait finds them in flight. The source is read at the same time, so
//! that the simulator detects a kernel that changes it too early. Asynchronous stores complete in
//! the same way, in the queue of loads.

use super::WARP_SIZE;
use super::clock::Clock;
use super::context::{BlockContext, RawFault, Thread, running};
use super::reads::Issued;
use super::shared::{LastWrite, PIECE, Proxy, SHARED_BASE};
use crate::Dim3;
use crate::fault::{Access, FaultKind};
use crate::memory::words;
use crate::profile::{Outstanding, Touch};
use crate::race::{Kind, Noted};
use crate::tensor_map::{Placement, Tile};
use std::collections::VecDeque;
use std::panic::Location;

/// The names of bulk copies and asynchronous stores in faults.
pub(crate) const COPY: &str = "bulk copy";
pub(crate) const STORE: &str = "st.async";

/// The source of a load.
#[derive(Clone, Copy)]
pub(crate) enum LoadSource {
    /// Global memory.
    Bytes {
        /// The address.
        address: u64,
        /// The size.
        bytes: u32,
    },
    /// A box of a tensor in global memory.
    Tile(Tile),
    /// The shared memory of a block of the cluster.
    Shared {
        /// The block's rank.
        rank: u32,
        /// The shared address.
        address: u32,
        /// The size.
        bytes: u32,
    },
    /// The registers of a thread, when it stored them.
    Word {
        /// The value, in the lowest bytes.
        bits: u128,
        /// The size: 4, 8 or 16.
        bytes: u32,
        /// The thread, if it belongs to the destination's block.
        writer: Option<u32>,
    },
}

impl LoadSource {
    /// The arrangement of the bytes in shared memory.
    fn placement(&self) -> Placement {
        match self {
            Self::Bytes { bytes, .. } | Self::Shared { bytes, .. } | Self::Word { bytes, .. } => {
                Placement::dense(*bytes as usize)
            }
            Self::Tile(tile) => tile.placement(),
        }
    }

    /// Its name in faults.
    const fn what(&self) -> &'static str {
        if matches!(self, Self::Word { .. }) { STORE } else { COPY }
    }

    const fn access(&self) -> Access {
        if matches!(self, Self::Word { .. }) { Access::StoreAsync } else { Access::BulkDestination }
    }

    /// Calls `range(address, bytes)` for each part of global memory that it reads.
    fn for_each_range(&self, mut range: impl FnMut(u64, usize)) {
        match *self {
            Self::Bytes { address, bytes } => range(address, bytes as usize),
            Self::Tile(tile) => tile.for_each_range(range),
            Self::Shared { .. } | Self::Word { .. } => {}
        }
    }

    /// The parts of shared memory that it writes, starting at `destination`, none larger than a
    /// piece.
    fn parts(&self, destination: u32) -> impl Iterator<Item = Part> + use<> {
        let placement = self.placement();
        let bytes = PIECE.min(placement.bytes);
        placement.pieces(destination).map(move |(at, address)| Part { at, address, bytes })
    }
}

/// A part of what a load writes.
struct Part {
    /// The offset in the source.
    at: usize,
    /// The shared address.
    address: u32,
    bytes: usize,
}

/// A copy in flight.
pub(crate) struct CopyInFlight {
    /// Its name in faults.
    pub what: &'static str,
    /// The thread that issued it.
    pub issuer: Dim3,
    pub issued_at: &'static Location<'static>,
    /// Whether that thread has exited, so that the copy never completes.
    pub issuer_exited: bool,
}

/// The block of a destination and an mbarrier, and their addresses in it.
struct InBlock<'b> {
    block: &'b BlockContext,
    destination: u32,
    mbarrier: u32,
}

/// A load that has not completed, stored in the block of its destination.
struct BulkLoad {
    source: LoadSource,
    /// Shared addresses in the destination's block.
    destination: u32,
    mbarrier: u32,
    issuer: Dim3,
    issued_at: &'static Location<'static>,
}

/// The pending loads into a block's shared memory, oldest first.
#[derive(Default)]
pub(crate) struct BulkLoads(VecDeque<BulkLoad>);

impl BulkLoads {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The outstanding loads; each is a group.
    pub(crate) fn outstanding(&self) -> Outstanding {
        let bytes = self.0.iter().map(|load| load.source.placement().bytes as u64).sum();
        Outstanding { bytes, groups: self.0.len() as u64 }
    }

    /// Removes the oldest load that completes on an mbarrier.
    fn take_due(&mut self, mbarrier: u32) -> Option<BulkLoad> {
        let at = self.0.iter().position(|load| load.mbarrier == mbarrier)?;
        self.0.remove(at)
    }

    /// The load that will write a byte of shared memory.
    pub(crate) fn copy_to(&self, at: usize) -> Option<CopyInFlight> {
        let covers = |load: &&BulkLoad| {
            let mut parts = load.source.parts(load.destination);
            parts.any(|part| {
                let start = (part.address - SHARED_BASE) as usize;
                (start..start + part.bytes).contains(&at)
            })
        };
        self.0.iter().find(covers).map(|load| CopyInFlight {
            what: load.source.what(),
            issuer: load.issuer,
            issued_at: load.issued_at,
            issuer_exited: false,
        })
    }
}

impl BlockContext {
    /// Issues a load to `destination` that completes on `mbarrier`: both addresses of the cluster's
    /// shared memory, in one block. With a `multicast` mask, the load goes to the same offsets in
    /// each block of the mask.
    pub(crate) fn bulk_load(
        &self,
        operation: &'static str,
        source: LoadSource,
        destination: u32,
        mbarrier: u32,
        multicast: Option<u16>,
        location: &'static Location<'static>,
    ) -> Result<(), FaultKind> {
        let invalid = |reason| Err(FaultKind::InvalidOperand { operation, reason });
        let access = Access::BulkDestination;
        let InBlock { block, destination, mbarrier } =
            self.one_block(operation, access, destination, mbarrier)?;
        let alignment = if matches!(source, LoadSource::Tile(_)) { 128 } else { 16 };
        if !destination.is_multiple_of(alignment) {
            return invalid(format!(
                "the destination, shared address {destination:#x}, is not a multiple of {alignment}"
            ));
        }
        self.check_source(operation, &source)?;
        let bytes = source.placement().bytes as u64;
        self.profile_bulk(operation, bytes, Touch::Read, |range| source.for_each_range(range), location);
        let mask = u32::from(multicast.unwrap_or(0));
        if multicast == Some(0) || mask >> self.cluster().blocks().len() != 0 {
            let blocks = self.cluster().blocks().len();
            return invalid(format!(
                "the multicast mask {mask:#06x} names none of the cluster's {blocks} blocks, or others"
            ));
        }
        let issued = Issued { operation, location };
        if mask == 0 {
            return block.take_load(source, destination, mbarrier, self.thread_index.get(), issued);
        }
        for rank in (0..u16::BITS).filter(|rank| mask >> rank & 1 != 0) {
            let block = self.peer_of_rank(access, destination, rank)?;
            block.take_load(source, destination, mbarrier, self.thread_index.get(), issued)?;
        }
        Ok(())
    }

    /// The block of a destination and an mbarrier, given as addresses of the cluster's shared
    /// memory.
    fn one_block(
        &self,
        operation: &'static str,
        access: Access,
        destination: u32,
        mbarrier: u32,
    ) -> Result<InBlock<'_>, FaultKind> {
        let (block, destination) = self.peer(access, destination)?;
        let (mbarrier_block, mbarrier) = self.peer(access, mbarrier)?;
        if block.rank != mbarrier_block.rank {
            let reason = format!(
                "the destination is in block {} of the cluster, the mbarrier in block {}",
                block.rank, mbarrier_block.rank
            );
            return Err(FaultKind::InvalidOperand { operation, reason });
        }
        Ok(InBlock { block, destination, mbarrier })
    }

    /// Issues an asynchronous store of the lowest `bytes` bytes of `bits` (4, 8 or 16) to
    /// `destination` that completes on `mbarrier`: both addresses of the cluster's shared memory,
    /// in one block.
    pub(crate) fn store_async(
        &self,
        bits: u128,
        bytes: usize,
        destination: u32,
        mbarrier: u32,
        location: &'static Location<'static>,
    ) -> Result<(), FaultKind> {
        if self.cluster().blocks().len() == 1 {
            let reason = "the launch has no clusters: an H200 raises an illegal instruction";
            return Err(FaultKind::InvalidOperand { operation: STORE, reason: reason.to_owned() });
        }
        let InBlock { block, destination, mbarrier } =
            self.one_block(STORE, Access::StoreAsync, destination, mbarrier)?;
        let writer = (block.rank == self.rank).then(|| self.running.get());
        let source = LoadSource::Word { bits, bytes: bytes as u32, writer };
        let issued = Issued { operation: STORE, location };
        block.take_load(source, destination, mbarrier, self.thread_index.get(), issued)
    }

    fn check_source(&self, operation: &'static str, source: &LoadSource) -> Result<(), FaultKind> {
        match *source {
            LoadSource::Bytes { address, bytes } => {
                check_bytes(operation, bytes, address)?;
                self.check_global(Access::BulkSource, address, u64::from(bytes))
            }
            LoadSource::Tile(tile) => self.check_tensor(Access::BulkSource, &tile),
            LoadSource::Shared { rank, address, bytes } => {
                check_bytes(operation, bytes, u64::from(address))?;
                let block = self.peer_of_rank(Access::BulkSource, address, rank)?;
                block.check_async_read(Access::BulkSource, address, Placement::dense(bytes as usize))
            }
            LoadSource::Word { .. } => Ok(()),
        }
    }

    /// Whether a range of global memory is in one allocation.
    pub(crate) fn check_global(&self, access: Access, address: u64, bytes: u64) -> Result<(), FaultKind> {
        if self.global.find(address).is_some_and(|span| span.contains(address, bytes)) {
            return Ok(());
        }
        let nearest = self.global.nearest(address, bytes);
        Err(FaultKind::GlobalOutOfBounds { access, bytes: bytes as usize, address, nearest })
    }

    /// Whether a tensor is in one allocation.
    pub(crate) fn check_tensor(&self, access: Access, tile: &Tile) -> Result<(), FaultKind> {
        self.check_global(access, tile.map.address, tile.map.span_bytes())
    }

    /// Adds a load to this block's queue.
    fn take_load(
        &self,
        source: LoadSource,
        destination: u32,
        mbarrier: u32,
        issuer: Dim3,
        issued: Issued,
    ) -> Result<(), FaultKind> {
        self.mbarrier("mbarrier.complete_tx", mbarrier)?;
        for Part { address, bytes, .. } in source.parts(destination) {
            let offset = address.wrapping_sub(SHARED_BASE) as usize;
            if !self.shared.fits(offset, bytes)
                || self.shared.first_in_flight(offset, bytes).is_some()
                || self.shared.first_being_read(offset, bytes).is_some() && !self.settle_reads(offset, bytes)
            {
                return Err(self.shared_fault_kind(source.access(), address, bytes));
            }
            self.note_shared(Noted::new(source.access(), Kind::Write, issued.location), offset, bytes);
            self.shared.take_off(offset, bytes);
        }
        let from = Noted::new(Access::BulkSource, Kind::Read, issued.location);
        let mut unfenced = None;
        source.for_each_range(|address, bytes| {
            if let Some(issuer) = running() {
                issuer.note_global_range(from, address, bytes);
                unfenced = unfenced.take().or_else(|| issuer.global_unfenced(from.access, address, bytes));
            }
        });
        if let Some(kind) = unfenced {
            return Err(kind);
        }
        if let LoadSource::Shared { rank, address, bytes } = source {
            let clock = Clock::Copies { rank: self.rank, mbarrier };
            let pieces = piece_numbers(address, Placement::dense(bytes as usize));
            let copy = self.next_copy(mbarrier);
            self.cluster().blocks()[rank as usize].begin_reads(clock, copy, issued, pieces);
        }
        // A thread that waits for the bytes synchronises with the thread that issued the load.
        self.phase_that_runs(mbarrier);
        self.hand_on(mbarrier, None);
        let issued_at = issued.location;
        self.bulk_loads.borrow_mut().0.push_back(BulkLoad {
            source,
            destination,
            mbarrier,
            issuer,
            issued_at,
        });
        Ok(())
    }

    /// Records that the block's last thread has exited: its memory no longer exists, and a pending
    /// load into it or copy from it is a fault.
    pub(crate) fn end_bulk_loads(&self) {
        let blocks = self.cluster().blocks();
        for block in blocks {
            let loads = block.bulk_loads.borrow();
            let from_here = |load: &&BulkLoad| matches!(load.source, LoadSource::Shared { rank, .. } if rank == self.rank);
            let left = |load: &&BulkLoad| block.rank == self.rank || from_here(load);
            if let Some(load) = loads.0.iter().find(left) {
                let (copies, issued_at) = (loads.0.iter().filter(left).count(), load.issued_at);
                let what =
                    match loads.0.iter().filter(left).filter(|load| load.source.what() == STORE).count() {
                        0 => "bulk copies",
                        stores if stores == copies => STORE,
                        _ => "bulk copies and st.async",
                    };
                let kind = FaultKind::BulkLoadsLeft { copies, what, issuer: load.issuer, issued_at };
                self.record(RawFault { thread: self.thread_index.get(), location: None, kind });
                return;
            }
        }
    }

    /// Completes the loads of an mbarrier of this block.
    pub(crate) fn land_bulk_loads(&self, mbarrier: u32) {
        loop {
            // One by one: a load that has not completed must still be found by accesses to its
            // bytes.
            let due = self.bulk_loads.borrow_mut().take_due(mbarrier);
            let Some(load) = due else { return };
            let bytes = self.bytes_of(&load.source);
            if let LoadSource::Word { writer, .. } = load.source {
                let offset = (load.destination - SHARED_BASE) as usize;
                self.shared.land_store(offset, &bytes, writer);
                self.bring_words(mbarrier, offset, bytes.len());
            } else {
                for part in load.source.parts(load.destination) {
                    let offset = (part.address - SHARED_BASE) as usize;
                    self.shared.land(offset, &bytes[part.at..part.at + part.bytes], Proxy::Async);
                }
                self.bring(mbarrier, piece_numbers(load.destination, load.source.placement()));
            }
            if !self.parked.borrow().is_empty() {
                self.fault_who_waits(&load);
            }
            if let LoadSource::Shared { .. } = load.source {
                self.end_copy(mbarrier);
            }
            let received = self.change_mbarrier("mbarrier.complete_tx", mbarrier, |mbarrier| {
                mbarrier.received(bytes.len() as u32)
            });
            self.or_raise(received);
            self.condition_met.set(true);
        }
    }

    /// Faults for threads that read bytes before the load wrote them.
    fn fault_who_waits(&self, load: &BulkLoad) {
        for part in load.source.parts(load.destination) {
            let start = (part.address - SHARED_BASE) as usize;
            self.fault_not_awaited(start..start + part.bytes, |offset| FaultKind::SharedNotAwaited {
                access: Access::Read,
                bytes: 1,
                offset,
                what: load.source.what(),
                mbarrier: i64::from(load.mbarrier) - i64::from(SHARED_BASE),
            });
        }
    }

    fn bytes_of(&self, source: &LoadSource) -> Vec<u8> {
        match *source {
            LoadSource::Bytes { address, bytes } => {
                let mut read = vec![0; bytes as usize];
                // SAFETY: checked when the load was issued, and the launch keeps all allocations.
                unsafe { words::copy_out(address, &mut read) };
                read
            }
            // SAFETY: the tile was checked when the load was issued, and is still allocated.
            LoadSource::Tile(tile) => unsafe { tile.read() },
            LoadSource::Shared { rank, address, bytes } => {
                let block = &self.cluster().blocks()[rank as usize];
                let mut read = vec![0; bytes as usize];
                block.shared.copy_out((address - SHARED_BASE) as usize, &mut read);
                read
            }
            LoadSource::Word { bits, bytes, .. } => bits.to_le_bytes()[..bytes as usize].to_vec(),
        }
    }

    /// Whether an asynchronous operation may read these bytes of this block's shared memory: all
    /// are written, and fenced if threads wrote them.
    pub(crate) fn check_async_read(
        &self,
        access: Access,
        address: u32,
        placement: Placement,
    ) -> Result<(), FaultKind> {
        let lanes = running().map_or(1, |block| 1 << (block.running.get() % WARP_SIZE));
        let reader = self.async_reader(lanes);
        for (_, address) in placement.pieces(address) {
            let offset = address.wrapping_sub(SHARED_BASE) as usize;
            if offset >= self.shared.bytes()
                || offset + PIECE > self.shared.bytes()
                || !self.shared.is_written(offset, PIECE)
            {
                return Err(self.shared_fault_kind(access, address, PIECE));
            }
            if let Some(kind) = self
                .not_awaited(access, offset, PIECE)
                .or_else(|| self.check_shared(reader.as_ref(), access, offset, PIECE))
                .or_else(|| self.unfenced(access, offset))
            {
                return Err(kind);
            }
        }
        Ok(())
    }

    /// A proxy fence: makes the running thread's writes visible to asynchronous operations, and the
    /// writes of others to the operations that it issues.
    pub(crate) fn fence_proxies(&self) {
        self.thread().fence.set(self.shared.fence_proxies());
    }

    /// The fault of an asynchronous read, issued by the running warp, of a piece that threads wrote
    /// without a later fence: a fault of the last writer, or of the warp.
    pub(crate) fn unfenced(&self, access: Access, offset: usize) -> Option<FaultKind> {
        let LastWrite { thread: writer, fences: before } = self.shared.last_write(offset / PIECE)?;
        let is_behind = |thread: &Thread| thread.fence.get() > before;
        // For a write of another block, the thread that has to fence is unknown.
        let Some(writer) = writer else {
            return (self.shared.fences() == before).then_some(FaultKind::SharedUnfenced {
                access,
                offset: offset as i64,
                writer: None,
            });
        };
        let first = (self.running.get() / WARP_SIZE * WARP_SIZE) as usize;
        let warp = &self.threads[first..self.threads.len().min(first + WARP_SIZE as usize)];
        let writer = &self.threads[writer as usize];
        let fenced = is_behind(writer) || warp.iter().any(is_behind);
        (!fenced).then_some(FaultKind::SharedUnfenced {
            access,
            offset: offset as i64,
            writer: Some(writer.index),
        })
    }
}

/// The indices of the pieces of a range of shared memory, which was checked.
pub(crate) fn piece_numbers(address: u32, placement: Placement) -> impl Iterator<Item = usize> {
    placement.pieces(address).map(|(_, address)| (address - SHARED_BASE) as usize / PIECE)
}

/// Checks a bulk copy's size and address.
pub(crate) fn check_bytes(operation: &'static str, bytes: u32, address: u64) -> Result<(), FaultKind> {
    if bytes != 0 && bytes.is_multiple_of(16) && address.is_multiple_of(16) {
        return Ok(());
    }
    let reason = format!(
        "{bytes} bytes at {address:#x}: the size must be a positive multiple of 16, and the address a multiple of 16"
    );
    Err(FaultKind::InvalidOperand { operation, reason })
}
