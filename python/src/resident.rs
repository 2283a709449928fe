//! Elements in the memory of the computing device: borrowed from an array on the GPU, copied from
//! one on the host.

use crate::device::Place;
use crate::error;
use crate::operand::{Batched, Operand};
use moye::{Buffer, Device, Element, Matrix, MatrixMut};
use pyo3::prelude::*;
use std::borrow::Cow;

/// Matrices on a device.
pub struct Resident<T: Element> {
    pub buffer: Buffer<T>,
    shape: [usize; 3],
    strides: [usize; 3],
}

impl<T: Element> Resident<T> {
    /// The elements of an input operand.
    ///
    /// # Errors
    /// `ValueError` for negative strides on a GPU, `MemoryError`, and the driver's own.
    pub fn read(device: &Device, operand: &Operand, view: Batched, name: &str) -> PyResult<Self> {
        if let Place::Gpu(_) = operand.place {
            return Self::borrowed(device, operand, view, name);
        }
        // SAFETY: the operand keeps the array's memory alive, and describes it as its library did.
        // The GIL is held.
        let (elements, strides) = unsafe { elements::<T>(operand.address, view) };
        let buffer = device.upload(&elements).map_err(error::raised)?;
        Ok(Self { buffer, shape: view.shape, strides })
    }

    /// Memory for a result: the array's own on a GPU, otherwise new, in row-major order.
    ///
    /// # Errors
    /// Same as [`Self::read`].
    pub fn written(device: &Device, operand: &Operand, view: Batched, name: &str) -> PyResult<Self> {
        if let Place::Gpu(_) = operand.place {
            return Self::borrowed(device, operand, view, name);
        }
        let buffer = device.alloc_uninit(view.elements()).map_err(error::raised)?;
        let [_, rows, columns] = view.shape;
        Ok(Self { buffer, shape: view.shape, strides: [rows * columns, columns, 1] })
    }

    fn borrowed(device: &Device, operand: &Operand, view: Batched, name: &str) -> PyResult<Self> {
        let mut strides = [0; 3];
        for ((own, &stride), &extent) in strides.iter_mut().zip(&view.strides).zip(&view.shape) {
            // A stride along which there is no second element may be anything.
            let stride = if extent <= 1 { 0 } else { stride };
            *own = usize::try_from(stride).map_err(|_| {
                error::value(format!(
                    "{name} has a stride of {stride}, and those on a GPU must be at least 0; copy it"
                ))
            })?;
        }
        let reach = view
            .shape
            .iter()
            .zip(&strides)
            .map(|(&extent, &stride)| stride.saturating_mul(extent.max(1) - 1));
        let len = match view.elements() {
            0 => 0,
            _ => reach.fold(1, usize::saturating_add),
        };
        // SAFETY: the operand keeps the array alive, and describes it as its library did. The work
        // is launched on the stream on which the array's library continues.
        let buffer = unsafe { Buffer::from_raw_parts(operand.address as u64, len, device) };
        Ok(Self { buffer: buffer.map_err(error::raised)?, shape: view.shape, strides })
    }

    /// Copies a result to an operand on the host.
    pub fn give_back(&self, operand: &Operand, view: Batched) -> PyResult<()> {
        if let Place::Gpu(_) = operand.place {
            return Ok(());
        }
        let elements = self.buffer.download().map_err(error::raised)?;
        // SAFETY: as in `read`; the array may be written.
        unsafe { scattered(operand.address, view, &elements) };
        Ok(())
    }

    /// The number of matrices, and the stride between them in elements.
    pub fn batch(&self) -> (usize, usize) {
        (self.shape[0], self.strides[0])
    }

    /// The matrix of a batch.
    pub fn matrix(&self, batch: usize) -> moye::Result<Matrix<'_, T>> {
        let [_, rows, columns] = self.shape;
        let [_, row, column] = self.strides;
        Matrix::new(self.buffer.slice(self.start(batch)..)?, rows, columns, (row, column))
    }

    /// The matrix of a batch, for writing.
    pub fn matrix_mut(&mut self, batch: usize) -> moye::Result<MatrixMut<'_, T>> {
        let start = self.start(batch);
        let [_, rows, columns] = self.shape;
        let [_, row, column] = self.strides;
        MatrixMut::new(self.buffer.slice_mut(start..)?, rows, columns, (row, column))
    }

    fn start(&self, batch: usize) -> usize {
        // Without elements there is no start.
        if self.buffer.is_empty() { 0 } else { batch * self.strides[0] }
    }
}

/// The elements of host memory for an upload, and their strides there: in place if they are
/// compact, otherwise gathered with the axis of the smaller stride first.
///
/// # Safety
/// The elements at `address` with these extents and strides may be read, and are not written while
/// the result is used.
unsafe fn elements<'a, T: Element>(address: usize, mut view: Batched) -> (Cow<'a, [T]>, [usize; 3]) {
    let [_, rows, columns] = view.shape;
    if view.strides[0] == 0 {
        view.shape[0] = view.shape[0].min(1);
    }
    let is_by_columns =
        rows > 1 && columns > 1 && view.strides[1].unsigned_abs() < view.strides[2].unsigned_abs();
    let [row, column] = if is_by_columns { [1, rows] } else { [columns, 1] };
    let batch = if view.strides[0] == 0 { 0 } else { rows * columns };
    let strides = [batch, row, column];
    let is_compact = (0..3).all(|mode| view.shape[mode] <= 1 || view.strides[mode] == strides[mode] as isize);
    if is_compact && view.elements() > 0 && address.is_multiple_of(align_of::<T>()) {
        let first = std::ptr::with_exposed_provenance(address);
        // SAFETY: the elements may be read; they are compact and aligned, and any bits are valid.
        return (Cow::Borrowed(unsafe { std::slice::from_raw_parts(first, view.elements()) }), strides);
    }
    // SAFETY: the elements at `address` may be read, and are not written meanwhile.
    (Cow::Owned(unsafe { gathered(address, view, strides) }), strides)
}

/// The elements of host memory, copied to compact strides.
///
/// # Safety
/// Same contract as [`elements`].
unsafe fn gathered<T: Element>(address: usize, view: Batched, strides: [usize; 3]) -> Vec<T> {
    let mut order = [0, 1, 2];
    order.sort_by_key(|&mode| std::cmp::Reverse(strides[mode]));
    let mut gathered = Vec::with_capacity(view.elements());
    let first = std::ptr::with_exposed_provenance::<T>(address);
    let [outer, middle, inner] = order.map(|mode| (view.shape[mode], view.strides[mode]));
    for i in 0..outer.0 as isize {
        for j in 0..middle.0 as isize {
            for k in 0..inner.0 as isize {
                let offset = i * outer.1 + j * middle.1 + k * inner.1;
                // SAFETY: the element may be read; it may be unaligned.
                gathered.push(unsafe { first.wrapping_offset(offset).read_unaligned() });
            }
        }
    }
    gathered
}

/// Writes elements in row-major order to host memory.
///
/// # Safety
/// The elements at `address` with these extents and strides may be written, and nothing else uses
/// them.
unsafe fn scattered<T: Element>(address: usize, view: Batched, elements: &[T]) {
    let first = std::ptr::with_exposed_provenance_mut::<T>(address);
    let [batches, rows, columns] = view.shape;
    let [batch, row, column] = view.strides;
    let mut elements = elements.iter();
    for i in 0..batches as isize {
        for j in 0..rows as isize {
            for (k, element) in elements.by_ref().take(columns).enumerate() {
                let offset = i * batch + j * row + k as isize * column;
                // SAFETY: the element may be written; it may be unaligned.
                unsafe { first.wrapping_offset(offset).write_unaligned(*element) };
            }
        }
    }
}
