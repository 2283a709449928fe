//! Results into files: whole or not at all.

use super::report::Report;
use super::{interrupt, progress};
use anyhow::{Context, Result, anyhow, bail};
use ndarray::ArrayView2;
use ndarray_npy::{WriteNpyError, WriteNpyExt};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A place for a result, taken before the work starts, so that a wrong path is told at once.
pub struct Output {
    path: PathBuf,
    force: bool,
    target: Target,
}

enum Target {
    /// A file beside the target that takes its name when it is complete.
    Beside(NamedTempFile),
    /// A device or a pipe, written as it is.
    Special(File),
}

impl Output {
    /// Takes the place of `path`. A file that is there is replaced only with `force`.
    pub fn create(path: &Path, force: bool) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        // A link stays, and what it points to is replaced, or made where it is not there yet.
        let (place, is_link) = behind_links(path).with_context(cannot)?;
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
            // As for any new file; the process's mask applies.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let file = interrupt::begin(|| builder.tempfile_in(folder)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                anyhow!("cannot write {}: there is no folder {}", path.display(), folder.display())
            }
            _ => anyhow!("cannot write {}: {error}", path.display()),
        })?;
        if let Some(mode) = mode {
            // A file that is replaced keeps who may read and write it.
            file.as_file().set_permissions(mode).with_context(cannot)?;
        }
        Ok(Self { path: place, force, target: Target::Beside(file) })
    }

    /// Where the command may tell of its work: not where the result may go.
    pub fn report(output: Option<&Self>) -> Report {
        match output.map(|output| &output.target) {
            Some(Target::Special(_)) => Report::to_stderr(),
            _ => Report::to_stdout(),
        }
    }

    /// Writes a matrix as a NumPy file.
    pub fn write_matrix(self, matrix: ArrayView2<'_, f32>) -> Result<()> {
        self.write(|file| write_npy(file, matrix))
    }

    /// Writes a text.
    pub fn write_text(self, text: &str) -> Result<()> {
        self.write(|file| file.write_all(text.as_bytes()))
    }

    /// Writes the contents and gives the file its name.
    fn write(self, contents: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        let Self { path, force, target } = self;
        let cannot = || format!("cannot write {}", path.display());
        match target {
            Target::Special(mut file) => contents(&mut file).with_context(cannot),
            Target::Beside(mut temporary) => {
                contents(temporary.as_file_mut()).with_context(cannot)?;
                // Some file systems tell only now that they are full.
                temporary.as_file().sync_all().with_context(cannot)?;
                let named = interrupt::finish(|| match force {
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

/// The path that the links of `path` end at, whether or not there is something, and whether `path` is a link.
fn behind_links(path: &Path) -> io::Result<(PathBuf, bool)> {
    // As many as Linux follows.
    const MOST: usize = 40;
    let mut place = path.to_owned();
    for followed in 0..=MOST {
        match fs::symlink_metadata(&place) {
            Ok(metadata) if metadata.is_symlink() => {}
            Ok(_) => return Ok((place, followed > 0)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((place, followed > 0)),
            Err(error) => return Err(error),
        }
        // Links of /proc name what no path leads to; they are opened as they are.
        if fs::metadata(&place).is_ok_and(|metadata| !metadata.is_file()) {
            return Ok((place, followed > 0));
        }
        let to = fs::read_link(&place)?;
        place = place.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(io::Error::other("its links lead in a circle"))
}

fn write_npy(file: &mut File, matrix: ArrayView2<'_, f32>) -> io::Result<()> {
    let bar = progress::bytes("writing", 4 * matrix.len() as u64);
    let mut writer = BufWriter::new(bar.wrap_write(file));
    matrix.write_npy(&mut writer).map_err(|error| match error {
        WriteNpyError::Io(error) => error,
        other => io::Error::other(other),
    })?;
    writer.flush()?;
    bar.finish_and_clear();
    Ok(())
}
