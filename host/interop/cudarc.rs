//! Streams and slices of [`cudarc`] 0.19: its slices as buffers of this crate, and this crate's
//! buffers as its slices, on one stream.
//!
//! ```no_run
//! use cudarc::driver::CudaContext;
//! use moye::interop::cudarc::CudarcStream;
//! use moye::{Matmul, Matrix, MatrixMut};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = CudaContext::new(0)?;
//! let cuda = context.default_stream();
//! let (a, b) = (cuda.clone_htod(&[1.0f32; 64 * 32])?, cuda.clone_htod(&[2.0f32; 32 * 48])?);
//! let mut c = cuda.alloc_zeros::<f32>(64 * 48)?;
//!
//! let stream = CudarcStream::new(&cuda)?; // keep it: it has the workspaces of the products
//! // SAFETY: the views are used only on this stream.
//! unsafe {
//!     let (a, b, mut c) = (stream.read(&a)?, stream.read(&b)?, stream.write(&mut c)?);
//!     let (a, b) = (Matrix::row_major(&a, 64, 32)?, Matrix::row_major(&b, 32, 48)?);
//!     Matmul::new(a, b).run_on(&stream, &mut MatrixMut::row_major(&mut c, 64, 48)?)?;
//! }
//! assert_eq!(cuda.clone_dtoh(&c)?, vec![64.0; 64 * 48]);
//! # Ok(())
//! # }
//! ```
//! Features of `cudarc` select the CUDA version and how its libraries are found: enable them in
//! your dependency on it. This crate's feature does not enable cuBLAS.

use crate::{Buffer, BufferSlice, BufferSliceMut, Device, Element, Error, Result, Stream};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A stream of `cudarc` for launches: it derefs to [`Stream`].
///
/// It owns the workspaces of its operations, so keep it instead of creating one for each call.
#[derive(Debug)]
pub struct CudarcStream {
    // Dropped before the fields that it borrows.
    stream: Stream,
    cuda: Arc<CudaStream>,
}

impl CudarcStream {
    /// The stream, on the device of its context.
    ///
    /// # Errors
    /// Same as [`Device::from_raw_context`](crate::Device::from_raw_context) and
    /// [`Stream::from_raw_handle`](crate::Stream::from_raw_handle).
    pub fn new(cuda: &Arc<CudaStream>) -> Result<Self> {
        let device = device(cuda.context())?;
        // SAFETY: `cuda` is a stream of that context, and lives as long as the result.
        let stream = unsafe { Stream::from_raw_handle(&device, cuda.cu_stream().cast())? };
        Ok(Self { stream, cuda: cuda.clone() })
    }

    /// The stream as `cudarc`'s type.
    pub fn cuda(&self) -> &Arc<CudaStream> {
        &self.cuda
    }

    /// A view of a slice for reading. The stream waits for writes of the slice on other streams.
    ///
    /// # Errors
    /// Same as [`Buffer::from_raw_parts`].
    ///
    /// # Safety
    /// Launches that use the view are on this stream, and are issued before the view is dropped:
    /// `cudarc` orders other uses of the slice after them.
    pub unsafe fn read<'a, T: Element>(&'a self, slice: &'a impl DevicePtr<T>) -> Result<Reading<'a, T>> {
        let (address, order) = slice.device_ptr(&self.cuda);
        // SAFETY: the slice is borrowed and frees its memory in stream order; the caller uses the
        // view only on this stream.
        let view = unsafe { Buffer::from_raw_parts(address, slice.len(), self.stream.device())? };
        Ok(Reading { view, _order: order })
    }

    /// A view of a slice for writing. The stream waits for reads and writes of the slice on other
    /// streams.
    ///
    /// # Errors
    /// Same as [`Buffer::from_raw_parts`].
    ///
    /// # Safety
    /// Same contract as [`CudarcStream::read`].
    pub unsafe fn write<'a, T: Element>(
        &'a self,
        slice: &'a mut impl DevicePtrMut<T>,
    ) -> Result<Writing<'a, T>> {
        let len = slice.len();
        let (address, order) = slice.device_ptr_mut(&self.cuda);
        // SAFETY: the slice is borrowed and frees its memory in stream order; the caller uses the
        // view only on this stream.
        let view = unsafe { Buffer::from_raw_parts(address, len, self.stream.device())? };
        Ok(Writing { view, _order: order })
    }

    /// A slice of `cudarc` over a buffer of this crate; it does not free the buffer.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] for a buffer of another device.
    ///
    /// # Safety
    /// The slice is used on this stream, and its uses are ordered with uses of the buffer on other
    /// streams.
    pub unsafe fn lend<'a, T: Element>(&self, buffer: &'a mut Buffer<T>) -> Result<Lent<'a, T>> {
        if buffer.device() != self.stream.device() {
            return Err(Error::WrongDevice {
                kernel: "CudarcStream::lend",
                argument: 0,
                buffer_device: buffer.device().label(),
                device: self.stream.device().label(),
            });
        }
        // SAFETY: the buffer has this number of elements, which may have any bytes; `Lent` never
        // frees them.
        let slice = unsafe { self.cuda.upgrade_device_ptr::<T>(buffer.address(), buffer.len()) };
        Ok(Lent { slice: ManuallyDrop::new(slice), _buffer: buffer })
    }
}

/// The device of a context.
///
/// # Errors
/// Same as [`Device::from_raw_context`](crate::Device::from_raw_context).
pub fn device(context: &Arc<CudaContext>) -> Result<Device> {
    // The device is kept until the process exits, so the context must be too.
    std::mem::forget(context.clone());
    // SAFETY: the context is alive and never destroyed, because one handle to it is never dropped.
    unsafe { Device::from_raw_context(context.cu_ctx().cast()) }
}

/// A stream of this crate for `cudarc`, which does not destroy it.
///
/// # Errors
/// [`Error::ForeignHandle`] if the context is not that of the stream's device, or an error of the
/// driver.
///
/// # Safety
/// `stream` has a handle for as long as the result, or anything that `cudarc` derives from it, is
/// in use.
pub unsafe fn to_cudarc(stream: &Stream, context: &Arc<CudaContext>) -> Result<Arc<CudaStream>> {
    let raw = stream.raw_handle()?;
    if stream.device().raw_context() != context.cu_ctx().cast() {
        let detail = "it is not the one of the stream's device; use that of `moye::interop::cudarc::device`";
        return Err(Error::ForeignHandle { what: "context", detail });
    }
    // SAFETY: a live stream of this context; the caller keeps it alive.
    Ok(unsafe { context.wrap_borrowed_stream(raw.cast()) })
}

impl Deref for CudarcStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

/// A slice of `cudarc` as a buffer for reading: see [`CudarcStream::read`].
#[derive(Debug)]
pub struct Reading<'a, T: Element> {
    view: Buffer<T>,
    /// Its drop records in `cudarc` that the slice is read up to this point.
    _order: SyncOnDrop<'a>,
}

impl<T: Element> Deref for Reading<'_, T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        &self.view
    }
}

/// A slice of `cudarc` as a buffer for writing: see [`CudarcStream::write`].
#[derive(Debug)]
pub struct Writing<'a, T: Element> {
    view: Buffer<T>,
    /// Its drop records in `cudarc` that the slice is written up to this point.
    _order: SyncOnDrop<'a>,
}

impl<T: Element> Deref for Writing<'_, T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        &self.view
    }
}

impl<T: Element> DerefMut for Writing<'_, T> {
    fn deref_mut(&mut self) -> &mut Buffer<T> {
        &mut self.view
    }
}

impl<'a, T: Element> From<&'a Reading<'_, T>> for BufferSlice<'a, T> {
    fn from(reading: &'a Reading<'_, T>) -> Self {
        reading.view.as_slice()
    }
}

impl<'a, T: Element> From<&'a Writing<'_, T>> for BufferSlice<'a, T> {
    fn from(writing: &'a Writing<'_, T>) -> Self {
        writing.view.as_slice()
    }
}

impl<'a, T: Element> From<&'a mut Writing<'_, T>> for BufferSliceMut<'a, T> {
    fn from(writing: &'a mut Writing<'_, T>) -> Self {
        writing.view.as_slice_mut()
    }
}

/// A buffer of this crate as a slice of `cudarc`: see [`CudarcStream::lend`].
#[derive(Debug)]
pub struct Lent<'a, T: Element> {
    slice: ManuallyDrop<CudaSlice<T>>,
    _buffer: &'a mut Buffer<T>,
}

impl<T: Element> Deref for Lent<'_, T> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        &self.slice
    }
}

impl<T: Element> DerefMut for Lent<'_, T> {
    fn deref_mut(&mut self) -> &mut CudaSlice<T> {
        &mut self.slice
    }
}

impl<T: Element> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the field is not used after this.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        // The buffer owns the memory; the stream waits for uses on other streams.
        let _ = slice.leak();
    }
}
