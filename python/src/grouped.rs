//! Lists of products of different shapes in one launch: written by hand, because a declared operand
//! is one array, not a list of them.

use crate::arguments::{self, taken};
use crate::device::{Place, target};
use crate::operand::Operand;
use crate::tensor::{Tensor, gathered};
use crate::{error, work};
use moye::half::{bf16, f16};
use moye::{Device, Element, Matrix, MatrixMut, Stream};
use moye_products::grouped::GroupedList;
use pyo3::prelude::*;

/// Operands of one kind.
type Operands<'a, 'py> = &'a [PyRef<'py, Operand>];

/// Writes the products of `a[i]`, (m, k), and the transpose of `b[i]`, (n, k), to `out[i]`, and
/// waits for them: the list's table is freed then.
#[pyfunction]
#[pyo3(signature = (a, b, out, *, device, stream))]
pub fn grouped_list(
    py: Python<'_>,
    a: Vec<PyRef<'_, Operand>>,
    b: Vec<PyRef<'_, Operand>>,
    out: Vec<PyRef<'_, Operand>>,
    device: &Bound<'_, PyAny>,
    stream: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let device: Option<String> = taken(device, "device", arguments::DEVICE, |device| device.extract())?;
    let stream = taken(stream, "stream", arguments::STREAM, |stream| stream.extract())?;
    if a.len() != b.len() || a.len() != out.len() {
        let (a, b, out) = (a.len(), b.len(), out.len());
        return Err(error::value(format!(
            "a has {a} arrays, b {b} and out {out}; give one of each a product"
        )));
    }
    let Some(first) = a.first() else { return Ok(()) };
    let mut all: Vec<(String, &Operand)> = Vec::with_capacity(3 * a.len());
    for (name, list) in [("a", &a), ("b", &b), ("out", &out)] {
        all.extend(list.iter().enumerate().map(|(i, operand)| (format!("{name}[{i}]"), &**operand)));
    }
    for (name, operand) in &all {
        operand.expect_place(name, "a[0]", first.place)?;
        operand.expect_dtype(name, first.dtype.name)?;
        operand.matrix(name)?;
    }
    for (i, result) in out.iter().enumerate() {
        let name = format!("out[{i}]");
        result.expect_writable(&name)?;
        if let Place::Gpu(_) = first.place {
            for (other_name, other) in all.iter().filter(|(other, _)| *other != name) {
                result.expect_apart(&name, other_name, other)?;
            }
        }
    }
    let (device, stream) = target(first.place, device.as_deref(), stream)?;
    match first.dtype.name {
        "float16" => multiply::<f16>(py, &device, &stream, [&a, &b, &out]),
        "bfloat16" => multiply::<bf16>(py, &device, &stream, [&a, &b, &out]),
        other => Err(error::kind(format!(
            "a[0] has elements of {other}, and must have float16 or bfloat16; convert it"
        ))),
    }
}

fn multiply<T: Element>(
    py: Python<'_>,
    device: &Device,
    stream: &Stream,
    [a, b, out]: [Operands<'_, '_>; 3],
) -> PyResult<()> {
    let read = |name: &str, operands: Operands<'_, '_>| {
        let tensor = |(i, operand): (usize, &PyRef<'_, Operand>)| {
            Ok((rows::<T>(device, operand, &format!("{name}[{i}]"))?, extents(operand)))
        };
        operands.iter().enumerate().map(tensor).collect::<PyResult<Vec<_>>>()
    };
    let (a, b) = (read("a", a)?, read("b", b)?);
    let mut results = Vec::with_capacity(out.len());
    for (i, operand) in out.iter().enumerate() {
        results.push((Tensor::<T>::written(device, operand, &format!("out[{i}]"))?, extents(operand)));
    }
    work::run(py, device, || {
        let pairs = a.iter().zip(&b);
        let pairs = pairs.map(|((a, of_a), (b, of_b))| Ok((matrix(a, *of_a)?, matrix(b, *of_b)?)));
        let pairs = pairs.collect::<moye::Result<Vec<_>>>()?;
        let to = results.iter_mut().map(|(tensor, extents)| matrix_mut(tensor, *extents));
        let list = GroupedList::new(device, &pairs, to.collect::<moye::Result<Vec<_>>>()?)?;
        // SAFETY: on a GPU the library of the arrays launches what uses them on this stream. The
        // list lives until the work is complete.
        unsafe { list.run_on(stream)? };
        stream.synchronize()
    })?;
    out.iter().zip(&results).try_for_each(|(operand, (result, _))| result.give_back(operand))
}

/// A tensor of two modes as a matrix.
pub fn matrix<T: Element>(tensor: &Tensor<T>, [rows, columns]: [usize; 2]) -> moye::Result<Matrix<'_, T>> {
    let [row, column] = [tensor.strides[0], tensor.strides[1]];
    Matrix::new(tensor.buffer.slice(..)?, rows, columns, (row, column))
}

/// Same as [`matrix`], for writing.
pub fn matrix_mut<T: Element>(
    tensor: &mut Tensor<T>,
    [rows, columns]: [usize; 2],
) -> moye::Result<MatrixMut<'_, T>> {
    let [row, column] = [tensor.strides[0], tensor.strides[1]];
    MatrixMut::new(tensor.buffer.slice_mut(..)?, rows, columns, (row, column))
}

fn extents(operand: &Operand) -> [usize; 2] {
    [operand.shape[0], operand.shape[1]]
}

/// The elements of an operand: those of an array on the host in rows that begin at multiples of 16
/// bytes, as TMA takes them.
fn rows<T: Element>(device: &Device, operand: &Operand, name: &str) -> PyResult<Tensor<T>> {
    if let Place::Gpu(_) = operand.place {
        return Tensor::read(device, operand, name);
    }
    let ((elements, strides), [count, columns]) = (gathered::<T>(operand), extents(operand));
    let row = columns.next_multiple_of(16 / size_of::<T>());
    // Elements past the end of a row are not read.
    let element = |i: usize| elements[i / row * strides[0] + (i % row).min(columns - 1) * strides[1]];
    let padded: Vec<T> = if columns == 0 { Vec::new() } else { (0..count * row).map(element).collect() };
    Ok(Tensor { buffer: device.upload(&padded).map_err(error::raised)?, strides: vec![row, 1] })
}
