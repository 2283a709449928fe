//! Global memory: allocations in host memory, identified by their addresses.

mod allocation;
mod snapshot;
mod view;
pub(crate) mod words;

pub use allocation::{Allocation, MemoryError};
pub use snapshot::{Nearest, Place};
pub(crate) use snapshot::{Snapshot, Span};
pub use view::View;

use crate::Pod;
use crate::stream::Streams;
use allocation::Block;
use std::sync::{Arc, Mutex, PoisonError};

/// The global memory of a simulated device: the allocations that its launches may access.
///
/// A clone is another handle to the same memory. Device addresses are host addresses, so host code
/// may store them and compute with them as a CUDA program does, but kernels can access only what is
/// registered here.
#[derive(Clone, Default)]
pub struct GlobalMemory {
    registry: Arc<Mutex<Vec<Arc<Block>>>>,
    pub(crate) streams: Arc<Mutex<Streams>>,
}

impl GlobalMemory {
    /// An empty memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allocates `bytes` bytes, aligned to 256 bytes, filled with 0xFF bytes (a NaN to floats of
    /// every width).
    ///
    /// At least 256 bytes on either side belong to no allocation, so that every overrun is
    /// detected. `label` is the allocation's name in faults.
    ///
    /// # Errors
    /// If the host has no memory for it.
    pub fn alloc(&self, bytes: usize, label: impl Into<String>) -> Result<Allocation, MemoryError> {
        let block = Arc::new(Block::new(bytes, label.into())?);
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let at = registry.partition_point(|other| other.span().base < block.span().base);
        registry.insert(at, block.clone());
        Ok(Allocation::new(self.clone(), block))
    }

    /// Allocates memory that contains `values`.
    ///
    /// ```
    /// let memory = moye_sim::GlobalMemory::new();
    /// let x = memory.upload(&[1.0f32, 2.0], "x")?;
    /// assert_eq!(x.download::<f32>(), [1.0, 2.0]);
    /// # Ok::<(), moye_sim::MemoryError>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`alloc`](Self::alloc).
    pub fn upload<T: Pod>(&self, values: &[T], label: impl Into<String>) -> Result<Allocation, MemoryError> {
        let allocation = self.alloc(size_of_val(values), label)?;
        // SAFETY: all bytes of a `Pod` have a value.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
        allocation.write(0, bytes)?;
        Ok(allocation)
    }

    /// Whether both are handles to the same memory.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.registry, &other.registry)
    }

    /// Bytes in all live allocations.
    pub fn allocated_bytes(&self) -> usize {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.iter().map(|block| block.span().len as usize).sum()
    }

    /// The current allocations, which stay allocated as long as the snapshot lives.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        Snapshot::new(registry.clone())
    }

    fn release(&self, block: &Arc<Block>) {
        self.synchronize();
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.retain(|other| !Arc::ptr_eq(other, block));
    }
}

impl std::fmt::Debug for GlobalMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GlobalMemory").field("allocated_bytes", &self.allocated_bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_poisoned_and_apart() {
        let memory = GlobalMemory::new();
        let a = memory.alloc(1000, "a").unwrap();
        let b = memory.alloc(1000, "b").unwrap();
        assert_eq!(
            (a.address() % 256, b.address() % 256),
            (0, 0),
            "device allocations are aligned to 256 bytes"
        );
        let (low, high) = if a.address() < b.address() { (&a, &b) } else { (&b, &a) };
        assert!(
            high.address() - (low.address() + 1000) >= 256,
            "running over an end must hit no other allocation"
        );
        let mut bytes = [0; 1000];
        a.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&b| b == 0xFF), "unwritten memory reads as NaN");
        assert_eq!(memory.allocated_bytes(), 2000);
        drop(a);
        assert_eq!(memory.allocated_bytes(), 1000, "dropping an allocation unregisters it");
    }

    #[test]
    fn reads_and_writes_of_any_offset_and_length_keep_their_bytes() {
        let memory = GlobalMemory::new();
        let a = memory.alloc(64, "a").unwrap();
        for offset in 0..20 {
            for len in 0..40 {
                a.fill(0, 64, 7).unwrap();
                let written: Vec<u8> = (0..len).map(|i| (100 + i) as u8).collect();
                a.write(offset, &written).unwrap();
                let mut all = [0; 64];
                a.read(0, &mut all).unwrap();
                let mut expected = [7; 64];
                expected[offset..offset + len].copy_from_slice(&written);
                assert_eq!(all, expected, "write of {len} bytes at {offset}");
                let mut back = vec![0; len];
                a.read(offset, &mut back).unwrap();
                assert_eq!(back, written, "read of {len} bytes at {offset}");
            }
        }
    }

    #[test]
    fn host_accesses_outside_an_allocation_are_errors_that_name_it() {
        let memory = GlobalMemory::new();
        let a = memory.alloc(16, "weights").unwrap();
        let error = a.write(12, &[0; 5]).unwrap_err().to_string();
        assert_eq!(error, "5 bytes at offset 12 do not fit into allocation `weights` of 16 bytes");
        assert!(a.read(usize::MAX, &mut [0]).is_err(), "the end of the range overflows");
        assert!(a.fill(17, 0, 0).is_err(), "an empty range past the end is no range of the allocation");
        assert!(a.fill(16, 0, 0).is_ok());
    }

    #[test]
    fn more_memory_than_there_is_is_an_error() {
        let memory = GlobalMemory::new();
        for bytes in [usize::MAX, usize::MAX / 2 - 4096] {
            let error = memory.alloc(bytes, "huge").unwrap_err().to_string();
            assert!(error.contains("huge") && error.contains(&bytes.to_string()), "{error}");
        }
    }
}
