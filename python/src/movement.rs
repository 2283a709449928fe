//! Copies and transposes of arrays.

use crate::arguments::{self, taken};
use crate::device::{Place, target};
use crate::operand::{Batched, Operand, shape_text};
use crate::resident::Resident;
use crate::{error, work};
use moye::operation::{ArrayType, Dtype, Options};
use moye::{Device, Element, Stream};
use pyo3::prelude::*;

/// Writes `x` to `out`, of the same shape; with `transposed`, with the last two modes of `x`
/// swapped. Elements are moved as words: Python's side compares the types.
#[pyfunction]
#[pyo3(signature = (x, out, *, transposed, device, stream))]
pub fn copy(
    py: Python<'_>,
    x: &Operand,
    out: &Operand,
    transposed: bool,
    device: &Bound<'_, PyAny>,
    stream: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let device: Option<String> = taken(device, "device", arguments::DEVICE, |device| device.extract())?;
    let stream = taken(stream, "stream", arguments::STREAM, |stream| stream.extract())?;
    let declaration = if transposed { &moye::TRANSPOSE } else { &moye::COPY };
    // Any type: elements are moved as words.
    let ty = ArrayType { dtype: Dtype::U8, shape: x.shape.clone() };
    let results = (declaration.results)(&[Some(ty)], &Options::of(declaration)).map_err(error::raised)?;
    let wanted = &results[0].shape;
    if out.shape != *wanted {
        return Err(error::value(format!(
            "x has shape {}, so out must have {}, and has {}",
            x.shape_text(),
            shape_text(wanted),
            out.shape_text()
        )));
    }
    let (from, to) = (modes("x", x)?, modes("out", out)?);
    out.expect_place("out", "x", x.place)?;
    out.expect_writable("out")?;
    if let Place::Gpu(_) = x.place {
        out.expect_apart("out", "x", x)?;
    }
    if out.dtype.bits != x.dtype.bits {
        out.expect_dtype("out", x.dtype.name)?;
    }
    let (device, stream) = target(x.place, device.as_deref(), stream)?;
    let call = Call { device: &device, stream: &stream, x, out, from, to, transposed };
    match x.dtype.bits {
        8 => moved::<u8>(py, call),
        16 => moved::<u16>(py, call),
        32 => moved::<u32>(py, call),
        64 => moved::<u64>(py, call),
        _ => moved::<u128>(py, call),
    }
}

/// The modes of an operand as those of batches of matrices.
fn modes(name: &str, operand: &Operand) -> PyResult<Batched> {
    match (operand.shape.as_slice(), operand.strides.as_slice()) {
        (&[], &[]) => Ok(Batched { shape: [1; 3], strides: [0; 3] }),
        (&[extent], &[stride]) => Ok(Batched { shape: [1, 1, extent], strides: [0, 0, stride] }),
        _ => operand.matrices(name, "(M, N) or (batches, M, N)"),
    }
}

/// A copy or a transpose of `x`, with modes `from`, to `out`, with modes `to`.
struct Call<'a> {
    device: &'a Device,
    stream: &'a Stream,
    x: &'a Operand,
    out: &'a Operand,
    from: Batched,
    to: Batched,
    transposed: bool,
}

fn moved<T: Element>(py: Python<'_>, call: Call<'_>) -> PyResult<()> {
    let Call { device, stream, x, out, from, to, transposed } = call;
    let source = Resident::<T>::read(device, x, from, "x")?;
    let mut result = Resident::<T>::written(device, out, to, "out")?;
    work::run(py, device, || {
        for batch in 0..source.batch().0 {
            let (source, result) = (source.matrix(batch)?, &mut result.matrix_mut(batch)?);
            // SAFETY: `out` shares no memory with `x`. On a GPU the library of both launches what
            // uses them on this stream.
            unsafe {
                match transposed {
                    true => moye::transpose_on(stream, &source, result)?,
                    false => moye::copy_on(stream, &source, result)?,
                }
            }
        }
        Ok(())
    })?;
    result.give_back(out, to)
}
