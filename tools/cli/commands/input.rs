//! Reads NumPy files.

use super::npy::{Header, Kind, MAGIC};
use super::progress;
use crate::commands::dtype::{Dtype, InFile, Stored};
use anyhow::{Context, Result, anyhow, bail};
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, CowArray, Ix1, Ix2, ShapeBuilder};
use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A NumPy file in memory.
pub struct NpyFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// An array of a file, with any number of dimensions.
pub struct Strided<'f, T: Clone> {
    pub elements: Cow<'f, [T]>,
    /// The extents.
    pub shape: Vec<usize>,
    /// The strides in elements.
    pub strides: Vec<i64>,
}

impl NpyFile {
    /// Reads a file, with a progress bar if it is large.
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
        let mut reader = bar.wrap_read(file);
        // Other files are rejected before they are read completely: a device may have no end.
        reader.by_ref().take(MAGIC.len() as u64).read_to_end(&mut bytes).with_context(cannot)?;
        if bytes == MAGIC {
            reader.read_to_end(&mut bytes).with_context(cannot)?;
        }
        bar.finish_and_clear();
        Ok(Self { path: path.to_owned(), bytes })
    }

    /// The file's name, for messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// How the elements can be used.
    pub fn kind(&self) -> Result<Kind> {
        Ok(self.header()?.0.descriptor.kind)
    }

    /// The element type. Two bytes without a NumPy type are bfloat16, and `f1` is float8_e5m2, as
    /// `ml_dtypes` writes them. uint16, uint8 and single bytes without a type are ambiguous:
    /// `given` is the type from the command line. `takes` names the elements that the operation
    /// takes, for the error about a file with others.
    pub fn dtype(&self, given: Option<Dtype>, takes: &str) -> Result<Dtype> {
        let (header, _) = self.header()?;
        let (name, descriptor) = (self.name(), header.descriptor);
        let known = match &descriptor.kind {
            Kind::Number(dtype) => *dtype,
            Kind::Bytes(2) => Dtype::Bf16,
            Kind::Other("uint16") => match given {
                Some(given @ (Dtype::F16 | Dtype::Bf16)) => given,
                _ => bail!(
                    "{name} holds uint16; if it stores bfloat16, add --dtype bf16, otherwise convert it with \
                     a.astype('float32')"
                ),
            },
            Kind::Bytes(1) | Kind::Other("uint8") if let Some(given) = given.filter(|it| it.is_float8()) => {
                given
            }
            Kind::Other("uint8") if given == Some(Dtype::U8) => Dtype::U8,
            Kind::Bytes(1) => bail!(
                "{name} holds bytes without a type; if they are float8_e4m3fn of ml_dtypes, add --dtype e4m3"
            ),
            _ => bail!(
                "{name} holds {}, and {takes}; {}",
                descriptor.name(),
                descriptor.conversion(Dtype::F32)
            ),
        };
        if descriptor.is_swapped {
            bail!("{name} holds {known} of the other byte order; {}", descriptor.conversion(known));
        }
        Ok(known)
    }

    /// The NumPy call that converts the file's array to this type.
    pub fn conversion(&self, to: Dtype) -> Result<String> {
        Ok(self.header()?.0.descriptor.conversion(to))
    }

    /// The matrix in the file, without a copy if the data is aligned. The elements must have type
    /// `T`.
    pub fn matrix<T: Stored>(&self) -> Result<CowArray<'_, T, Ix2>> {
        let (header, data) = self.header_of::<T>()?;
        let &[rows, cols] = &header.shape[..] else {
            let advice = match header.shape.len() {
                0 | 1 => "give it two dimensions, e.g. a.reshape(1, -1) for a row",
                _ => "save one of its matrices, e.g. a[0]",
            };
            let rank = header.shape.len();
            bail!("{} holds a {rank}-dimensional array, not a matrix; {advice}", self.name());
        };
        let shape = (rows, cols).set_f(header.is_fortran);
        Ok(match self.elements(&header, data)? {
            Cow::Borrowed(elements) => ArrayView2::from_shape(shape, elements)?.into(),
            Cow::Owned(elements) => Array2::from_shape_vec(shape, elements)?.into(),
        })
    }

    /// The vector in the file. The elements must have type `T`.
    pub fn vector<T: Stored>(&self) -> Result<CowArray<'_, T, Ix1>> {
        let (header, data) = self.header_of::<T>()?;
        let &[len] = &header.shape[..] else {
            let rank = header.shape.len();
            bail!("{} holds a {rank}-dimensional array, not a vector; save a.reshape(-1)", self.name());
        };
        Ok(match self.elements(&header, data)? {
            Cow::Borrowed(elements) => ArrayView1::from_shape(len, elements)?.into(),
            Cow::Owned(elements) => Array1::from_vec(elements).into(),
        })
    }

    /// The array in the file with any number of dimensions. The elements must have type `T`.
    pub fn array<T: InFile>(&self) -> Result<Strided<'_, T>> {
        let (header, data) = self.header_of::<T>()?;
        let elements = self.elements(&header, data)?;
        let mut strides = vec![1; header.shape.len()];
        let mut next = 1;
        let inner_first: Vec<usize> = match header.is_fortran {
            true => (0..header.shape.len()).collect(),
            false => (0..header.shape.len()).rev().collect(),
        };
        for mode in inner_first {
            strides[mode] = next;
            next *= header.shape[mode].max(1) as i64;
        }
        Ok(Strided { elements, shape: header.shape, strides })
    }

    /// The header, and the data after it.
    fn header(&self) -> Result<(Header, &[u8])> {
        Header::read(&self.bytes).map_err(|error| anyhow!("{} {error}", self.name()))
    }

    /// The header of a file with elements of type `T` and a shape that fits into memory, and the
    /// data.
    fn header_of<T: InFile>(&self) -> Result<(Header, &[u8])> {
        let (header, data) = self.header()?;
        if !fits_memory(&header.shape, size_of::<T>()) {
            let shape = &header.shape;
            bail!(
                "{} has a header whose shape {shape:?} is larger than any memory; save it again",
                self.name()
            );
        }
        let (expected, descriptor) = (T::DTYPE, &header.descriptor);
        let advice = descriptor.conversion(expected);
        if !descriptor.kind.is_kept_for(expected) {
            bail!("{} holds {}, not {expected}; {advice}", self.name(), descriptor.name());
        }
        if descriptor.is_swapped {
            bail!("{} holds {expected} of the other byte order; {advice}", self.name());
        }
        Ok((header, data))
    }

    /// The data as elements, without a copy if it is aligned: writers other than NumPy may store it
    /// at any offset.
    fn elements<'a, T: InFile>(&self, header: &Header, data: &'a [u8]) -> Result<Cow<'a, [T]>> {
        // With an extent of 0 the product is 0, whatever the other extents are; otherwise the shape
        // fits (`fits_memory`).
        let len = if header.shape.contains(&0) { 0 } else { header.shape.iter().product() };
        let bytes = len * size_of::<T>();
        if let Some(missing @ 1..) = bytes.checked_sub(data.len()) {
            bail!(
                "{} is {missing} bytes shorter than its header says, so it is incomplete; save it again",
                self.name()
            );
        }
        if data.len() > bytes {
            let more = data.len() - bytes;
            bail!("{} is {more} bytes longer than its header says; save a single array into it", self.name());
        }
        // SAFETY: every byte pattern is a value of an element (`Element`).
        if let ([], elements, []) = unsafe { data.align_to::<T>() } {
            return Ok(Cow::Borrowed(elements));
        }
        let mut elements = Vec::<T>::new();
        elements
            .try_reserve_exact(len)
            .map_err(|_| anyhow!("{}: there is no memory for its {bytes} bytes", self.name()))?;
        // SAFETY: there is room for `len` elements, whose `bytes` bytes are copied; every bit
        // pattern is a value.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), elements.as_mut_ptr().cast::<u8>(), bytes);
            elements.set_len(len);
        }
        Ok(Cow::Owned(elements))
    }
}

/// Whether the size of elements of this shape can be represented, ignoring extents of 0.
fn fits_memory(shape: &[usize], element: usize) -> bool {
    let bytes = shape
        .iter()
        .filter(|&&extent| extent != 0)
        .try_fold(element, |bytes, &extent| bytes.checked_mul(extent));
    bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok())
}
