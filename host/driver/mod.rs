//! The CUDA driver, opened when it is first used.
//!
//! A binary that links this crate depends on no library of CUDA and starts on a machine without a
//! driver; [`available`] says whether there is one.

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

/// Opens the driver's library, or says why there is none.
///
/// # Errors
/// [`Error::NoDriver`] with the loader's own words.
pub fn available() -> Result<()> {
    library::open().map(|_| ()).map_err(|reason| Error::NoDriver { file: FILE, reason: reason.to_owned() })
}

/// The newest CUDA version that the driver supports, `(13, 0)` say.
///
/// # Errors
/// [`Error::NoDriver`]; the driver's own error where it does not answer.
pub fn version() -> Result<(u32, u32)> {
    available()?;
    let version = cust::CudaApiVersion::get().map_err(|e| Error::driver("cuDriverGetVersion", e))?;
    Ok((version.major().unsigned_abs(), version.minor().unsigned_abs()))
}
