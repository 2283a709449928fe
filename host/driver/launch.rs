//! Launches with attributes: clusters of blocks, and programmatic dependent launch (PDL).
//!
//! The driver's function for them (`cuLaunchKernelEx`, CUDA 11.8) is newer than `cust`'s bindings.
//! The structures are those of NVIDIA's "CUDA Driver API": `CUlaunchConfig` and
//! `CUlaunchAttribute`.

use super::code::{DriverCode, check, known};
use super::library::Symbol;
use super::sys::{CUfunction, CUstream};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`
const CLUSTER_DIMENSION: c_int = 4;
/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`
const PROGRAMMATIC_STREAM_SERIALIZATION: c_int = 6;

/// `CUlaunchAttribute`: an id and a union of 64 bytes. These attributes use the union's first
/// words.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Attribute {
    id: c_int,
    padding: u32,
    value: [u32; 16],
}

impl Attribute {
    fn new(id: c_int, first: &[u32]) -> Self {
        let mut value = [0; 16];
        value[..first.len()].copy_from_slice(first);
        Self { id, padding: 0, value }
    }
}

/// `CUlaunchConfig`
#[repr(C)]
struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: CUstream,
    attributes: *mut Attribute,
    count: u32,
}

/// The launch configuration.
#[derive(Clone, Copy)]
pub struct Extents {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    pub cluster: [u32; 3],
    /// Whether the kernel may start before its predecessor on the stream completes (PDL).
    pub dependent: bool,
    /// Dynamic shared memory, in bytes.
    pub shared_bytes: u32,
}

/// Launches a function.
///
/// # Safety
/// The context of the function and the stream is current; `parameters` are the addresses of the
/// function's parameters, in order; the contract of the kernel holds.
pub unsafe fn launch(
    function: CUfunction,
    extents: &Extents,
    stream: CUstream,
    parameters: &[*mut c_void],
) -> Result<(), DriverCode> {
    static LAUNCH: Symbol = Symbol::new("cuLaunchKernelEx");
    type Launch =
        unsafe extern "C" fn(*const Config, CUfunction, *const *mut c_void, *mut *mut c_void) -> c_int;
    let mut attributes = [Attribute::new(0, &[]); 2];
    let mut count = 0;
    if extents.cluster != [1; 3] {
        attributes[count] = Attribute::new(CLUSTER_DIMENSION, &extents.cluster);
        count += 1;
    }
    if extents.dependent {
        attributes[count] = Attribute::new(PROGRAMMATIC_STREAM_SERIALIZATION, &[1]);
        count += 1;
    }
    let config = Config {
        grid: extents.grid,
        block: extents.block,
        shared_bytes: extents.shared_bytes,
        stream,
        attributes: attributes.as_mut_ptr(),
        count: count as u32,
    };
    let code = match LAUNCH.address() {
        Ok(address) => {
            // SAFETY: the driver's function of this name has this signature (CUDA Driver API,
            // "Execution Control"), and reads the configuration and the parameters during the call;
            // the caller keeps the rest of its contract.
            known(unsafe {
                std::mem::transmute::<*mut c_void, Launch>(address)(
                    &raw const config,
                    function,
                    parameters.as_ptr(),
                    null_mut(),
                )
            })
        }
        Err(code) => known(code),
    };
    check(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_structures_have_the_sizes_of_the_drivers() {
        assert_eq!(size_of::<Attribute>(), 72, "8 bytes for the number, 64 for the union");
        assert_eq!(offset_of!(Attribute, value), 8);
        assert_eq!((offset_of!(Config, stream), size_of::<Config>()), (32, 56), "7 words, then pointers");
    }
}
