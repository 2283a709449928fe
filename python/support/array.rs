//! Arrays of this package: results for libraries whose arrays it cannot create.

use crate::device::{self, Place};
use crate::dlpack;
use crate::element::Dtype;
use crate::error;
use moye_runtime::Buffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::UnsafeCell;
use std::sync::Arc;

/// A row-major array on the host or on a GPU, which other libraries take over by `from_dlpack`.
///
/// `device` is a GPU's index, or None for the host. The elements are unspecified initially, or
/// equal `value`: 0, or any number for float32.
#[pyclass(frozen, module = "moye")]
pub struct Array {
    shape: Vec<usize>,
    dtype: &'static Dtype,
    place: Place,
    memory: Arc<Memory>,
}

/// 256 bytes, aligned as DLPack recommends. Other libraries write them, through their address.
#[repr(align(256))]
struct Line(#[allow(dead_code, reason = "only its address is used")] UnsafeCell<[u8; 256]>);

// SAFETY: nothing here accesses the bytes. The libraries that do received the array from Python,
// and order their accesses as for every array.
unsafe impl Sync for Line {}

enum Memory {
    Host(Vec<Line>),
    Gpu(Buffer<u8>),
}

impl Memory {
    fn address(&self) -> usize {
        match self {
            Self::Host(lines) => lines.as_ptr().expose_provenance(),
            Self::Gpu(buffer) => buffer.address() as usize,
        }
    }
}

#[pymethods]
impl Array {
    #[new]
    #[pyo3(signature = (shape, dtype, device=None, value=None))]
    fn new(shape: Vec<usize>, dtype: &str, device: Option<u32>, value: Option<f32>) -> PyResult<Self> {
        let dtype = Dtype::named(dtype).ok_or_else(|| {
            error::kind(format!("there are no elements of type {dtype}; there are {}", Dtype::names()))
        })?;
        let bytes = shape.iter().try_fold(dtype.bytes(), |bytes, &extent| bytes.checked_mul(extent));
        let bytes = bytes.filter(|&bytes| isize::try_from(bytes).is_ok()).ok_or_else(|| {
            error::value(format!("an array of shape {shape:?} is larger than the address space"))
        })?;
        if let Some(value) = value.filter(|&value| value != 0.0 && dtype.name != "float32") {
            return Err(error::value(format!("elements of {} cannot be {value} at first", dtype.name)));
        }
        let pattern = value.unwrap_or(0.0).to_bits().to_le_bytes();
        let line: [u8; 256] = std::array::from_fn(|at| pattern[at % 4]);
        let (place, memory) = match device {
            None => (
                Place::Host,
                Memory::Host((0..bytes.div_ceil(256)).map(|_| Line(UnsafeCell::new(line))).collect()),
            ),
            Some(index) => {
                let device = device::of_gpu(index, None)?;
                let memory = match value {
                    None => device.alloc_uninit(bytes),
                    Some(_) => device.upload(&(0..bytes).map(|at| pattern[at % 4]).collect::<Vec<u8>>()),
                };
                (Place::Gpu(index), Memory::Gpu(memory.map_err(error::raised)?))
            }
        };
        Ok(Self { shape, dtype, place, memory: Arc::new(memory) })
    }

    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The element type's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name
    }

    fn __repr__(&self) -> String {
        format!(
            "moye.Array({}, {}, on {})",
            moye_runtime::operation::shape_text(&self.shape),
            self.dtype.name,
            self.place
        )
    }

    /// DLPack's (device type, device index).
    fn __dlpack_device__(&self) -> (i32, i32) {
        let device = self.device();
        (device.device_type.0 as i32, device.device_id)
    }

    /// A capsule of DLPack.
    ///
    /// On a GPU the consumer's stream (1: the legacy default one, which None means too; -1: no
    /// synchronisation) waits for what was launched on the legacy default stream.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if dl_device.is_some_and(|device| device != self.__dlpack_device__()) || copy == Some(true) {
            return Err(PyBufferError::new_err(format!(
                "the array is on {} and is handed over without a copy; copy it by the library that takes it",
                self.place
            )));
        }
        match (self.place, stream) {
            (Place::Host, Some(stream)) if stream != -1 => {
                return Err(error::value(format!(
                    "stream is {stream}, and the array is on the host, which has no streams"
                )));
            }
            (Place::Gpu(index), Some(consumer)) if !matches!(consumer, -1..=1) => {
                let device = device::of_gpu(index, None)?;
                // SAFETY: null is the legacy default stream; the consumer's stream is alive while
                // it takes the array over.
                let (own, consumer) = unsafe {
                    (device::stream(&device, index, 0)?, device::stream(&device, index, consumer as u64)?)
                };
                own.record().and_then(|event| consumer.wait(&event)).map_err(error::raised)?;
            }
            _ => {}
        }
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        let export = dlpack::Export {
            address: self.memory.address(),
            device: self.device(),
            dtype: self.dtype,
            shape: &self.shape,
            owner: Box::new(Arc::clone(&self.memory)),
        };
        // SAFETY: the memory has the bytes of the shape, and `owner` keeps it.
        unsafe { export.into_capsule(py, is_versioned) }
    }
}

impl Array {
    fn device(&self) -> dlpack::Device {
        match self.place {
            Place::Host => dlpack::Device::CPU,
            Place::Gpu(index) => dlpack::Device::cuda(index as i32),
        }
    }
}
