//! Ranges of a buffer.

use super::Buffer;
use super::buffer::checked;
use crate::Result;
use crate::device::Device;
use moye_device::memory::Element;
use std::marker::PhantomData;
use std::ops::{Range, RangeBounds};

/// A range of a buffer's elements, for reading.
#[derive(Clone, Debug)]
pub struct BufferSlice<'a, T: Element> {
    buffer: &'a Buffer<T>,
    range: Range<usize>,
}

/// A range of a buffer's elements, for reading and writing.
#[derive(Debug)]
pub struct BufferSliceMut<'a, T: Element> {
    // A shared reference, because both halves of a split range refer to one buffer; this value has
    // exclusive access to its range.
    buffer: &'a Buffer<T>,
    range: Range<usize>,
    exclusive: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element> BufferSlice<'a, T> {
    /// `range` is within the buffer.
    pub(super) fn new(buffer: &'a Buffer<T>, range: Range<usize>) -> Self {
        Self { buffer, range }
    }
}

impl<'a, T: Element> BufferSliceMut<'a, T> {
    /// `range` is within the buffer.
    pub(super) fn new(buffer: &'a mut Buffer<T>, range: Range<usize>) -> Self {
        Self { buffer, range, exclusive: PhantomData }
    }

    /// Splits the range into the elements before `middle` and the rest.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if there are fewer than `middle` elements.
    pub fn split_at(self, middle: usize) -> Result<(Self, Self)> {
        checked(..middle, self.len())?;
        let Range { start, end } = self.range;
        let part = |range| Self { buffer: self.buffer, range, exclusive: PhantomData };
        Ok((part(start..start + middle), part(start + middle..end)))
    }

    /// The same range, for reading.
    pub fn as_slice(&self) -> BufferSlice<'_, T> {
        BufferSlice { buffer: self.buffer, range: self.range.clone() }
    }

    /// A subrange, for writing.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange)
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<BufferSliceMut<'_, T>> {
        let range = self.within(range)?;
        Ok(BufferSliceMut { buffer: self.buffer, range, exclusive: PhantomData })
    }

    /// Copies all elements from the host.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch), or an error of the driver.
    pub fn upload_from(&mut self, elements: &[T]) -> Result<()> {
        self.buffer.write(self.range.clone(), elements)
    }

    /// Sets every byte to `value`.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn fill_bytes(&mut self, value: u8) -> Result<()> {
        self.buffer.fill(self.range.clone(), value)
    }
}

macro_rules! reading {
    ($name:ident) => {
        impl<T: Element> $name<'_, T> {
            /// The number of elements.
            pub fn len(&self) -> usize {
                self.range.len()
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.range.is_empty()
            }

            /// The device of the buffer.
            pub fn device(&self) -> &Device {
                self.buffer.device()
            }

            /// The device address of the first element, even if the range is empty.
            pub fn address(&self) -> u64 {
                self.buffer.address() + (self.range.start * size_of::<T>()) as u64
            }

            /// A subrange, for reading.
            ///
            /// # Errors
            /// [`Error::OutOfRange`](crate::Error::OutOfRange)
            pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<BufferSlice<'_, T>> {
                Ok(BufferSlice { buffer: self.buffer, range: self.within(range)? })
            }

            /// Copies all elements to the host. Waits for earlier launches.
            ///
            /// # Errors
            /// An error of the driver, and the fault of an earlier kernel.
            pub fn download(&self) -> Result<Vec<T>> {
                self.buffer.read_vec(self.range.clone())
            }

            /// Copies all elements to `destination`. Waits for earlier launches.
            ///
            /// # Errors
            /// [`Error::LengthMismatch`](crate::Error::LengthMismatch), an error of the driver, and
            /// the fault of an earlier kernel.
            pub fn download_into(&self, destination: &mut [T]) -> Result<()> {
                self.buffer.read(self.range.clone(), destination)
            }

            /// A subrange as a range of the buffer.
            fn within(&self, range: impl RangeBounds<usize>) -> Result<Range<usize>> {
                let range = checked(range, self.len())?;
                Ok(self.range.start + range.start..self.range.start + range.end)
            }
        }
    };
}
reading!(BufferSlice);
reading!(BufferSliceMut);

impl<'a, T: Element> From<&'a Buffer<T>> for BufferSlice<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.as_slice()
    }
}

impl<'a, T: Element> From<&'a mut Buffer<T>> for BufferSliceMut<'a, T> {
    fn from(buffer: &'a mut Buffer<T>) -> Self {
        buffer.as_slice_mut()
    }
}
