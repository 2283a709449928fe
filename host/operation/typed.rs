//! Calls of a declared operation by typed builders.

use super::{Array, Call, Declaration, Options, Value};
use crate::{Device, Error, Matrix, MatrixMut, Result, Stream};
use moye_device::memory::Element;
use std::borrow::Cow;

/// Checks that an argument of an operation is in memory of the stream's device.
///
/// # Errors
/// [`Error::WrongDevice`] if it is not.
pub fn check_device(
    operation: &'static str,
    stream: &Stream,
    argument: usize,
    device: &Device,
) -> Result<()> {
    if device == stream.device() {
        return Ok(());
    }
    Err(Error::WrongDevice {
        kernel: operation,
        argument,
        buffer_device: format!("{device:?}"),
        device: format!("{:?}", stream.device()),
    })
}

/// A call of a declared operation with typed matrices as operands.
pub struct TypedCall<'a> {
    declaration: &'static Declaration,
    stream: &'a Stream,
    operands: Vec<Option<Array>>,
    options: Options,
}

impl<'a> TypedCall<'a> {
    /// A call without operands, with the default options.
    pub fn new(declaration: &'static Declaration, stream: &'a Stream) -> Self {
        Self { declaration, stream, operands: Vec::new(), options: Options::of(declaration) }
    }

    /// Sets an option.
    pub fn option(mut self, name: &str, value: Value) -> Result<Self> {
        self.options.set(self.declaration.name, name, value)?;
        Ok(self)
    }

    /// Sets an option to one of its names.
    pub fn choose(mut self, name: &str, chosen: &str) -> Result<Self> {
        self.options.choose(self.declaration.name, name, chosen)?;
        Ok(self)
    }

    /// Adds the next operand, in memory of a device.
    pub fn with(mut self, operand: Option<(&Device, Array)>) -> Result<Self> {
        let array = match operand {
            Some((device, array)) => {
                check_device(self.declaration.name, self.stream, self.operands.len(), device)?;
                Some(array)
            }
            None => None,
        };
        self.operands.push(array);
        Ok(self)
    }

    /// Adds the next operand, to read.
    pub fn read<'m, T: Element>(self, matrix: impl Into<Option<&'m Matrix<'m, T>>>) -> Result<Self> {
        let Some(matrix) = matrix.into() else { return self.with(None) };
        let array = Array::of(self.declaration.name, matrix)?;
        self.with(Some((matrix.device(), array)))
    }

    /// Adds the next operand, to read: an array of one mode, passed as a matrix of one row.
    pub fn read_row<'m, T: Element>(self, matrix: impl Into<Option<&'m Matrix<'m, T>>>) -> Result<Self> {
        Ok(self.read(matrix)?.drop_mode(0))
    }

    /// Adds the next operand, to write.
    pub fn write<'m, 'e: 'm, T: Element>(
        self,
        matrix: impl Into<Option<&'m mut MatrixMut<'e, T>>>,
    ) -> Result<Self> {
        let Some(matrix) = matrix.into() else { return self.with(None) };
        let array = Array::of_mut(self.declaration.name, matrix)?;
        self.with(Some((matrix.device(), array)))
    }

    /// Adds the next operand, to write: an array of one mode, passed as a matrix of one row.
    pub fn write_row<'m, 'e: 'm, T: Element>(
        self,
        matrix: impl Into<Option<&'m mut MatrixMut<'e, T>>>,
    ) -> Result<Self> {
        Ok(self.write(matrix)?.drop_mode(0))
    }

    /// Drops a mode of the last operand if its extent is 1: arrays may have fewer modes than
    /// matrices.
    pub fn drop_mode(mut self, mode: usize) -> Self {
        if let Some(Some(array)) = self.operands.last_mut()
            && array.shape.get(mode) == Some(&1)
        {
            array.shape.remove(mode);
            array.strides.remove(mode);
        }
        self
    }

    /// Checks the call. Returns the name of its kernel, and what else its plan says.
    ///
    /// # Errors
    /// The errors of the operation.
    pub fn explain(self) -> Result<Cow<'static, str>> {
        let call = Call { operands: &self.operands, options: &self.options };
        self.declaration.check(&call)?;
        (self.declaration.explain)(self.stream, &call)
    }

    /// Checks the call and computes it.
    ///
    /// # Safety
    /// Until the work is complete, no other stream writes what the call reads, or accesses what it
    /// writes.
    pub unsafe fn run(self) -> Result<()> {
        let call = Call { operands: &self.operands, options: &self.options };
        self.declaration.check(&call)?;
        // SAFETY: the matrices are in their buffers, on the stream's device; the caller orders
        // other streams.
        unsafe { (self.declaration.run)(self.stream, &call) }
    }
}
