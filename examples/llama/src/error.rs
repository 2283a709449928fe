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
    /// A file is not a GGUF file, or is damaged.
    #[error("{}: {detail}", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// What is wrong, and at which byte.
        detail: String,
    },
    /// A tensor is missing or not supported.
    #[error("{}: tensor {tensor}: {detail}", file.display())]
    Tensor {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// What is wrong, and what is supported.
        detail: String,
    },
    /// A metadata value is missing or not supported.
    #[error("{}: {key}: {detail}", file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// What is wrong, and what is supported.
        detail: String,
    },
    /// No batch can serve the request.
    #[error("{0}")]
    Request(String),
    /// An error of a device.
    #[error(transparent)]
    Device(#[from] moye::Error),
}
