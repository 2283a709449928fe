//! Arrays of other libraries as operands: the address, type, extents and strides of their elements.

use crate::device::Place;
use crate::dlpack::{self, DeviceType, Imported};
use crate::element::Dtype;
use crate::error;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

/// An array of another library, taken over for one call.
#[pyclass(frozen, module = "moye._moye")]
pub struct Operand {
    pub place: Place,
    pub address: usize,
    pub dtype: &'static Dtype,
    pub shape: Vec<usize>,
    /// In elements.
    pub strides: Vec<isize>,
    pub is_read_only: bool,
    /// Keeps the array alive; the operand may hold its last reference.
    _owner: Owner,
}

enum Owner {
    Capsule(#[allow(dead_code, reason = "it is dropped")] Imported),
    Array(#[allow(dead_code, reason = "it is dropped")] Py<PyAny>),
}

#[pymethods]
impl Operand {
    /// From an object with `__dlpack__`.
    ///
    /// stream: passed to `__dlpack__`.
    #[staticmethod]
    #[pyo3(signature = (array, stream=None))]
    fn from_dlpack(array: &Bound<'_, PyAny>, stream: Option<i64>) -> PyResult<Self> {
        let py = array.py();
        let arguments = PyDict::new(py);
        if let Some(stream) = stream {
            arguments.set_item("stream", stream)?;
        }
        arguments.set_item("max_version", (1, 1))?;
        let capsule = match array.call_method("__dlpack__", (), Some(&arguments)) {
            // A producer from before version 1 does not accept the argument.
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
                let arguments = stream.map(|stream| [("stream", stream)].into_py_dict(py)).transpose()?;
                array.call_method("__dlpack__", (), arguments.as_ref())?
            }
            capsule => capsule?,
        };
        let (imported, description) = dlpack::import(&capsule)?;
        let place = match description.device.device_type {
            DeviceType::CPU | DeviceType::CUDAHOST => Place::Host,
            DeviceType::CUDA | DeviceType::CUDAMANAGED => {
                Place::Gpu(description.device.device_id.unsigned_abs())
            }
            DeviceType(kind) => {
                return Err(PyBufferError::new_err(format!(
                    "the array is on the device of DLPack's type {kind}; it must be on the host (1) or on a CUDA GPU (2)"
                )));
            }
        };
        Ok(Self {
            place,
            address: description.address,
            dtype: description.dtype,
            strides: meaningful(&description.shape, description.strides),
            shape: description.shape,
            is_read_only: description.is_read_only,
            _owner: Owner::Capsule(imported),
        })
    }

    /// From a tensor of PyTorch by its fields, without DLPack's calls into PyTorch.
    ///
    /// `address`, `shape` and `strides` (in elements) are those of `owner`, which is kept alive;
    /// `gpu` is its GPU, or None for the host.
    #[staticmethod]
    fn from_tensor(
        owner: Py<PyAny>,
        address: usize,
        gpu: Option<u32>,
        dtype: &str,
        shape: Vec<usize>,
        strides: Vec<isize>,
    ) -> PyResult<Self> {
        let dtype = Dtype::named(dtype).ok_or_else(|| unknown(dtype))?;
        let place = gpu.map_or(Place::Host, Place::Gpu);
        let strides = meaningful(&shape, strides);
        Ok(Self { place, address, dtype, shape, strides, is_read_only: false, _owner: Owner::Array(owner) })
    }

    /// From a NumPy array by its fields: NumPy's `__dlpack__` refuses bfloat16, 8-bit floats and,
    /// before version 2.1, read-only arrays.
    ///
    /// `address`, `shape` and `strides` (in bytes) are those of `owner`, which is kept alive.
    #[staticmethod]
    fn from_host(
        owner: Py<PyAny>,
        address: usize,
        is_read_only: bool,
        dtype: &str,
        shape: Vec<usize>,
        strides: Vec<isize>,
    ) -> PyResult<Self> {
        let dtype = Dtype::named(dtype).ok_or_else(|| unknown(dtype))?;
        let bytes = dtype.bytes() as isize;
        let is_used = |extent: usize| extent > 1 && !shape.contains(&0);
        let mut used = shape.iter().zip(&strides).filter(|&(&extent, _)| is_used(extent));
        if let Some((_, stride)) = used.find(|&(_, stride)| stride % bytes != 0) {
            return Err(error::value(format!(
                "the array has a stride of {stride} bytes, which is not a multiple of its elements' {bytes}; copy it first"
            )));
        }
        let strides = meaningful(&shape, strides.into_iter().map(|stride| stride / bytes).collect());
        Ok(Self {
            place: Place::Host,
            address,
            dtype,
            shape,
            strides,
            is_read_only,
            _owner: Owner::Array(owner),
        })
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        pyo3::types::PyTuple::new(py, &self.shape)
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name
    }

    /// The GPU's index; None for the host.
    #[getter]
    fn gpu(&self) -> Option<u32> {
        match self.place {
            Place::Host => None,
            Place::Gpu(index) => Some(index),
        }
    }
}

/// The names of the element types.
#[pyfunction]
pub fn element_types() -> Vec<&'static str> {
    Dtype::all_names().collect()
}

/// Replaces the strides along which there is no second element, those of extents of 1 and of an
/// empty array, by those of a compact array: libraries set them to any value.
fn meaningful(shape: &[usize], mut strides: Vec<isize>) -> Vec<isize> {
    let Some(compact) = dlpack::compact(shape) else { return strides };
    if shape.contains(&0) {
        return compact;
    }
    for ((stride, compact), &extent) in strides.iter_mut().zip(compact).zip(shape) {
        if extent == 1 {
            *stride = compact;
        }
    }
    strides
}

fn unknown(dtype: &str) -> PyErr {
    error::kind(format!("there are no elements of type {dtype}; there are {}", Dtype::names()))
}

impl Operand {
    /// The strides in elements, as arrays of the runtime have them.
    pub fn strides(&self) -> Vec<i64> {
        self.strides.iter().map(|&stride| stride as i64).collect()
    }

    /// The rows and columns of a matrix.
    pub fn matrix(&self, name: &str) -> PyResult<[usize; 2]> {
        self.shape.as_slice().try_into().map_err(|_| {
            error::value(format!(
                "{name} has shape {}, and must be of two modes; reshape it",
                self.shape_text()
            ))
        })
    }

    /// The shape as Python writes it.
    pub fn shape_text(&self) -> String {
        moye_runtime::operation::shape_text(&self.shape)
    }

    /// Returns an error for elements of another type.
    pub fn expect_dtype(&self, name: &str, wanted: &str) -> PyResult<()> {
        if self.dtype.name == wanted {
            return Ok(());
        }
        Err(error::kind(format!(
            "{name} has elements of {}, and must have {wanted}; convert it",
            self.dtype.name
        )))
    }

    /// Returns an error for an array elsewhere.
    pub fn expect_place(&self, name: &str, other: &str, place: Place) -> PyResult<()> {
        if self.place == place {
            return Ok(());
        }
        Err(error::value(format!(
            "{name} is on {}, and {other} on {place}; all arrays of a call must be on one device",
            self.place
        )))
    }

    /// Returns an error for an array that is read-only, or has an element at several indices.
    pub fn expect_writable(&self, name: &str) -> PyResult<()> {
        if self.is_read_only {
            return Err(error::value(format!("{name} is read-only; give an array that may be written")));
        }
        if !self.is_injective() {
            return Err(error::value(format!(
                "{name} of shape {} with strides {:?} has elements that share memory; give an array without such",
                self.shape_text(),
                self.strides
            )));
        }
        Ok(())
    }

    /// Whether no two elements share memory. If there are many elements, in the order of strides
    /// each stride must exceed the reach of all smaller ones, which is sufficient.
    fn is_injective(&self) -> bool {
        const FEW: usize = 1 << 16;
        self.has_growing_strides()
            || self.shape.iter().try_fold(1, |all: usize, &extent| all.checked_mul(extent)) <= Some(FEW)
                && self.has_distinct_offsets()
    }

    /// Whether the offsets of all elements differ.
    fn has_distinct_offsets(&self) -> bool {
        let mut offsets = vec![0isize];
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let along = |&offset: &isize| {
                (0..extent as isize).map(move |i| offset.wrapping_add(stride.wrapping_mul(i)))
            };
            offsets = offsets.iter().flat_map(along).collect();
        }
        let distinct: std::collections::HashSet<_> = offsets.iter().collect();
        distinct.len() == offsets.len()
    }

    /// Whether in the order of strides each stride exceeds the reach of all smaller ones.
    fn has_growing_strides(&self) -> bool {
        let modes = self.shape.iter().zip(&self.strides).filter(|&(&extent, _)| extent > 1);
        let mut modes: Vec<_> =
            modes.map(|(&extent, stride)| (stride.unsigned_abs() as u128, extent as u128)).collect();
        modes.sort_unstable();
        let mut reach = 0;
        self.shape.contains(&0)
            || modes.into_iter().all(|(stride, extent)| {
                let is_above = stride > reach;
                reach += stride * (extent - 1);
                is_above
            })
    }

    /// The addresses of the elements, from the lowest byte to past the highest.
    pub fn range(&self) -> std::ops::Range<usize> {
        if self.shape.contains(&0) {
            return self.address..self.address;
        }
        let (mut low, mut high) = (0isize, 0isize);
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let reach = stride.saturating_mul(extent as isize - 1);
            low = low.saturating_add(reach.min(0));
            high = high.saturating_add(reach.max(0));
        }
        let bytes = self.dtype.bytes() as isize;
        let at = |offset: isize| self.address.saturating_add_signed(offset.saturating_mul(bytes));
        at(low)..at(high.saturating_add(1))
    }

    /// Returns an error for two arrays that share memory, one of which is written.
    ///
    /// Arrays of the same row stride side by side, columns of one matrix, share none.
    pub fn expect_apart(&self, name: &str, other_name: &str, other: &Self) -> PyResult<()> {
        let (own, others) = (self.range(), other.range());
        let apart = own.is_empty() || others.is_empty() || own.end <= others.start || others.end <= own.start;
        if apart || self.is_beside(other) {
            return Ok(());
        }
        Err(error::value(format!(
            "{name} shares memory with {other_name}; the result cannot be written over what is read"
        )))
    }

    /// Whether both are columns of one row-major matrix, or rows of a column-major one, and have
    /// none in common.
    fn is_beside(&self, other: &Self) -> bool {
        let (&[_, _], &[_, _]) = (self.shape.as_slice(), other.shape.as_slice()) else { return false };
        let bytes = self.dtype.bytes();
        [[0, 1], [1, 0]].into_iter().any(|[outer, inner]| {
            let pitch = self.strides[outer];
            if self.dtype.bits != other.dtype.bits || pitch != other.strides[outer] || pitch <= 0 {
                return false;
            }
            let pitch = pitch as usize * bytes;
            let width = |of: &Self| {
                (of.strides[inner] >= 0)
                    .then(|| (of.shape[inner].saturating_sub(1) * of.strides[inner] as usize + 1) * bytes)
            };
            let (Some(own), Some(others)) = (width(self), width(other)) else { return false };
            // The offset of the other's line within the lines of this one.
            let (first, second, own, others) = match self.address <= other.address {
                true => (self.address, other.address, own, others),
                false => (other.address, self.address, others, own),
            };
            let shift = (second - first) % pitch;
            own <= shift && shift + others <= pitch
        })
    }
}
