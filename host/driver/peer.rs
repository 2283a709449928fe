//! Functions for several GPUs: peer access, memory of other processes, and flags. They are called
//! by name, because `cust`'s bindings have older versions of some.

use super::code::{DriverCode, check, known};
use super::library::Symbol;
use super::sys::{CUcontext, CUdevice, CUdeviceptr, CUstream};
use std::ffi::{c_int, c_uint, c_void};

/// `CUipcMemHandle`: the handle by which another process opens an allocation.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Handle(pub [u8; 64]);

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal($($arg:ident: $type:ty),*);)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the driver's function.
        pub unsafe fn $name($($arg: $type),*) -> Result<(), DriverCode> {
            static SYMBOL: Symbol = Symbol::new($symbol);
            type Function = unsafe extern "C" fn($($type),*) -> c_int;
            check(known(match SYMBOL.address() {
                // SAFETY: the driver's function of this name has this signature ("CUDA Driver
                // API"); the caller keeps its contract.
                Ok(address) => unsafe { std::mem::transmute::<*mut c_void, Function>(address)($($arg),*) },
                Err(code) => code,
            }))
        }
    )* };
}

functions! {
    /// Whether a device can access the memory of another one.
    can_access_peer = "cuDeviceCanAccessPeer"(can: *mut c_int, device: CUdevice, peer: CUdevice);
    /// The identifier of a device, or of its MIG instance.
    get_uuid = "cuDeviceGetUuid_v2"(uuid: *mut [u8; 16], device: CUdevice);
    /// Maps the memory of another context into the current one.
    enable_peer_access = "cuCtxEnablePeerAccess"(peer: CUcontext, flags: c_uint);
    /// A handle for an allocation.
    get_handle = "cuIpcGetMemHandle"(handle: *mut Handle, address: CUdeviceptr);
    /// Maps another process's allocation.
    open_handle = "cuIpcOpenMemHandle_v2"(address: *mut CUdeviceptr, handle: Handle, flags: c_uint);
    /// Unmaps it.
    close_handle = "cuIpcCloseMemHandle"(address: CUdeviceptr);
    /// Writes a word in stream order, after a system-wide fence.
    write_value = "cuStreamWriteValue32_v2"(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint);
    /// Waits for a word in stream order.
    wait_value = "cuStreamWaitValue32_v2"(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint);
    /// Copies between any two addresses.
    copy = "cuMemcpyAsync"(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Copies to the host.
    copy_to_host = "cuMemcpyDtoHAsync_v2"(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Whether a stream's work has completed.
    query = "cuStreamQuery"(stream: CUstream);
}
