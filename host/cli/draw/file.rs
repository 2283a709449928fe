//! Pictures into files.

use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Writes a picture: to a temporary file beside it, which then takes its name, so that no half-written picture is ever
/// there. A file that is there already stays, unless `force`.
pub fn write(path: &Path, contents: &str, force: bool) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let exists = || format!("{} exists; choose another name, or overwrite it with --force", path.display());
    if path.is_dir() {
        bail!("{} is a folder; name a file in it", path.display());
    }
    if !force && path.symlink_metadata().is_ok() {
        bail!(exists());
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
    let mut file = builder.tempfile_in(folder).map_err(|error| {
        // The error would name the temporary file.
        anyhow::anyhow!("{}: {}: {}", failed(), folder.display(), error.kind())
    })?;
    file.write_all(contents.as_bytes()).and_then(|()| file.flush()).with_context(failed)?;
    if force {
        file.persist(path).map_err(|error| error.error).with_context(failed)?;
        return Ok(());
    }
    match file.persist_noclobber(path).map_err(|error| error.error) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(exists()),
        other => other.map(drop).with_context(failed),
    }
}
