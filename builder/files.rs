//! Files and folders, with errors that name them.

use crate::BuildError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io, process};

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
/// Who reads it meanwhile finds the old text or the new one, whole.
pub fn write_if_changed(path: &Path, text: &str) -> Result<(), BuildError> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let work = beside(path);
    let written = fs::write(&work, text).and_then(|()| fs::rename(&work, path));
    if written.is_err() {
        let _ = fs::remove_file(&work);
    }
    written.map_err(io_error(path))
}

/// A name beside a path that no other thread and no other process has: for what takes its place
/// when it is whole.
pub fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    name.into()
}

/// Whether this is the top of a target directory that cargo made. It marks none that was there
/// before.
pub fn is_target_dir(folder: &Path) -> bool {
    fs::read_to_string(folder.join("CACHEDIR.TAG")).is_ok_and(|text| text.contains("created by cargo"))
}

pub fn io_error(path: &Path) -> impl FnOnce(io::Error) -> BuildError + '_ {
    move |source| BuildError::Io { path: path.to_owned(), source }
}
