//! Tensor maps in the driver's form, by `cuTensorMapEncodeTiled` (CUDA 12.0), which `cust`'s
//! bindings lack.

use super::code::{DriverCode, check, known};
use super::library::Symbol;
use moye_sim::TensorMap;
use std::ffi::{c_int, c_void};

/// The driver's output, which must be aligned to 64 bytes.
#[repr(C, align(64))]
struct Encoded([u64; 16]);

/// The 128 bytes of the map that kernels on a GPU read.
pub fn encode(map: &TensorMap) -> Result<[u64; 16], DriverCode> {
    static ENCODE: Symbol = Symbol::new("cuTensorMapEncodeTiled");
    type Encode = unsafe extern "C" fn(
        *mut Encoded,
        c_int,
        u32,
        *mut c_void,
        *const u64,
        *const u64,
        *const u32,
        *const u32,
        c_int,
        c_int,
        c_int,
        c_int,
    ) -> c_int;
    /// `CU_TENSOR_MAP_INTERLEAVE_NONE`
    const NO_INTERLEAVE: c_int = 0;
    let mut encoded = Encoded([0; 16]);
    let code = match ENCODE.address() {
        Ok(address) => {
            // SAFETY: the driver's function of this name has this signature (CUDA Driver API,
            // "Tensor Map Object Management"); the arrays have one value for each dimension; the
            // tensor's address is stored, not dereferenced.
            known(unsafe {
                std::mem::transmute::<*mut c_void, Encode>(address)(
                    &raw mut encoded,
                    map.element as c_int,
                    map.rank as u32,
                    map.address as *mut c_void,
                    map.extents.as_ptr(),
                    map.strides.as_ptr(),
                    map.box_extents.as_ptr(),
                    map.element_strides.as_ptr(),
                    NO_INTERLEAVE,
                    map.swizzle as c_int,
                    map.promotion as c_int,
                    map.fill as c_int,
                )
            })
        }
        Err(code) => known(code),
    };
    check(code).map(|()| encoded.0)
}
