//! The CUDA driver, loaded when it is first used.
//!
//! A binary with this crate links no CUDA library and starts on a machine without a driver;
//! [`available`] says whether there is one.

mod code;
pub(crate) mod graph;
pub(crate) mod launch;
mod library;
mod symbols;
pub(crate) mod tensor_map;

pub use code::DriverCode;
pub(crate) use code::{check, of};
pub use library::{FILE, missing_function};

use crate::{Error, Result};

/// Loads the driver's library; an error says why there is none.
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
    let version = cust::CudaApiVersion::get().map_err(|e| Error::driver("cuDriverGetVersion", e))?;
    Ok((version.major().unsigned_abs(), version.minor().unsigned_abs()))
}
