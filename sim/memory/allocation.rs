//! One allocation of global memory.

use super::{GlobalMemory, Span, words};
use crate::Pod;
use std::alloc::{Layout, alloc, dealloc};
use std::sync::Arc;
use thiserror::Error;

/// The alignment of an allocation and the least distance between two, in bytes.
const ALIGNMENT: usize = 256;

/// The reason why the host could not allocate or access simulated memory.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MemoryError {
    /// The host's allocator refused.
    #[error("no host memory for `{label}` of {bytes} bytes on the simulated device")]
    OutOfMemory {
        /// The requested bytes.
        bytes: usize,
        /// The label of the allocation.
        label: String,
    },
    /// The bytes are not inside one live allocation.
    #[error("{bytes} bytes at address {address:#x} are not within one allocation of the simulated device")]
    NotAllocated {
        /// The address of the first byte.
        address: u64,
        /// The number of bytes.
        bytes: usize,
    },
    /// A host read, write or fill is not inside the allocation.
    #[error("{bytes} bytes at offset {offset} do not fit into allocation `{label}` of {len} bytes")]
    OutOfBounds {
        /// The label of the allocation.
        label: String,
        /// Its length in bytes.
        len: usize,
        /// The offset of the access.
        offset: usize,
        /// The size of the access.
        bytes: usize,
    },
}

/// The memory of an allocation, freed when neither its owner nor a launch references it.
pub(crate) struct Block {
    /// The pointer from the host's allocator; the allocation starts `ALIGNMENT` bytes after it.
    raw: *mut u8,
    layout: Layout,
    span: Span,
    label: String,
}

// SAFETY: the memory is accessed only through relaxed atomics (`words`).
unsafe impl Send for Block {}
// SAFETY: the memory is accessed only through relaxed atomics (`words`).
unsafe impl Sync for Block {}

impl Block {
    pub(crate) fn new(bytes: usize, label: String) -> Result<Self, MemoryError> {
        let padded = bytes.checked_next_multiple_of(ALIGNMENT).and_then(|b| b.checked_add(2 * ALIGNMENT));
        let layout = padded.and_then(|padded| Layout::from_size_align(padded, ALIGNMENT).ok());
        let Some(layout) = layout else { return Err(MemoryError::OutOfMemory { bytes, label }) };
        // SAFETY: the layout is never empty, as it includes two gaps.
        let raw = unsafe { alloc(layout) };
        if raw.is_null() {
            return Err(MemoryError::OutOfMemory { bytes, label });
        }
        // SAFETY: the range is inside the new allocation.
        unsafe { raw.write_bytes(0xFF, layout.size()) };
        let span = Span { base: (raw.expose_provenance() + ALIGNMENT) as u64, len: bytes as u64 };
        Ok(Self { raw, layout, span, label })
    }

    pub(crate) fn span(&self) -> Span {
        self.span
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.raw, self.layout) };
    }
}

/// Memory of a simulated device, unregistered when dropped.
///
/// A launch that runs while it is dropped keeps the memory alive until the launch ends.
pub struct Allocation {
    memory: GlobalMemory,
    block: Arc<Block>,
}

impl Allocation {
    pub(crate) fn new(memory: GlobalMemory, block: Arc<Block>) -> Self {
        Self { memory, block }
    }

    /// The device address of the first byte.
    pub fn address(&self) -> u64 {
        self.block.span.base
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.block.span.len as usize
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name in faults.
    pub fn label(&self) -> &str {
        &self.block.label
    }

    /// Copies the bytes at `offset` to `destination`.
    ///
    /// # Errors
    /// If the range is not inside the allocation.
    pub fn read(&self, offset: usize, destination: &mut [u8]) -> Result<(), MemoryError> {
        let address = self.range(offset, destination.len())?;
        // SAFETY: the range was checked.
        unsafe { words::copy_out(address, destination) };
        Ok(())
    }

    /// Copies `source` to the bytes at `offset`.
    ///
    /// # Errors
    /// If the range is not inside the allocation.
    pub fn write(&self, offset: usize, source: &[u8]) -> Result<(), MemoryError> {
        let address = self.range(offset, source.len())?;
        // SAFETY: the range was checked.
        unsafe { words::copy_in(address, source) };
        Ok(())
    }

    /// The whole allocation as values of `T`; an incomplete value at the end is dropped.
    pub fn download<T: Pod>(&self) -> Vec<T> {
        let count = self.len() / size_of::<T>().max(1);
        let mut bytes = vec![0; count * size_of::<T>()];
        // SAFETY: the range begins with the allocation and ends in it.
        unsafe { words::copy_out(self.address(), &mut bytes) };
        let values = bytes.chunks_exact(size_of::<T>().max(1));
        // SAFETY: each chunk has the size of a value, and every bit pattern is one (`Pod`).
        values.map(|value| unsafe { value.as_ptr().cast::<T>().read_unaligned() }).collect()
    }

    /// Sets `bytes` bytes at `offset` to `value`.
    ///
    /// # Errors
    /// If the range is not inside the allocation.
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> Result<(), MemoryError> {
        let address = self.range(offset, bytes)?;
        // SAFETY: the range was checked.
        unsafe { words::fill(address, bytes, value) };
        Ok(())
    }

    fn range(&self, offset: usize, bytes: usize) -> Result<u64, MemoryError> {
        self.memory.synchronize();
        match offset.checked_add(bytes) {
            Some(end) if end <= self.len() => Ok(self.address() + offset as u64),
            _ => Err(MemoryError::OutOfBounds {
                label: self.block.label.clone(),
                len: self.len(),
                offset,
                bytes,
            }),
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.memory.release(&self.block);
    }
}

impl std::fmt::Debug for Allocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Allocation(`{}`, {:#x}, {} bytes)", self.label(), self.address(), self.len())
    }
}
