//! Tensors of any rank on the computing device: borrowed from an array on the GPU, copied to
//! row-major order from one on the host.

use crate::device::Place;
use crate::error;
use crate::operand::Operand;
use moye_runtime::operation::offsets;
use moye_runtime::{Buffer, Device, Element};
use pyo3::prelude::*;
use std::borrow::Cow;

/// A tensor on a device.
pub struct Tensor<T: Element> {
    pub buffer: Buffer<T>,
    /// In elements; 0 repeats.
    pub strides: Vec<usize>,
}

impl<T: Element> Tensor<T> {
    /// The elements of an input operand.
    ///
    /// # Errors
    /// `ValueError` for negative strides on a GPU, `MemoryError`, and the driver's own.
    pub fn read(device: &Device, operand: &Operand, name: &str) -> PyResult<Self> {
        if let Place::Gpu(_) = operand.place {
            return Self::borrowed(device, operand, name);
        }
        let (elements, strides) = gathered(operand);
        let buffer = device.upload(&elements).map_err(error::raised)?;
        Ok(Self { buffer, strides })
    }

    /// Memory for a result: the array's own on a GPU, otherwise new, in row-major order.
    ///
    /// # Errors
    /// Same as [`Self::read`].
    pub fn written(device: &Device, operand: &Operand, name: &str) -> PyResult<Self> {
        if let Place::Gpu(_) = operand.place {
            return Self::borrowed(device, operand, name);
        }
        let buffer = device.alloc_uninit(operand.shape.iter().product()).map_err(error::raised)?;
        Ok(Self { buffer, strides: row_major(&operand.shape) })
    }

    fn borrowed(device: &Device, operand: &Operand, name: &str) -> PyResult<Self> {
        let mut strides = Vec::with_capacity(operand.shape.len());
        for (&extent, &stride) in operand.shape.iter().zip(&operand.strides) {
            // A stride along which there is no second element may be anything.
            let stride = if extent <= 1 { 0 } else { stride };
            strides.push(usize::try_from(stride).map_err(|_| {
                error::value(format!(
                    "{name} has a stride of {stride}, and those on a GPU must be at least 0; copy it"
                ))
            })?);
        }
        let reach = operand.shape.iter().zip(&strides);
        let reach = reach.map(|(&extent, &stride)| stride.saturating_mul(extent.saturating_sub(1)));
        let len = match operand.shape.contains(&0) {
            true => 0,
            false => reach.fold(1, usize::saturating_add),
        };
        // SAFETY: the operand keeps the array alive, and describes it as its library did. The work
        // is launched on the stream on which the array's library continues.
        let buffer = unsafe { Buffer::from_raw_parts(operand.address as u64, len, device) };
        Ok(Self { buffer: buffer.map_err(error::raised)?, strides })
    }

    /// Copies a result to an operand on the host.
    pub fn give_back(&self, operand: &Operand) -> PyResult<()> {
        if let Place::Gpu(_) = operand.place {
            return Ok(());
        }
        let elements = self.buffer.download().map_err(error::raised)?;
        let first = std::ptr::with_exposed_provenance_mut::<T>(operand.address);
        for (offset, element) in offsets(&operand.shape, &operand.strides()).zip(elements) {
            // SAFETY: the operand keeps the array's memory alive, which may be written, and
            // describes it as its library did; it may be unaligned. The GIL is held.
            unsafe { first.wrapping_offset(offset as isize).write_unaligned(element) };
        }
        Ok(())
    }
}

/// The elements of an operand on the host in row-major order, and their strides there. A mode of
/// stride 0 remains one.
pub fn gathered<T: Element>(operand: &Operand) -> (Cow<'_, [T]>, Vec<usize>) {
    let repeats = |mode: usize| operand.strides[mode] == 0 && operand.shape[mode] > 1;
    let shape: Vec<usize> =
        (0..operand.shape.len()).map(|mode| if repeats(mode) { 1 } else { operand.shape[mode] }).collect();
    let mut strides = row_major(&shape);
    for (mode, stride) in strides.iter_mut().enumerate() {
        if repeats(mode) {
            *stride = 0;
        }
    }
    let first = std::ptr::with_exposed_provenance::<T>(operand.address);
    let count = shape.iter().product();
    let is_compact = operand.strides.iter().zip(&strides).all(|(&own, &to)| own == to as isize);
    if is_compact && count > 0 && operand.address.is_multiple_of(align_of::<T>()) {
        // SAFETY: the elements may be read; they are compact and aligned, and any bits are valid.
        // The GIL is held.
        return (Cow::Borrowed(unsafe { std::slice::from_raw_parts(first, count) }), strides);
    }
    let element = |offset: i64| {
        // SAFETY: the operand keeps the array's memory alive, and describes it as its library did;
        // it may be unaligned. The GIL is held.
        unsafe { first.wrapping_offset(offset as isize).read_unaligned() }
    };
    (offsets(&shape, &operand.strides()).map(element).collect(), strides)
}

fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for mode in (1..shape.len()).rev() {
        strides[mode - 1] = strides[mode] * shape[mode].max(1);
    }
    strides
}
