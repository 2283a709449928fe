//! The result codes of the driver.

use super::library::Symbol;
use super::sys::CUresult;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;

/// The driver's result of a failed call:
/// `CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverCode(i32);

impl DriverCode {
    /// `CUDA_ERROR_OUT_OF_MEMORY`
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// An argument that the function does not accept.
    pub const INVALID_VALUE: Self = Self(1);
    /// `CUDA_ERROR_NO_DEVICE`
    pub const NO_DEVICE: Self = Self(100);
    /// `CUDA_ERROR_INVALID_PTX`
    pub const INVALID_PTX: Self = Self(218);
    /// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`
    pub const UNSUPPORTED_PTX_VERSION: Self = Self(222);
    /// `CUDA_ERROR_NOT_FOUND`
    pub const NOT_FOUND: Self = Self(500);
    /// `CUDA_ERROR_NOT_READY`
    pub const NOT_READY: Self = Self(600);
    /// `CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND`, here for a function that the driver lacks
    pub const SYMBOL_NOT_FOUND: Self = Self(302);

    /// The number in `cuda.h`.
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Whether a kernel failed. After that, every call on the GPU fails in this process.
    pub const fn is_kernel_fault(self) -> bool {
        matches!(self.0, 700 | 702 | 710 | 714..=719)
    }
}

impl fmt::Display for DriverCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        static NAME: Symbol = Symbol::new("cuGetErrorName");
        static TEXT: Symbol = Symbol::new("cuGetErrorString");
        write!(f, "{} ({})", describe(&NAME, self.0).unwrap_or("CUDA error"), self.0)?;
        describe(&TEXT, self.0).map_or(Ok(()), |text| write!(f, ": {text}"))
    }
}

thread_local! {
    /// The last code of a failed call on this thread, as the driver returned it.
    static LAST: Cell<i32> = const { Cell::new(0) };
}

/// The result of the raw call that this thread made last.
pub fn check(result: CUresult) -> Result<(), DriverCode> {
    if result == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(DriverCode(LAST.get())) }
}

/// The driver's code as a `CUresult`; [`check`] reads its number.
#[cfg(not(feature = "cust"))]
pub fn known(code: c_int) -> CUresult {
    if code != 0 {
        LAST.set(code);
    }
    CUresult(code)
}

/// The code as a value of the enum in `cust`'s bindings: `CUDA_ERROR_UNKNOWN` for codes that it
/// lacks. [`check`] reads its number.
#[cfg(feature = "cust")]
pub fn known(code: c_int) -> CUresult {
    if code == 0 {
        return CUresult::CUDA_SUCCESS;
    }
    LAST.set(code);
    let named = matches!(
        code,
        1..=8 | 34 | 100..=102 | 200..=202 | 205..=224 | 300..=304 | 400 | 401 | 500 | 600 | 700..=705 | 708..=720
            | 800..=809 | 900..=911
    );
    if named {
        // SAFETY: the 32-bit enum has a variant for each of these numbers (CUDA 11.4's `cuda.h`).
        unsafe { std::mem::transmute::<c_int, CUresult>(code) }
    } else {
        CUresult::CUDA_ERROR_UNKNOWN
    }
}

/// The string that the driver's function `by` returns for a code; `None` without a driver, or if
/// the driver does not know the code.
fn describe(by: &Symbol, code: i32) -> Option<&'static str> {
    // The code is passed as a number, because the bindings' enum may lack it.
    type Describe = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
    let address = by.address().ok()?;
    // SAFETY: `cuGetErrorName` and `cuGetErrorString` have this signature.
    let describe = unsafe { std::mem::transmute::<*mut c_void, Describe>(address) };
    let mut text = std::ptr::null();
    // SAFETY: `text` is writable; any number may be passed.
    if unsafe { describe(code, &mut text) } != 0 || text.is_null() {
        return None;
    }
    // SAFETY: the driver returned the address of a constant, zero-terminated string.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_the_bindings_lack_keep_their_number() {
        #[cfg(feature = "cust")]
        assert_eq!(known(225), CUresult::CUDA_ERROR_UNKNOWN, "225 came after CUDA 11.4");
        for code in [225, 700, 304] {
            assert_eq!(check(known(code)), Err(DriverCode(code)));
        }
        assert_eq!(known(0), CUresult::CUDA_SUCCESS);
        assert_eq!(check(known(0)), Ok(()));
    }

    #[test]
    fn a_code_prints_its_number_also_without_a_driver() {
        let text = DriverCode(700).to_string();
        assert!(text.contains("(700)"), "{text}");
    }
}
