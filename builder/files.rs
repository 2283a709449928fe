//! Files and folders, with errors that name them.

use crate::BuildError;
use std::path::Path;
use std::{fs, io};

pub fn create_dir(folder: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(folder).map_err(io_error(folder))
}

pub fn remove_if_there(file: &Path) -> Result<(), BuildError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(file)(error)),
        _ => Ok(()),
    }
}

/// Leaves a file alone that is already right, so that nothing that depends on it is built again.
pub fn write_if_changed(path: &Path, text: &str) -> Result<(), BuildError> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(io_error(path))
}

pub fn io_error(path: &Path) -> impl FnOnce(io::Error) -> BuildError + '_ {
    move |source| BuildError::Io { path: path.to_owned(), source }
}
