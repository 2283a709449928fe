//! NumPy files written: whole or not at all.

use super::progress;
use super::report::Report;
use anyhow::{Context, Result, anyhow, bail};
use ndarray::ArrayView2;
use ndarray_npy::{WriteNpyError, WriteNpyExt};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use tempfile::NamedTempFile;

/// The temporary file that an interrupt must remove.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

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
        let mut place = path.to_owned();
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => bail!("cannot write {}: it is a folder", path.display()),
            Ok(metadata) if metadata.is_file() => {
                if !force {
                    bail!("{} exists already; --force replaces it", path.display());
                }
                // A link stays, and what it points to is replaced.
                place = fs::canonicalize(path).with_context(cannot)?;
            }
            Ok(_) => {
                let file = OpenOptions::new().write(true).open(path).with_context(cannot)?;
                return Ok(Self { path: place, force, target: Target::Special(file) });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(cannot),
        }
        let folder = match place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        remove_when_interrupted();
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut builder = tempfile::Builder::new();
        builder.prefix(".moye-").suffix(".npy.part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // As for any new file; the process's mask applies.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                anyhow!("cannot write {}: there is no folder {}", path.display(), folder.display())
            }
            _ => anyhow!("cannot write {}: {error}", path.display()),
        })?;
        *unfinished = Some(file.path().to_owned());
        Ok(Self { path: place, force, target: Target::Beside(file) })
    }

    /// Where the command may tell of its work: not where the result may go.
    pub fn report(output: Option<&Self>) -> Report {
        match output.map(|output| &output.target) {
            Some(Target::Special(_)) => Report::to_stderr(),
            _ => Report::to_stdout(),
        }
    }

    /// Writes the matrix and gives the file its name.
    pub fn write(self, matrix: ArrayView2<'_, f32>) -> Result<()> {
        let Self { path, force, target } = self;
        let cannot = || format!("cannot write {}", path.display());
        match target {
            Target::Special(mut file) => write_npy(&mut file, matrix).with_context(cannot),
            Target::Beside(mut temporary) => {
                write_npy(temporary.as_file_mut(), matrix).with_context(cannot)?;
                // Some file systems tell only now that they are full.
                temporary.as_file().sync_all().with_context(cannot)?;
                let named = if force { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
                if let Err(error) = named {
                    if error.error.kind() == io::ErrorKind::AlreadyExists {
                        bail!("{} exists already; --force replaces it", path.display());
                    }
                    return Err(error.error).with_context(cannot);
                }
                *UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(())
            }
        }
    }
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

/// Has an interrupt (Ctrl-C, a hang-up, a request to end) remove the unfinished file before the process ends.
fn remove_when_interrupted() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // Where another handler is there already, the file is left to it.
        let _ = ctrlc::set_handler(|| {
            // The lock is kept, so that no file gets its name, and none is made, after this.
            let unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(path) = unfinished.as_ref() {
                let _ = fs::remove_file(path);
            }
            eprintln!("moye: interrupted");
            // What a shell expects of a program that an interrupt ended.
            std::process::exit(130);
        });
    });
}
