//! Writes results to files, completely or not at all.

use super::interrupt;
#[cfg(feature = "run")]
use super::report::Report;
use anyhow::{Context, Result, anyhow, bail};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The destination of a result, opened before the work starts, so that a wrong path is reported
/// immediately.
pub struct Output {
    path: PathBuf,
    force: bool,
    target: Target,
}

enum Target {
    /// A temporary file in the target's folder, which is renamed when it is complete.
    Beside(NamedTempFile),
    /// A device or a pipe, written directly.
    Special(File),
}

impl Output {
    /// Opens `path`. An existing file is replaced only with `force`.
    pub fn create(path: &Path, force: bool) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        // A link is kept: its target is replaced, or created if it does not exist.
        let Place { path: place, is_link } = Place::behind_links(path).with_context(cannot)?;
        let mut mode = None;
        match fs::metadata(&place) {
            Ok(metadata) if metadata.is_dir() => bail!("cannot write {}: it is a folder", path.display()),
            Ok(metadata) if metadata.is_file() => {
                if !force {
                    bail!("{} exists already; --force replaces it", path.display());
                }
                mode = Some(metadata.permissions());
            }
            Ok(_) => {
                let file = OpenOptions::new().write(true).open(path).with_context(cannot)?;
                return Ok(Self { path: place, force, target: Target::Special(file) });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if is_link && !force {
                    let to = place.display();
                    bail!("{} exists already, a link to {to}; --force writes that file", path.display());
                }
            }
            Err(error) => return Err(error).with_context(cannot),
        }
        let folder = match place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".moye-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // As for any new file, the process's umask applies.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let file = interrupt::begin(|| builder.tempfile_in(folder)).map_err(|error| match error.kind() {
            // Some folders, such as /proc, accept no files and return this error.
            io::ErrorKind::NotFound if folder.is_dir() => {
                anyhow!("cannot write {}: a file cannot be created in {}", path.display(), folder.display())
            }
            io::ErrorKind::NotFound => {
                anyhow!("cannot write {}: there is no folder {}", path.display(), folder.display())
            }
            // The error itself would name the temporary file.
            kind => match error.raw_os_error() {
                Some(code) => {
                    anyhow!("cannot write {}: {}", path.display(), io::Error::from_raw_os_error(code))
                }
                None => anyhow!("cannot write {}: {kind}", path.display()),
            },
        })?;
        if let Some(mode) = mode {
            // A replaced file keeps its permissions.
            file.as_file().set_permissions(mode).with_context(cannot)?;
        }
        Ok(Self { path: place, force, target: Target::Beside(file) })
    }

    /// The stream for progress reports: not the one that may carry the result.
    #[cfg(feature = "run")]
    pub fn report(output: Option<&Self>) -> Report {
        match output.map(|output| &output.target) {
            Some(Target::Special(_)) => Report::to_stderr(),
            _ => Report::to_stdout(),
        }
    }

    /// Writes a string.
    pub fn write_text(self, text: &str) -> Result<()> {
        self.write(|file| file.write_all(text.as_bytes()))
    }

    /// Writes the contents and renames the file.
    pub fn write(self, contents: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        let Self { path, force, target } = self;
        let cannot = || format!("cannot write {}", path.display());
        match target {
            Target::Special(mut file) => contents(&mut file).with_context(cannot),
            Target::Beside(mut temporary) => {
                contents(temporary.as_file_mut()).with_context(cannot)?;
                // Some file systems report a full disk only here.
                temporary.as_file().sync_all().with_context(cannot)?;
                let named = interrupt::finish(temporary, |temporary| match force {
                    true => temporary.persist(&path),
                    false => temporary.persist_noclobber(&path),
                });
                match named.map_err(|error| error.error) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        bail!("{} exists already; --force replaces it", path.display())
                    }
                    other => other.map(drop).with_context(cannot),
                }
            }
        }
    }
}

/// The path to which links lead, whether or not a file exists there.
struct Place {
    path: PathBuf,
    /// Whether a link leads there.
    is_link: bool,
}

impl Place {
    fn behind_links(path: &Path) -> io::Result<Self> {
        // Linux's limit.
        const MOST: usize = 40;
        let mut place = path.to_owned();
        for followed in 0..=MOST {
            let is_link = followed > 0;
            match fs::symlink_metadata(&place) {
                Ok(metadata) if metadata.is_symlink() => {}
                Ok(_) => return Ok(Self { path: place, is_link }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Self { path: place, is_link });
                }
                Err(error) => return Err(error),
            }
            // Links in /proc name objects without a path; they are opened directly.
            if fs::metadata(&place).is_ok_and(|metadata| !metadata.is_file()) {
                return Ok(Self { path: place, is_link });
            }
            let to = fs::read_link(&place)?;
            place = place.parent().unwrap_or(Path::new("")).join(to);
        }
        Err(io::Error::other("its links form a cycle"))
    }
}
