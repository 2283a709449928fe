//! DLPack: imports tensors of other libraries and exports ours, both through capsules of
//! Python.
//!
//! A producer returns a `PyCapsule` named `dltensor` (before version 1) or `dltensor_versioned`,
//! which points to a managed tensor. The consumer renames the capsule, which transfers ownership,
//! and calls the tensor's deleter when it has finished.

use crate::element::Dtype;
use crate::error;
use dlpark::ffi::{
    DLDataType, DLDataTypeCode, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
};
use dlpark::metadata::Dynamic;
use dlpark::{AllocationDeleter, DlpackFlags, Managed, ManagedTensorBase};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};
use std::ffi::CStr;

pub use dlpark::ffi::{DLDevice as Device, DLDeviceType as DeviceType};

const LEGACY: &CStr = c"dltensor";
const LEGACY_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// A tensor taken over from its producer. Dropping it calls the producer's deleter.
pub type Imported = AllocationDeleter;

/// Shape, strides, type, device and address of an imported tensor.
pub struct Description {
    pub address: usize,
    pub device: Device,
    pub dtype: &'static Dtype,
    pub shape: Vec<usize>,
    /// In elements.
    pub strides: Vec<isize>,
    pub is_read_only: bool,
}

/// Takes over the tensor in a capsule.
///
/// # Errors
/// `TypeError` for an object that is not a DLPack capsule or a tensor of an unknown element type,
/// `BufferError` for a major version other than 1, `ValueError` for extents or strides that do not
/// fit an address.
pub fn import(capsule: &Bound<'_, PyAny>) -> PyResult<(Imported, Description)> {
    let capsule = capsule
        .cast::<PyCapsule>()
        .map_err(|_| error::kind(format!("__dlpack__ returned {}, and not a capsule", capsule.get_type())))?;
    if capsule.is_valid_checked(Some(VERSIONED)) {
        let managed = capsule.pointer_checked(Some(VERSIONED))?.cast::<DLManagedTensorVersioned>();
        // SAFETY: a capsule of this name points to a managed tensor, whose version stands first in
        // every version.
        let version = unsafe { (&raw const (*managed.as_ptr()).version).read() };
        if version.major != DLPackVersion::CURRENT.major {
            return Err(PyBufferError::new_err(format!(
                "the array is of DLPack {}.{}, and this package reads version 1",
                version.major, version.minor
            )));
        }
        // SAFETY: of version 1, so the structure is this one.
        return unsafe { take(capsule, managed.as_ptr(), VERSIONED_USED) };
    }
    if !capsule.is_valid_checked(Some(LEGACY)) {
        return Err(error::kind(
            "__dlpack__ returned a capsule that holds no tensor, or one that was taken over already",
        ));
    }
    let managed = capsule.pointer_checked(Some(LEGACY))?.cast::<DLManagedTensor>();
    // SAFETY: a capsule of this name points to such a tensor.
    unsafe { take(capsule, managed.as_ptr(), LEGACY_USED) }
}

/// Takes over `managed`, and gives its capsule the name `used`, by which the capsule's destructor
/// leaves the tensor alone.
///
/// # Safety
/// The capsule contains `managed`, which nothing has taken over.
unsafe fn take<M: ManagedTensorBase>(
    capsule: &Bound<'_, PyCapsule>,
    managed: *mut M,
    used: &'static CStr,
) -> PyResult<(Imported, Description)> {
    // SAFETY: the object is a capsule, and the name lives as long as the process.
    if unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) } != 0 {
        return Err(PyErr::fetch(capsule.py()));
    }
    // SAFETY: the capsule was renamed, so this is the only owner.
    let managed = unsafe { Managed::from_raw(managed) };
    let managed = managed.map_err(|error| PyBufferError::new_err(error.to_string()))?;
    // SAFETY: the producer writes to the tensor no more.
    let description =
        describe(unsafe { managed.tensor() }, managed.flags().contains(DlpackFlags::READ_ONLY))?;
    Ok((managed.into_deleter(), description))
}

fn describe(tensor: &DLTensor, is_read_only: bool) -> PyResult<Description> {
    let DLDataType { code: DLDataTypeCode(code), bits, lanes } = tensor.dtype;
    let dtype = Dtype::coded(code, bits).filter(|_| lanes == 1).ok_or_else(|| {
        error::kind(format!(
            "the array has elements of DLPack type ({code}, {bits} bits, {lanes} lanes); there are {}",
            Dtype::names()
        ))
    })?;
    let too_large = || error::value("the array has an extent, a stride or an offset that is not an address");
    // SAFETY: the producer's arrays have an element for each dimension and live as long as the
    // tensor.
    let (extents, strides) = unsafe { (tensor.shape(), tensor.strides()) };
    let shape = extents.map_err(|_| too_large())?.iter().map(|&extent| usize::try_from(extent));
    let shape = shape.collect::<Result<Vec<_>, _>>().map_err(|_| too_large())?;
    let strides = match strides.map_err(|_| too_large())? {
        None => compact(&shape).ok_or_else(too_large)?,
        Some(strides) => {
            let strides = strides.iter().map(|&stride| isize::try_from(stride));
            strides.collect::<Result<_, _>>().map_err(|_| too_large())?
        }
    };
    let offset = usize::try_from(tensor.byte_offset).map_err(|_| too_large())?;
    let address = tensor.data.addr().checked_add(offset).ok_or_else(too_large)?;
    Ok(Description { address, device: tensor.device, dtype, shape, strides, is_read_only })
}

/// The strides of a compact row-major tensor.
pub fn compact(shape: &[usize]) -> Option<Vec<isize>> {
    let mut strides = vec![0; shape.len()];
    let mut next = 1isize;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = next;
        next = next.checked_mul(isize::try_from(extent.max(1)).ok()?)?;
    }
    Some(strides)
}

/// A compact row-major tensor to export: where its elements are, and what keeps them.
pub struct Export<'a> {
    pub address: usize,
    pub device: Device,
    pub dtype: &'a Dtype,
    pub shape: &'a [usize],
    pub owner: Box<dyn Send>,
}

impl Export<'_> {
    /// A capsule with the tensor.
    ///
    /// # Safety
    /// The memory at `address` contains a tensor of this type and shape on this device, and remains
    /// until `owner` is dropped, which may happen on any thread.
    pub unsafe fn into_capsule(self, py: Python<'_>, is_versioned: bool) -> PyResult<Bound<'_, PyAny>> {
        // SAFETY: as for this function.
        unsafe {
            if is_versioned {
                self.managed::<DLManagedTensorVersioned>()?.into_pyobject(py)
            } else {
                self.managed::<DLManagedTensor>()?.into_pyobject(py)
            }
        }
    }

    /// # Safety
    /// Same contract as [`Self::into_capsule`].
    unsafe fn managed<M: ManagedTensorBase>(self) -> PyResult<Managed<M>> {
        let strides = compact(self.shape);
        let shape = self.shape.to_vec();
        let too_large = || error::value(format!("an array of shape {:?} is too large", self.shape));
        let prepared = Dynamic::new(shape, strides.ok_or_else(too_large)?).prepare_as::<M>();
        let mut tensor = prepared.map_err(|_| too_large())?.initialize(Box::new(self.owner));
        let dtype = DLDataType::scalar(DLDataTypeCode(self.dtype.code), self.dtype.bits);
        tensor.set_data(std::ptr::with_exposed_provenance_mut(self.address));
        tensor.set_device(self.device).set_dtype(dtype);
        // SAFETY: as for this function; the extents and strides are in the tensor's allocation.
        Ok(unsafe { tensor.finish() })
    }
}
