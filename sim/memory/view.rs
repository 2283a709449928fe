//! A part of an allocation, given by its address.

use super::allocation::Block;
use super::{GlobalMemory, MemoryError, words};
use std::sync::{Arc, PoisonError};

/// Some bytes of a live allocation, found by their address. It does not own them: dropping it
/// leaves the allocation registered.
///
/// The bytes stay readable to the host while the view lives, even if the allocation is dropped
/// first; kernels can no longer access them then.
pub struct View {
    memory: GlobalMemory,
    block: Arc<Block>,
    address: u64,
    bytes: usize,
}

impl GlobalMemory {
    /// The `bytes` bytes at an address.
    ///
    /// # Errors
    /// If they are not inside one live allocation.
    pub fn view(&self, address: u64, bytes: usize) -> Result<View, MemoryError> {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = registry.partition_point(|block| block.span().base <= address);
        let block = behind.checked_sub(1).map(|at| &registry[at]);
        let has_all = |block: &&Arc<Block>| {
            let span = block.span();
            (bytes as u64).checked_add(address - span.base).is_some_and(|end| end <= span.len)
        };
        match block.filter(has_all) {
            Some(block) => Ok(View { memory: self.clone(), block: block.clone(), address, bytes }),
            None => Err(MemoryError::NotAllocated { address, bytes }),
        }
    }
}

impl View {
    /// The device address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Copies the bytes at `offset` to `destination`.
    ///
    /// # Errors
    /// If the range is not inside the view.
    pub fn read(&self, offset: usize, destination: &mut [u8]) -> Result<(), MemoryError> {
        let address = self.range(offset, destination.len())?;
        // SAFETY: the range was checked.
        unsafe { words::copy_out(address, destination) };
        Ok(())
    }

    /// Copies `source` to the bytes at `offset`.
    ///
    /// # Errors
    /// If the range is not inside the view.
    pub fn write(&self, offset: usize, source: &[u8]) -> Result<(), MemoryError> {
        let address = self.range(offset, source.len())?;
        // SAFETY: the range was checked.
        unsafe { words::copy_in(address, source) };
        Ok(())
    }

    /// Sets `bytes` bytes at `offset` to `value`.
    ///
    /// # Errors
    /// If the range is not inside the view.
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> Result<(), MemoryError> {
        let address = self.range(offset, bytes)?;
        // SAFETY: the range was checked.
        unsafe { words::fill(address, bytes, value) };
        Ok(())
    }

    fn range(&self, offset: usize, bytes: usize) -> Result<u64, MemoryError> {
        self.memory.synchronize();
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(self.address + offset as u64),
            _ => Err(MemoryError::OutOfBounds {
                label: format!("view of {}", self.block.label()),
                len: self.bytes,
                offset,
                bytes,
            }),
        }
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View(`{}`, {:#x}, {} bytes)", self.block.label(), self.address, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_reads_and_writes_what_its_allocation_has() {
        let memory = GlobalMemory::new();
        let a = memory.alloc(16, "a").unwrap();
        a.fill(0, 16, 1).unwrap();
        let view = memory.view(a.address() + 4, 8).unwrap();
        view.fill(2, 3, 7).unwrap();
        view.write(7, &[9]).unwrap();
        let mut all = [0; 16];
        a.read(0, &mut all).unwrap();
        assert_eq!(all, [1, 1, 1, 1, 1, 1, 7, 7, 7, 1, 1, 9, 1, 1, 1, 1]);
        let mut part = [0; 2];
        view.read(6, &mut part).unwrap();
        assert_eq!(part, [1, 9]);
        let error = view.read(7, &mut part).unwrap_err().to_string();
        assert_eq!(error, "2 bytes at offset 7 do not fit into allocation `view of a` of 8 bytes");
        drop(view);
        assert_eq!(memory.allocated_bytes(), 16, "the allocation stays");
    }

    #[test]
    fn bytes_that_are_not_allocated_have_no_view() {
        let memory = GlobalMemory::new();
        let a = memory.alloc(16, "a").unwrap();
        let at = a.address();
        for (address, bytes) in
            [(at - 1, 4), (at, 17), (at + 16, 1), (at + 8, usize::MAX), (0, 1), (u64::MAX, 1)]
        {
            let error = memory.view(address, bytes).unwrap_err();
            assert_eq!(error, MemoryError::NotAllocated { address, bytes }, "{address:#x}");
        }
        assert!(memory.view(at + 16, 0).is_ok(), "no bytes at the end");
        drop(a);
        assert!(memory.view(at, 1).is_err(), "freed");
    }
}
