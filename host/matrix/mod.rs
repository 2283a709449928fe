//! Matrices over a buffer's elements, with any strides.

mod shape;
mod view;

pub use shape::Shape;
pub use view::{Matrix, MatrixMut};

use crate::device::Device;
use crate::{Error, Result};

/// Checks that the buffer of an argument of `operation` belongs to the device that runs it.
///
/// # Errors
/// [`Error::WrongDevice`] if it does not.
pub fn same_device(operation: &'static str, argument: usize, buffer: &Device, device: &Device) -> Result<()> {
    if buffer == device {
        return Ok(());
    }
    let (buffer_device, device) = (buffer.label(), device.label());
    Err(Error::WrongDevice { kernel: operation, argument, buffer_device, device })
}
