//! Untyped memory on a device.

use crate::device::gpu::Gpu;
use crate::device::{Backend, Device};
use crate::driver::{DriverCode, check, sys};
use crate::{Error, Result};
use moye_sim::memory::{Allocation, View};
use std::mem::MaybeUninit;

/// Bytes on a device. They are freed on drop if they were allocated here.
pub(super) enum Memory {
    /// No bytes and no allocation.
    Empty,
    Gpu {
        gpu: &'static Gpu,
        /// An integer, so that buffers are `Send`.
        address: sys::CUdeviceptr,
        is_borrowed: bool,
    },
    Sim(Allocation),
    /// Bytes of another allocation of the simulator.
    View(View),
}

impl Memory {
    /// Allocates; the contents are unspecified on a GPU and 0xFF bytes on the simulator.
    pub fn new(device: &Device, bytes: usize, label: impl FnOnce() -> String) -> Result<Self> {
        if bytes == 0 {
            return Ok(Self::Empty);
        }
        match &device.0 {
            Backend::Sim(simulator) => Ok(Self::Sim(simulator.memory().alloc(bytes, label())?)),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                let mut address = 0;
                // SAFETY: the pointer to the address is writable.
                check(unsafe { sys::cuMemAlloc_v2(&mut address, bytes) })
                    .map_err(|code| gpu.out_of_memory_or(device, "cuMemAlloc", code, bytes))?;
                Ok(Self::Gpu { gpu, address, is_borrowed: false })
            }
        }
    }

    /// Bytes that another library allocated.
    ///
    /// # Safety
    /// Same contract as [`Buffer::from_raw_parts`](super::Buffer::from_raw_parts).
    pub unsafe fn borrow(device: &Device, address: u64, bytes: usize) -> Result<Self> {
        if bytes == 0 {
            return Ok(Self::Empty);
        }
        match &device.0 {
            Backend::Sim(simulator) => Ok(Self::View(simulator.memory().view(address, bytes)?)),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                let mut ordinal = -1i32;
                let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
                // SAFETY: the pointer to the result, a 32-bit number, is writable.
                let asked =
                    unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), attribute, address) };
                match check(asked) {
                    Ok(()) if u32::try_from(ordinal) == Ok(gpu.index()) => {}
                    Ok(()) => {
                        let found = u32::try_from(ordinal).ok();
                        return Err(Error::ForeignMemory { address, device: gpu.label(), found });
                    }
                    Err(DriverCode::INVALID_VALUE) => {
                        return Err(Error::ForeignMemory { address, device: gpu.label(), found: None });
                    }
                    Err(code) => return Err(gpu.error_of_code("cuPointerGetAttribute", code)),
                }
                Ok(Self::Gpu { gpu, address, is_borrowed: true })
            }
        }
    }

    /// [`Memory::borrow`] for memory that is known to be the device's: does not ask the driver.
    ///
    /// # Safety
    /// Same contract as [`Buffer::from_raw_parts`](super::Buffer::from_raw_parts).
    pub unsafe fn borrow_known(device: &Device, address: u64, bytes: usize) -> Result<Self> {
        match &device.0 {
            Backend::Gpu(gpu) if bytes > 0 => Ok(Self::Gpu { gpu, address, is_borrowed: true }),
            // SAFETY: the bytes stay allocated until the memory is dropped.
            _ => unsafe { Self::borrow(device, address, bytes) },
        }
    }

    /// The device address of the first byte; 0 for no memory.
    pub fn address(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Gpu { address, .. } => *address,
            Self::Sim(allocation) => allocation.address(),
            Self::View(view) => view.address(),
        }
    }

    /// Copies from the host to the bytes at `offset`; the caller has checked the range.
    pub fn write(&self, offset: usize, source: &[u8]) -> Result<()> {
        match self {
            _ if source.is_empty() => Ok(()),
            Self::Empty => unreachable!("no range of bytes is within no memory"),
            Self::Sim(allocation) => Ok(allocation.write(offset, source)?),
            Self::View(view) => Ok(view.write(offset, source)?),
            Self::Gpu { gpu, address, .. } => {
                gpu.bind()?;
                let to = address + offset as u64;
                // SAFETY: the range is inside the allocation, and `source` is readable. The driver
                // has copied it when the call returns.
                check(unsafe { sys::cuMemcpyHtoD_v2(to, source.as_ptr().cast(), source.len()) })
                    .map_err(|code| gpu.error_of_code("cuMemcpyHtoD", code))
            }
        }
    }

    /// Copies the bytes at `offset` to the host and fills all of `destination`; the caller has
    /// checked the range.
    pub fn read(&self, offset: usize, destination: &mut [MaybeUninit<u8>]) -> Result<()> {
        match self {
            _ if destination.is_empty() => Ok(()),
            Self::Empty => unreachable!("no range of bytes is within no memory"),
            Self::Sim(_) | Self::View(_) => {
                destination.fill(MaybeUninit::new(0));
                // SAFETY: all bytes were just written.
                let initialised = unsafe {
                    std::slice::from_raw_parts_mut(destination.as_mut_ptr().cast(), destination.len())
                };
                match self {
                    Self::View(view) => Ok(view.read(offset, initialised)?),
                    Self::Sim(allocation) => Ok(allocation.read(offset, initialised)?),
                    _ => unreachable!("matched above"),
                }
            }
            Self::Gpu { gpu, address, .. } => {
                gpu.bind()?;
                let from = address + offset as u64;
                // SAFETY: the range is inside the allocation, and `destination` is writable.
                check(unsafe {
                    sys::cuMemcpyDtoH_v2(destination.as_mut_ptr().cast(), from, destination.len())
                })
                .map_err(|code| gpu.error_of_code("cuMemcpyDtoH", code))
            }
        }
    }

    /// Sets `bytes` bytes at `offset`; the caller has checked the range.
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> Result<()> {
        match self {
            _ if bytes == 0 => Ok(()),
            Self::Empty => unreachable!("no range of bytes is within no memory"),
            Self::Sim(allocation) => Ok(allocation.fill(offset, bytes, value)?),
            Self::View(view) => Ok(view.fill(offset, bytes, value)?),
            Self::Gpu { gpu, address, .. } => {
                gpu.bind()?;
                // SAFETY: the range is inside the allocation.
                check(unsafe { sys::cuMemsetD8_v2(address + offset as u64, value, bytes) })
                    .map_err(|code| gpu.error_of_code("cuMemsetD8", code))
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Self::Gpu { gpu, address, is_borrowed: false } = self
            && gpu.bind().is_ok()
        {
            // The driver waits for the kernels that use the memory. After a kernel fault it refuses
            // the call, and the process has lost the GPU anyway. SAFETY: allocated in `new`, freed
            // once.
            let _ = unsafe { sys::cuMemFree_v2(*address) };
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_buffer_may_be_used_from_any_thread() {
        fn assert_shared<T: Send + Sync>() {}
        assert_shared::<crate::Buffer<f32>>();
    }
}
