//! Errors with the file, the tensor or the key, and the way out.

use std::path::PathBuf;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a file, a request or a device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{}: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The contents of a file are not supported.
    #[error("{}: {detail}", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// The key or the tensor, what is wrong with it, and what is supported.
        detail: String,
    },
    /// The sentences cannot be embedded.
    #[error("{0}")]
    Request(String),
    /// An error of a device.
    #[error(transparent)]
    Device(#[from] moye::Error),
}
