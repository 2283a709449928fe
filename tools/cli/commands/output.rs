//! Writes results into files, completely or not at all.

use super::report::Report;
use super::{interrupt, progress};
use anyhow::{Context, Result, anyhow, bail};
use moye_bench::dtype::Stored;
use ndarray::ArrayView2;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The destination of a result, opened before the work starts, so that a wrong path is reported at
/// once.
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
        // A link stays: its target is replaced, or created if it does not exist.
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
            // Some folders, such as /proc, accept no files and return this error.
            io::ErrorKind::NotFound if folder.is_dir() => {
                anyhow!("cannot write {}: a file cannot be created in {}", path.display(), folder.display())
            }
            io::ErrorKind::NotFound => {
                anyhow!("cannot write {}: there is no folder {}", path.display(), folder.display())
            }
            // The error itself names the temporary file.
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

    /// The stream for progress reports: not the one that may hold the result.
    pub fn report(output: Option<&Self>) -> Report {
        match output.map(|output| &output.target) {
            Some(Target::Special(_)) => Report::to_stderr(),
            _ => Report::to_stdout(),
        }
    }

    /// Writes a matrix as a NumPy file.
    pub fn write_matrix<T: Stored>(self, matrix: ArrayView2<'_, T>) -> Result<()> {
        self.write(|file| write_npy(file, matrix))
    }

    /// Writes an array in C order as a NumPy file.
    pub fn write_tensor<T: Stored>(self, shape: &[usize], elements: &[T]) -> Result<()> {
        self.write(|file| {
            let bar = progress::bytes("writing", size_of_val(elements) as u64);
            let mut writer = BufWriter::new(bar.wrap_write(file));
            writer.write_all(&header(T::DTYPE.descriptor(), shape))?;
            for element in elements {
                writer.write_all(&element.low_bits().to_le_bytes()[..T::BYTES])?;
            }
            writer.flush()?;
            bar.finish_and_clear();
            Ok(())
        })
    }

    /// Writes a text.
    pub fn write_text(self, text: &str) -> Result<()> {
        self.write(|file| file.write_all(text.as_bytes()))
    }

    /// Writes the contents and renames the file.
    fn write(self, contents: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        let Self { path, force, target } = self;
        let cannot = || format!("cannot write {}", path.display());
        match target {
            Target::Special(mut file) => contents(&mut file).with_context(cannot),
            Target::Beside(mut temporary) => {
                contents(temporary.as_file_mut()).with_context(cannot)?;
                // Some file systems report a full disk only now.
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

/// The path that the links of `path` lead to, whether or not a file exists there, and whether
/// `path` is a link.
fn behind_links(path: &Path) -> io::Result<(PathBuf, bool)> {
    // The limit of Linux.
    const MOST: usize = 40;
    let mut place = path.to_owned();
    for followed in 0..=MOST {
        match fs::symlink_metadata(&place) {
            Ok(metadata) if metadata.is_symlink() => {}
            Ok(_) => return Ok((place, followed > 0)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((place, followed > 0)),
            Err(error) => return Err(error),
        }
        // Links in /proc name objects without a path; they are opened directly.
        if fs::metadata(&place).is_ok_and(|metadata| !metadata.is_file()) {
            return Ok((place, followed > 0));
        }
        let to = fs::read_link(&place)?;
        place = place.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(io::Error::other("its links form a cycle"))
}

/// Writes a matrix in C order, as NumPy does.
fn write_npy<T: Stored>(file: &mut File, matrix: ArrayView2<'_, T>) -> io::Result<()> {
    let bar = progress::bytes("writing", (T::BYTES * matrix.len()) as u64);
    let mut writer = BufWriter::new(bar.wrap_write(file));
    writer.write_all(&header(T::DTYPE.descriptor(), &[matrix.nrows(), matrix.ncols()]))?;
    for row in matrix.rows() {
        for element in row {
            writer.write_all(&element.low_bits().to_le_bytes()[..T::BYTES])?;
        }
    }
    writer.flush()?;
    bar.finish_and_clear();
    Ok(())
}

/// The header of a .npy file (format 1.0 of NumPy's `numpy.lib.format`): its length is a multiple
/// of 64.
fn header(descriptor: &str, shape: &[usize]) -> Vec<u8> {
    const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
    let shape: Vec<_> = shape.iter().map(usize::to_string).collect();
    let shape = shape.join(", ");
    let says = format!("{{'descr': '{descriptor}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The length of the header takes two bytes, and a newline ends it.
    let padded = (MAGIC.len() + 2 + says.len() + 1).next_multiple_of(64) - MAGIC.len() - 2;
    let length = u16::try_from(padded).expect("two numbers take less than 64 KiB").to_le_bytes();
    let text = format!("{says:<width$}\n", width = padded - 1);
    [MAGIC, &length, text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;
    use ndarray::array;
    use std::io::{Read, Seek};

    #[test]
    fn a_matrix_is_written_in_the_order_of_its_rows_behind_a_header_of_64_bytes_times_something() {
        let mut file = tempfile::tempfile().unwrap();
        let matrix = array![[1f32, 2.0], [3.0, 4.0], [5.0, 6.0]].mapv(bf16::from_f32);
        write_npy(&mut file, matrix.t()).unwrap();
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let data = bytes.split_off(128);
        let text = String::from_utf8(bytes[10..].to_vec()).unwrap();
        assert!(text.starts_with("{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3), }   "), "{text}");
        assert!(text.ends_with(" \n"), "{text}");
        assert_eq!(bytes[..10], *b"\x93NUMPY\x01\x00\x76\x00");
        let numbers: Vec<f32> =
            data.chunks(2).map(|two| bf16::from_le_bytes([two[0], two[1]]).to_f32()).collect();
        assert_eq!(numbers, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    }
}
