//! DLPack: imports tensors of other libraries and exports ours, both through capsules of
//! Python.
//!
//! The structures are those of `dlpack.h`, version 1.1. A producer returns a `PyCapsule` named
//! `dltensor` (before version 1) or `dltensor_versioned`, which points to a managed tensor. The
//! consumer renames the capsule, which transfers ownership, and calls the tensor's deleter when it
//! has finished.

use crate::element::Dtype;
use crate::error;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

pub const CPU: i32 = 1;
pub const CUDA: i32 = 2;
pub const CUDA_HOST: i32 = 3;
pub const CUDA_MANAGED: i32 = 13;

/// The version whose structures these are.
const VERSION: Version = Version { major: 1, minor: 1 };
/// The flag of a read-only tensor.
const READ_ONLY: u64 = 1;

const LEGACY: &CStr = c"dltensor";
const LEGACY_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLDevice`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    pub kind: i32,
    pub index: i32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    /// Null for a compact row-major tensor.
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct ManagedVersioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: Tensor,
}

/// A tensor taken over from its producer. Dropping it calls the producer's deleter.
pub struct Imported(Owned);

enum Owned {
    Legacy(NonNull<Managed>),
    Versioned(NonNull<ManagedVersioned>),
}

// SAFETY: DLPack lets a consumer call the deleter from any thread, and nothing here writes to the
// structure.
unsafe impl Send for Imported {}
// SAFETY: as above.
unsafe impl Sync for Imported {}

impl Drop for Imported {
    fn drop(&mut self) {
        match self.0 {
            Owned::Legacy(managed) => {
                // SAFETY: the capsule was renamed when it was taken over, so this is the only
                // owner, and the deleter runs once.
                unsafe {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
            }
            Owned::Versioned(managed) => {
                // SAFETY: as above.
                unsafe {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
            }
        }
    }
}

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
        .map_err(|_| error::kind(format!("__dlpack__ gave {}, and not a capsule", capsule.get_type())))?;
    if capsule.is_valid_checked(Some(VERSIONED)) {
        let managed: NonNull<ManagedVersioned> = capsule.pointer_checked(Some(VERSIONED))?.cast();
        // SAFETY: a capsule of this name points to a managed tensor, whose version stands first in
        // every version.
        let version = unsafe { managed.as_ref().version };
        if version.major != VERSION.major {
            return Err(PyBufferError::new_err(format!(
                "the array is of DLPack {}.{}, and this package reads version 1",
                version.major, version.minor
            )));
        }
        rename(capsule, VERSIONED_USED)?;
        let imported = Imported(Owned::Versioned(managed));
        // SAFETY: of version 1, so the structure is this one; it lives until its deleter is called.
        let managed = unsafe { managed.as_ref() };
        let description = describe(&managed.tensor, managed.flags & READ_ONLY != 0)?;
        return Ok((imported, description));
    }
    if !capsule.is_valid_checked(Some(LEGACY)) {
        return Err(error::kind(
            "__dlpack__ gave a capsule that holds no tensor, or one that was taken over already",
        ));
    }
    let managed: NonNull<Managed> = capsule.pointer_checked(Some(LEGACY))?.cast();
    rename(capsule, LEGACY_USED)?;
    let imported = Imported(Owned::Legacy(managed));
    // SAFETY: a capsule of this name points to a managed tensor, which lives until its deleter is
    // called.
    let description = describe(unsafe { &managed.as_ref().tensor }, false)?;
    Ok((imported, description))
}

/// Marks a capsule as taken over: its destructor then leaves the tensor alone.
fn rename(capsule: &Bound<'_, PyCapsule>, name: &'static CStr) -> PyResult<()> {
    // SAFETY: the object is a capsule, and the name lives as long as the process.
    match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), name.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

fn describe(tensor: &Tensor, is_read_only: bool) -> PyResult<Description> {
    let DataType { code, bits, lanes } = tensor.dtype;
    let dtype = Dtype::coded(code, bits).filter(|_| lanes == 1).ok_or_else(|| {
        error::kind(format!(
            "the array has elements of DLPack type ({code}, {bits} bits, {lanes} lanes); there are {}",
            Dtype::names()
        ))
    })?;
    let ndim = usize::try_from(tensor.ndim).unwrap_or(0);
    let list = |at: *mut i64| -> &[i64] {
        if ndim == 0 || at.is_null() {
            return &[];
        }
        // SAFETY: the producer's arrays have `ndim` elements and live as long as the tensor.
        unsafe { std::slice::from_raw_parts(at, ndim) }
    };
    let too_large = || error::value("the array has an extent, a stride or an offset that is not an address");
    let shape = list(tensor.shape).iter().map(|&extent| usize::try_from(extent));
    let shape = shape.collect::<Result<Vec<_>, _>>().map_err(|_| too_large())?;
    let strides = if tensor.strides.is_null() {
        compact(&shape).ok_or_else(too_large)?
    } else {
        let strides = list(tensor.strides).iter().map(|&stride| isize::try_from(stride));
        strides.collect::<Result<_, _>>().map_err(|_| too_large())?
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

/// An exported tensor's data until its deleter is called: its extents and strides, and the owner of
/// its memory.
struct Exported<M> {
    managed: M,
    _shape: Box<[i64]>,
    _strides: Box<[i64]>,
    _owner: Box<dyn Send>,
}

/// A capsule with a compact row-major tensor at an address, which `owner` keeps alive.
///
/// # Safety
/// The memory at `address` contains a tensor of this type and shape on this device, and remains
/// until `owner` is dropped, which may happen on any thread.
pub unsafe fn export<'py>(
    py: Python<'py>,
    address: usize,
    device: Device,
    dtype: &Dtype,
    shape: &[usize],
    owner: Box<dyn Send>,
    is_versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let too_large = || error::value(format!("an array of shape {shape:?} is too large"));
    let extents: Result<Box<[i64]>, _> = shape.iter().map(|&extent| i64::try_from(extent)).collect();
    let mut extents = extents.map_err(|_| too_large())?;
    let strides = compact(shape).ok_or_else(too_large)?;
    let mut strides: Box<[i64]> = strides.iter().map(|&stride| stride as i64).collect();
    let tensor = Tensor {
        data: std::ptr::with_exposed_provenance_mut(address),
        device,
        ndim: shape.len() as i32,
        dtype: DataType { code: dtype.code, bits: dtype.bits, lanes: 1 },
        // The heap addresses remain when the boxes move.
        shape: extents.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let (pointer, name, destructor): (*mut c_void, _, ffi::PyCapsule_Destructor) = if is_versioned {
        let managed = ManagedVersioned {
            version: VERSION,
            context: std::ptr::null_mut(),
            deleter: Some(delete_versioned),
            flags: 0,
            tensor,
        };
        let exported = Box::new(Exported { managed, _shape: extents, _strides: strides, _owner: owner });
        let exported = Box::into_raw(exported);
        // SAFETY: just allocated; the deleter finds the whole by this address.
        unsafe { (*exported).managed.context = exported.cast() };
        // SAFETY: as above.
        (unsafe { &raw mut (*exported).managed }.cast(), VERSIONED, destroy_versioned)
    } else {
        let managed = Managed { tensor, context: std::ptr::null_mut(), deleter: Some(delete_legacy) };
        let exported = Box::new(Exported { managed, _shape: extents, _strides: strides, _owner: owner });
        let exported = Box::into_raw(exported);
        // SAFETY: as above.
        unsafe { (*exported).managed.context = exported.cast() };
        // SAFETY: as above.
        (unsafe { &raw mut (*exported).managed }.cast(), LEGACY, destroy_legacy)
    };
    // SAFETY: the pointer is not null, and the name lives as long as the process.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor))) }
}

/// # Safety
/// `managed` was created by [`export`] in this form, and is not used afterwards.
unsafe extern "C" fn delete_legacy(managed: *mut Managed) {
    // SAFETY: the context is the address that `Box::into_raw` returned.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Exported<Managed>>()) });
}

/// # Safety
/// As for [`delete_legacy`].
unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as above.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Exported<ManagedVersioned>>()) });
}

/// Frees a tensor that nothing has taken over.
///
/// # Safety
/// Called by Python with a capsule of [`export`].
unsafe extern "C" fn destroy_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that still has this name still owns its tensor.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            delete_legacy(ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
        }
    }
}

/// # Safety
/// As for [`destroy_legacy`].
unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}
