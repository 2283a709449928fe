//! Bulk stores: copies from shared memory to global memory, of bytes or of tensor boxes, that a
//! thread waits for in groups.
//!
//! A store reads its source when the thread waits for the read; no thread may write the source
//! before that. It writes its destination when the thread waits for the write, or exits.

use super::bulk::{check_bytes, piece_numbers};
use super::clock::Clock;
use super::context::{BlockContext, RawFault};
use super::reads::Issued;
use super::shared::SHARED_BASE;
use crate::fault::{Access, FaultKind};
use crate::memory::words::{self, atomic};
use crate::profile::{Outstanding, Touch};
use crate::race::{Kind, Noted};
use crate::tensor_map::{Placement, TensorElement, Tile};
use half::{bf16, f16};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The destination of a store.
#[derive(Clone, Copy)]
pub(crate) enum BulkSink {
    /// Global memory.
    Bytes {
        /// The address.
        address: u64,
        /// The size.
        bytes: u32,
    },
    /// The in-bounds part of a box of a tensor in global memory.
    Tile(Tile),
}

impl BulkSink {
    /// The placement of the bytes in shared memory.
    fn placement(&self) -> Placement {
        match self {
            Self::Bytes { bytes, .. } => Placement::dense(*bytes as usize),
            Self::Tile(tile) => tile.placement(),
        }
    }

    /// Calls `range(address, bytes)` for each written range.
    fn for_each_range(&self, mut range: impl FnMut(u64, usize)) {
        match self {
            Self::Bytes { address, bytes } => range(*address, *bytes as usize),
            Self::Tile(tile) => tile.for_each_range(range),
        }
    }
}

/// The event that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreWait {
    /// The sources have been read.
    Read,
    /// The destinations have been written.
    Written,
}

/// A store that has not completed.
struct BulkStore {
    source: u32,
    sink: BulkSink,
    /// The elements are added to the destination's.
    add: Option<TensorElement>,
    issued_at: &'static Location<'static>,
    /// The source's bytes, once they are read.
    bytes: Option<Vec<u8>>,
}

/// A thread's pending stores, oldest first.
#[derive(Default)]
pub(crate) struct BulkStores {
    stores: VecDeque<BulkStore>,
    /// Stores of each committed group, oldest first.
    groups: VecDeque<usize>,
    uncommitted: usize,
    /// Committed groups.
    committed: u32,
}

impl BulkStores {
    pub(crate) fn clear(&mut self) {
        self.stores.clear();
        self.groups.clear();
        self.uncommitted = 0;
        self.committed = 0;
    }

    /// The outstanding stores, including stores that no group has yet.
    pub(crate) fn outstanding(&self) -> Outstanding {
        let bytes = self.stores.iter().map(|store| store.sink.placement().bytes as u64).sum();
        let groups = self.groups.iter().filter(|size| **size > 0).count();
        Outstanding { bytes, groups: groups as u64 + u64::from(self.uncommitted > 0) }
    }
}

impl BlockContext {
    /// Issues a store from the shared address `source`; with `add`, the elements are added to the
    /// destination's.
    pub(crate) fn bulk_store(
        &self,
        operation: &'static str,
        source: u32,
        mut sink: BulkSink,
        add: Option<TensorElement>,
        location: &'static Location<'static>,
    ) -> Result<(), FaultKind> {
        let alignment = if matches!(sink, BulkSink::Tile(_)) { 128 } else { 16 };
        if !source.is_multiple_of(alignment) {
            let reason = format!("the source, shared address {source:#x}, is not a multiple of {alignment}");
            return Err(FaultKind::InvalidOperand { operation, reason });
        }
        match &mut sink {
            BulkSink::Bytes { address, bytes } => {
                check_bytes(operation, *bytes, *address)?;
                self.check_global(Access::BulkDestination, *address, u64::from(*bytes))?;
            }
            BulkSink::Tile(tile) => {
                self.check_tensor(Access::BulkDestination, tile)?;
                // Whether an addition does so is unknown.
                if add.is_none() {
                    let memory = self.global.find(tile.map.address);
                    *tile = tile.with_tails(memory.map_or(0, |memory| memory.base + memory.len));
                }
            }
        }
        self.check_async_read(Access::BulkSource, source, sink.placement())?;
        let (bytes, touch) =
            (sink.placement().bytes, if add.is_some() { Touch::Update } else { Touch::Write });
        self.profile_bulk(operation, bytes as u64, touch, |range| sink.for_each_range(range), location);
        let mut queue = self.thread().bulk_stores.borrow_mut();
        let pieces = piece_numbers(source, sink.placement());
        let issued = Issued { operation, location };
        self.begin_reads(self.stores(), queue.committed + 1, issued, pieces);
        queue.stores.push_back(BulkStore { source, sink, add, issued_at: location, bytes: None });
        queue.uncommitted += 1;
        Ok(())
    }

    /// Commits the running thread's stores as a group, which may be empty.
    pub(crate) fn bulk_commit(&self) {
        let mut queue = self.thread().bulk_stores.borrow_mut();
        let size = std::mem::take(&mut queue.uncommitted);
        queue.groups.push_back(size);
        queue.committed += 1;
    }

    /// The clock of the running thread's reads of shared memory.
    fn stores(&self) -> Clock {
        Clock::Stores { rank: self.rank, thread: self.running.get() }
    }

    /// Waits for all of the running thread's groups except the `pending` youngest.
    pub(crate) fn bulk_wait(&self, pending: usize, wait: StoreWait) {
        let queue = &self.thread().bulk_stores;
        let groups = queue.borrow().groups.len().saturating_sub(pending);
        let stores: usize = queue.borrow().groups.iter().take(groups).sum();
        for at in 0..stores {
            self.read_store(queue, at);
        }
        if stores > 0 {
            let complete = queue.borrow().committed.saturating_sub(pending as u32);
            self.cluster().end_steps(self.stores(), complete, &mut self.thread().known.borrow_mut());
        }
        if wait == StoreWait::Written {
            for _ in 0..stores {
                let store = queue.borrow_mut().stores.pop_front();
                store.into_iter().for_each(|store| self.write_store(store));
            }
            queue.borrow_mut().groups.drain(..groups);
        }
    }

    /// Reads the source of a store, if it was not read before.
    fn read_store(&self, queue: &RefCell<BulkStores>, at: usize) {
        let mut queue = queue.borrow_mut();
        let store = &mut queue.stores[at];
        if store.bytes.is_some() {
            return;
        }
        let placement = store.sink.placement();
        let mut bytes = vec![0; placement.bytes];
        for (piece, address) in placement.pieces(store.source) {
            self.shared.copy_out((address - SHARED_BASE) as usize, &mut bytes[piece..piece + 16]);
        }
        store.bytes = Some(bytes);
    }

    /// Writes the bytes that a store of the running thread has read.
    fn write_store(&self, store: BulkStore) {
        if self.clock.is_on() {
            let kind = if store.add.is_some() { Kind::Atomic } else { Kind::Write };
            let noted = Noted::new(Access::BulkDestination, kind, store.issued_at);
            store.sink.for_each_range(|address, bytes| self.note_global_range(noted, address, bytes));
        }
        write(store);
    }

    /// Records that the running thread has exited: stores that have read their source write their
    /// destination; a store that has not is a fault.
    pub(crate) fn end_bulk_stores(&self) {
        let thread = self.thread();
        let mut queue = thread.bulk_stores.borrow_mut();
        let copies = queue.stores.iter().filter(|store| store.bytes.is_none()).count();
        if copies > 0 {
            let kind = FaultKind::BulkCopiesLeft { copies };
            self.record(RawFault { thread: thread.index, location: None, kind });
            return;
        }
        let stores: Vec<_> = queue.stores.drain(..).collect();
        queue.clear();
        drop(queue);
        stores.into_iter().for_each(|store| self.write_store(store));
    }
}

/// Writes the bytes that a store has read.
fn write(store: BulkStore) {
    let bytes = store.bytes.expect("a store is written after it was read");
    let put = |address: u64, bytes: &[u8]| match store.add {
        // SAFETY: checked when the store was issued, and the launch keeps all allocations.
        None => unsafe { words::copy_in(address, bytes) },
        Some(element) => {
            let size = element.bytes() as usize;
            for (at, addend) in bytes.chunks_exact(size).enumerate() {
                add(address + (at * size) as u64, element, addend);
            }
        }
    };
    match store.sink {
        BulkSink::Bytes { address, .. } => put(address, &bytes),
        BulkSink::Tile(tile) => tile.for_each_part(&bytes, put),
    }
}

/// Adds an element to the element at an address, atomically.
fn add(address: u64, element: TensorElement, addend: &[u8]) {
    if addend.len() == 8 {
        let addend = u64::from_le_bytes(addend.try_into().expect("8 bytes"));
        let sum = |old: u64| match element {
            TensorElement::F64 => (f64::from_bits(old) + f64::from_bits(addend)).to_bits(),
            _ => old.wrapping_add(addend),
        };
        // SAFETY (of the macro's call): checked when the store was issued.
        let _ = atomic!(AtomicU64, address).fetch_update(Relaxed, Relaxed, |old| Some(sum(old)));
        return;
    }
    // Narrower elements are changed within their word.
    let (word, shift) = (address & !3, 8 * (address & 3) as u32);
    let mask = u32::MAX >> (32 - 8 * addend.len());
    let addend = addend.iter().rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte));
    let sum = |old: u32| match element {
        // f32 has more than twice their precision, so rounding the sum twice is as good as once.
        TensorElement::F16 => {
            let sum = f16::from_bits(old as u16).to_f32() + f16::from_bits(addend as u16).to_f32();
            f16::from_f32(sum).to_bits().into()
        }
        TensorElement::Bf16 => {
            let sum = bf16::from_bits(old as u16).to_f32() + bf16::from_bits(addend as u16).to_f32();
            bf16::from_f32(sum).to_bits().into()
        }
        element if element.is_float() => (f32::from_bits(old) + f32::from_bits(addend)).to_bits(),
        _ => old.wrapping_add(addend),
    };
    let _ = atomic!(AtomicU32, word).fetch_update(Relaxed, Relaxed, |bits| {
        let new = sum(bits >> shift & mask) & mask;
        Some(bits & !(mask << shift) | new << shift)
    });
}
