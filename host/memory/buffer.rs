//! Typed memory on a device.

use super::raw::Memory;
use super::{BufferSlice, BufferSliceMut, bytes_of, bytes_of_mut};
use crate::captures::not_captured;
use crate::device::Device;
use crate::{Error, Result};
use moye_device::memory::Element;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Bound, Range, RangeBounds};

/// Elements in a device's global memory. They are freed on drop, unless the memory belongs to
/// [another library](Buffer::from_raw_parts).
///
/// A buffer may be empty. The memory that it allocates is aligned to 256 bytes.
pub struct Buffer<T: Element> {
    device: Device,
    memory: Memory,
    len: usize,
    element: PhantomData<T>,
}

impl Device {
    /// A buffer of `len` elements whose bytes are all 0.
    ///
    /// # Errors
    /// The device lacks the memory, or the buffer exceeds the address space.
    pub fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        let buffer = self.alloc_uninit(len)?;
        buffer.memory.fill(0, len * size_of::<T>(), 0)?;
        Ok(buffer)
    }

    /// A buffer of `len` elements with unspecified values. On the simulator all bytes are 0xFF, so
    /// every float is NaN and a result that depends on one is noticed.
    ///
    /// # Errors
    /// The device lacks the memory, or the buffer exceeds the address space.
    pub fn alloc_uninit<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or(Error::BufferTooLarge { elements: len, size: size_of::<T>() })?;
        let memory = Memory::new(self, bytes, || format!("{}[{len}]", T::NAME))?;
        Ok(Buffer { device: self.clone(), memory, len, element: PhantomData })
    }

    /// A buffer with these elements.
    ///
    /// # Errors
    /// The device lacks the memory.
    pub fn upload<T: Element>(&self, elements: &[T]) -> Result<Buffer<T>> {
        let buffer = self.alloc_uninit(elements.len())?;
        buffer.memory.write(0, bytes_of(elements))?;
        Ok(buffer)
    }
}

impl<T: Element> Buffer<T> {
    /// A view of `len` elements at a device address that another library allocated. It reads and
    /// writes that memory, and does not free it.
    ///
    /// On the simulator the memory belongs to another buffer of the same simulator.
    ///
    /// ```
    /// use moye::{Buffer, Device};
    /// let device = Device::sim();
    /// let numbers = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
    /// // SAFETY: `numbers` outlives the view, and is not used meanwhile.
    /// let mut view = unsafe { Buffer::<f32>::from_raw_parts(numbers.address() + 8, 2, &device)? };
    /// view.upload_from(&[30.0, 40.0])?;
    /// drop(view);
    /// assert_eq!(numbers.download()?, [1.0, 2.0, 30.0, 40.0]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ForeignAlignment`] for an address that is not a multiple of the element's size,
    /// [`Error::ForeignMemory`] for memory of another device or of none, [`Error::BufferTooLarge`],
    /// [`Error::SimulatedMemory`] if no allocation of the simulator contains all elements, or an
    /// error of the driver.
    ///
    /// # Safety
    /// The `len` elements at `address` stay allocated, in global memory that the device's context
    /// may access, until this buffer is dropped and its work has completed. Until then no other
    /// code writes what is read through the buffer, or reads or writes what is written through it,
    /// except in the order of the same stream.
    pub unsafe fn from_raw_parts(address: u64, len: usize, device: &Device) -> Result<Self> {
        if !address.is_multiple_of(T::BYTES as u64) {
            return Err(Error::ForeignAlignment { address, element: T::NAME, bytes: T::BYTES });
        }
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or(Error::BufferTooLarge { elements: len, size: size_of::<T>() })?;
        // SAFETY: the elements are allocated until the buffer's work has completed.
        let memory = unsafe { Memory::borrow(device, address, bytes)? };
        Ok(Self { device: device.clone(), memory, len, element: PhantomData })
    }

    /// [`Buffer::from_raw_parts`] without a check of the memory on a GPU.
    ///
    /// # Safety
    /// Same contract as [`Buffer::from_raw_parts`]; the memory belongs to the device, and the
    /// address is a multiple of the element's size.
    pub(crate) unsafe fn of_operand(address: u64, len: usize, device: &Device) -> Result<Self> {
        // SAFETY: the elements are allocated until the buffer's work has completed.
        let memory = unsafe { Memory::borrow_known(device, address, len.saturating_mul(T::BYTES))? };
        Ok(Self { device: device.clone(), memory, len, element: PhantomData })
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device that owns it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The device address of the first element; 0 for an empty buffer.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// All elements as a range.
    pub fn as_slice(&self) -> BufferSlice<'_, T> {
        BufferSlice::new(self, 0..self.len)
    }

    /// All elements as a mutable range.
    pub fn as_slice_mut(&mut self) -> BufferSliceMut<'_, T> {
        let all = 0..self.len;
        BufferSliceMut::new(self, all)
    }

    /// The elements of a range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<BufferSlice<'_, T>> {
        Ok(BufferSlice::new(self, checked(range, self.len)?))
    }

    /// A mutable range of the elements.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<BufferSliceMut<'_, T>> {
        let range = checked(range, self.len)?;
        Ok(BufferSliceMut::new(self, range))
    }

    /// Copies all elements from the host.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], or an error of the driver.
    pub fn upload_from(&mut self, elements: &[T]) -> Result<()> {
        self.write(0..self.len, elements)
    }

    /// Copies all elements to the host. Waits for earlier launches.
    ///
    /// # Errors
    /// An error of the driver, and the fault of an earlier kernel.
    pub fn download(&self) -> Result<Vec<T>> {
        self.read_vec(0..self.len)
    }

    /// Copies all elements to `destination`. Waits for earlier launches.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], an error of the driver, and the fault of an earlier kernel.
    pub fn download_into(&self, destination: &mut [T]) -> Result<()> {
        self.read(0..self.len, destination)
    }

    /// Sets every byte to `value`.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn fill_bytes(&mut self, value: u8) -> Result<()> {
        self.fill(0..self.len, value)
    }

    pub(super) fn write(&self, range: Range<usize>, source: &[T]) -> Result<()> {
        not_captured("an upload to a buffer")?;
        if source.len() != range.len() {
            return Err(Error::LengthMismatch { host: source.len(), device: range.len() });
        }
        self.memory.write(range.start * size_of::<T>(), bytes_of(source))
    }

    pub(super) fn read(&self, range: Range<usize>, destination: &mut [T]) -> Result<()> {
        not_captured("a download")?;
        if destination.len() != range.len() {
            return Err(Error::LengthMismatch { host: destination.len(), device: range.len() });
        }
        self.memory.read(range.start * size_of::<T>(), bytes_of_mut(destination))
    }

    pub(super) fn read_vec(&self, range: Range<usize>) -> Result<Vec<T>> {
        not_captured("a download")?;
        let mut elements = Vec::<T>::with_capacity(range.len());
        let place = elements.spare_capacity_mut()[..range.len()].as_mut_ptr();
        // SAFETY: the memory of `range.len()` elements, as bytes that need not be initialised.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(place.cast::<MaybeUninit<u8>>(), range.len() * size_of::<T>())
        };
        self.memory.read(range.start * size_of::<T>(), bytes)?;
        // SAFETY: `read` has filled all bytes, and any bytes are valid elements.
        unsafe { elements.set_len(range.len()) };
        Ok(elements)
    }

    pub(super) fn fill(&self, range: Range<usize>, value: u8) -> Result<()> {
        not_captured("`fill_bytes`")?;
        self.memory.fill(range.start * size_of::<T>(), range.len() * size_of::<T>(), value)
    }
}

/// The range with explicit bounds, if it is inside `len` elements.
pub(super) fn checked(range: impl RangeBounds<usize>, len: usize) -> Result<Range<usize>> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    if start <= end && end <= len { Ok(start..end) } else { Err(Error::OutOfRange { start, end, len }) }
}

impl<T: Element> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({}[{}] at {:#x} on {})", T::NAME, self.len, self.address(), self.device.label())
    }
}
