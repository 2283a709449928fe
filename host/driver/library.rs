//! The driver's library, loaded at the first use.

use super::DriverCode;
use libloading::Library;
use std::error::Error;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The file name under which the driver's installation puts its library.
pub const FILE: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

/// `CUDA_ERROR_SHARED_OBJECT_INIT_FAILED`
const NO_LIBRARY: c_int = 303;

static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();

/// The function that a lookup last failed to find in the library.
static MISSING: Mutex<Option<&'static str>> = Mutex::new(None);

/// Loads the driver's library; the error is the loader's reason.
pub fn open() -> Result<&'static Library, &'static str> {
    // SAFETY: the initialisers are those of an installed system library, which every CUDA program
    // runs.
    let opened = LIBRARY.get_or_init(|| unsafe { Library::new(FILE) }.map_err(|error| reason(&error)));
    opened.as_ref().map_err(String::as_str)
}

/// The loader's message, which the error wraps.
fn reason(error: &libloading::Error) -> String {
    let words = error.source().map_or_else(|| error.to_string(), |loader| loader.to_string());
    // The message already names the file.
    words.strip_prefix(FILE).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&words).to_owned()
}

/// The function that a lookup last failed to find in the driver.
pub fn missing_function() -> Option<&'static str> {
    *MISSING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A function of the library: its name, and its address once it is known.
pub struct Symbol {
    name: &'static str,
    address: AtomicPtr<c_void>,
}

impl Symbol {
    pub const fn new(name: &'static str) -> Self {
        Self { name, address: AtomicPtr::new(null_mut()) }
    }

    /// The function's address. Without a library the error is [`NO_LIBRARY`], without the function
    /// the code of [`DriverCode::SYMBOL_NOT_FOUND`].
    #[inline]
    pub fn address(&self) -> Result<*mut c_void, c_int> {
        let known = self.address.load(Ordering::Relaxed);
        if known.is_null() { self.look_up() } else { Ok(known) }
    }

    #[cold]
    fn look_up(&self) -> Result<*mut c_void, c_int> {
        let library = open().map_err(|_| NO_LIBRARY)?;
        // SAFETY: this only takes the address; the library is never closed.
        let found = unsafe { library.get::<*mut c_void>(self.name) };
        match found {
            Ok(symbol) => {
                let address = *symbol;
                self.address.store(address, Ordering::Relaxed);
                Ok(address)
            }
            Err(_) => {
                *MISSING.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.name);
                Err(DriverCode::SYMBOL_NOT_FOUND.number())
            }
        }
    }
}
