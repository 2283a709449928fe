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

/// Writes a file unless it already has these contents, so that its dependents are not rebuilt. A
/// concurrent reader gets either the complete old or the complete new contents.
pub fn write_if_changed(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), BuildError> {
    if fs::read(path).is_ok_and(|old| old == contents.as_ref()) {
        return Ok(());
    }
    let work = beside(path);
    let written = fs::write(&work, contents).and_then(|()| fs::rename(&work, path));
    if written.is_err() {
        let _ = fs::remove_file(&work);
    }
    written.map_err(io_error(path))
}

/// A unique name beside a path, for a file that replaces the path's file when it is complete.
pub fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    name.into()
}

/// Whether this is the top of a target directory that cargo created. Cargo does not mark existing
/// folders.
pub fn is_target_dir(folder: &Path) -> bool {
    fs::read_to_string(folder.join("CACHEDIR.TAG")).is_ok_and(|text| text.contains("created by cargo"))
}

pub fn io_error(path: &Path) -> impl FnOnce(io::Error) -> BuildError + '_ {
    move |source| BuildError::Io { path: path.to_owned(), source }
}
