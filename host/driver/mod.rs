//! The CUDA driver, loaded when it is first used.
//!
//! A binary with this crate links no CUDA library and starts on a machine without a driver;
//! [`available`] says whether there is one.

mod code;
pub(crate) mod graph;
pub(crate) mod launch;
mod library;
pub(crate) mod peer;
mod symbols;
pub(crate) mod tensor_map;
// With `cust`, a test compares the numbers.
#[cfg(any(test, not(feature = "cust")))]
#[cfg_attr(feature = "cust", allow(dead_code))]
mod types;

pub use code::DriverCode;
pub(crate) use code::check;
pub use library::{FILE, missing_function};

/// The driver's types and functions: `cust`'s bindings, or this crate's without `cust`.
pub(crate) mod sys {
    #[cfg(not(feature = "cust"))]
    pub use super::{symbols::*, types::*};
    #[cfg(feature = "cust")]
    pub use cust::sys::*;
}

use crate::{Error, Result};

/// Loads the driver's library.
///
/// # Errors
/// [`Error::NoDriver`] with the loader's message.
pub fn available() -> Result<()> {
    library::open().map(|_| ()).map_err(|reason| Error::NoDriver { file: FILE, reason: reason.to_owned() })
}

/// The newest CUDA version that the driver supports, such as `(13, 0)`.
///
/// # Errors
/// [`Error::NoDriver`], or an error of the driver.
pub fn version() -> Result<(u32, u32)> {
    available()?;
    let mut version = 0;
    // SAFETY: the pointer to the result is writable.
    check(unsafe { sys::cuDriverGetVersion(&mut version) })
        .map_err(|code| Error::of_code("cuDriverGetVersion", code))?;
    let version = version.unsigned_abs();
    Ok((version / 1000, version % 1000 / 10))
}
