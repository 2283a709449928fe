//! NumPy files read.

use super::progress;
use anyhow::{Context, Result, anyhow, bail};
use ndarray::{Array2, ArrayView2, CowArray, Ix2};
use ndarray_npy::npy::header::{Header, ParseHeaderError};
use ndarray_npy::{ReadNpyExt, ViewNpyError, ViewNpyExt};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A NumPy file in memory.
pub struct NpyFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl NpyFile {
    /// Reads a file, with a progress bar where it is large.
    pub fn read(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        let metadata = file.metadata().with_context(cannot)?;
        if metadata.is_dir() {
            bail!("cannot read {}: it is a folder, not a .npy file", path.display());
        }
        let len = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(len)
            .map_err(|_| anyhow!("cannot read {}: there is no memory for its {len} bytes", path.display()))?;
        let bar = progress::bytes("reading", metadata.len());
        bar.wrap_read(file).read_to_end(&mut bytes).with_context(cannot)?;
        bar.finish_and_clear();
        Ok(Self { path: path.to_owned(), bytes })
    }

    /// The matrix in the file, in place where the data is aligned.
    pub fn matrix(&self) -> Result<CowArray<'_, f32, Ix2>> {
        // `ndarray` takes only shapes whose extents other than 0 multiply to a size of memory, also where there is no
        // element, and `view_npy` panics at others.
        if let Ok(header) = Header::from_reader(&mut self.bytes.as_slice())
            && !fits_memory(&header.shape)
        {
            bail!("{} has a header whose shape {:?} {TOO_LARGE}", self.path.display(), header.shape);
        }
        match ArrayView2::<f32>::view_npy(&self.bytes) {
            Ok(view) => Ok(view.into()),
            // Other writers than NumPy may leave the data at any offset. Its length was found right before.
            Err(ViewNpyError::MisalignedData) => Array2::read_npy(self.bytes.as_slice())
                .map(CowArray::from)
                .map_err(|error| anyhow!("{}: {error}", self.path.display())),
            Err(error) => Err(anyhow!("{} {}", self.path.display(), explain(&error))),
        }
    }
}

/// What is said of a shape for which there is no memory.
const TOO_LARGE: &str = "is larger than any memory; save it again";

/// Whether float32 elements of this shape have a size that memory can have, extents of 0 left out.
fn fits_memory(shape: &[usize]) -> bool {
    let bytes = shape
        .iter()
        .filter(|&&extent| extent != 0)
        .try_fold(size_of::<f32>(), |bytes, &extent| bytes.checked_mul(extent));
    bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok())
}

/// What is wrong with a file and what to do about it; follows the file's name.
fn explain(error: &ViewNpyError) -> String {
    match error {
        ViewNpyError::ParseHeader(ParseHeaderError::IllegalValue { key, value }) if key == "shape" => {
            format!("has a header with the shape {value}, which no array has; save it again")
        }
        ViewNpyError::Io(_) | ViewNpyError::ParseHeader(_) => {
            "is not a .npy file; write one with numpy.save".to_owned()
        }
        ViewNpyError::WrongNdim(_, n @ (0 | 1)) => {
            format!(
                "holds a {n}-dimensional array, not a matrix; give it two dimensions, e.g. a.reshape(1, -1) for a row"
            )
        }
        ViewNpyError::WrongNdim(_, n) => {
            format!("holds a {n}-dimensional array, not a matrix; save one matrix of it, e.g. a[0]")
        }
        ViewNpyError::WrongDescriptor(descriptor) => {
            format!(
                "holds {}, not float32; convert it with a.astype('float32')",
                dtype(&descriptor.to_string())
            )
        }
        ViewNpyError::NonNativeEndian => {
            "holds float32 of the other byte order; convert it with a.astype('float32')".to_owned()
        }
        ViewNpyError::MissingBytes(bytes) => {
            format!(
                "is {bytes} bytes shorter than its header says; it was not written to the end, save it again"
            )
        }
        ViewNpyError::ExtraBytes(bytes) => {
            format!("is {bytes} bytes longer than its header says; save a single array into it")
        }
        ViewNpyError::LengthOverflow => format!("has a header whose shape {TOO_LARGE}"),
        other => format!("cannot be used: {other}"),
    }
}

/// NumPy's name for a type descriptor such as `'<f8'`.
fn dtype(descriptor: &str) -> String {
    let code = descriptor.trim_matches('\'').trim_start_matches(['<', '>', '|', '=']);
    let name = match code {
        "f2" => "float16",
        "f4" => "float32",
        "f8" => "float64",
        "f16" => "longdouble",
        "i1" => "int8",
        "i2" => "int16",
        "i4" => "int32",
        "i8" => "int64",
        "u1" => "uint8",
        "u2" => "uint16",
        "u4" => "uint32",
        "u8" => "uint64",
        "b1" => "bool",
        "c8" => "complex64",
        "c16" => "complex128",
        "O" => "Python objects",
        _ => return format!("the dtype {descriptor}"),
    };
    name.to_owned()
}
