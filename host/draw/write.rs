//! Pictures into files.

use super::error::DrawError;
use std::io::Write;
use std::path::Path;

/// Writes a picture to `path`: to a temporary file beside it, which then takes its name, so that no half-written picture
/// is ever there. A file that is there already stays, unless `force`.
///
/// # Errors
/// Where the file exists and `force` is false, or the system refuses.
pub fn write_file(path: &Path, contents: &str, force: bool) -> Result<(), DrawError> {
    let exists = || DrawError::Exists { path: path.to_owned() };
    let io = |source| DrawError::Io { what: "write", path: path.to_owned(), source };
    if !force && path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".moye-draw-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // What any new file gets, less the user's umask.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder).map_err(io)?;
    file.write_all(contents.as_bytes()).and_then(|()| file.flush()).map_err(io)?;
    if force {
        file.persist(path).map_err(|error| io(error.error))?;
    } else {
        file.persist_noclobber(path).map_err(|error| match error.error.kind() {
            std::io::ErrorKind::AlreadyExists => exists(),
            _ => io(error.error),
        })?;
    }
    Ok(())
}
