//! GGUF files: metadata, and tensors that are read one at a time.
//!
//! The format is that of
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>, versions 2 and 3, little-endian.
//! This crate has a reader because the published crates panic on a truncated file or depend on a
//! whole framework. Here a damaged file is an error, whatever its bytes are.

use crate::cut::Columns;
use crate::error::{Error, Result};
use crate::format::Format;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An unsigned or signed integer.
    Integer(i128),
    /// A float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Self>),
}

/// A tensor of a file.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Rows and columns; a vector has one row, and further modes count as rows.
    pub shape: [usize; 2],
    /// The format of its blocks.
    pub format: Format,
    /// The offset in the file, and the number of bytes.
    pub(crate) place: (u64, usize),
    /// The range of its columns, if it is not all of the file's.
    pub(crate) columns: Option<Columns>,
}

impl Tensor {
    /// Bytes of its blocks.
    pub fn bytes(&self) -> usize {
        match self.columns {
            Some(_) => self.shape[0] * self.shape[1] / self.format.elements() * self.format.bytes(),
            None => self.place.1,
        }
    }
}

/// An open file.
pub struct Gguf {
    path: PathBuf,
    file: File,
    /// The metadata.
    pub metadata: HashMap<String, Value>,
    pub(crate) tensors: HashMap<String, Result<Tensor, String>>,
}

/// The maximum number of dimensions of a tensor.
const MOST_DIMENSIONS: u32 = 4;
/// The maximum depth of nested arrays.
const MOST_NESTED: u32 = 4;

impl Gguf {
    /// Opens a file, and reads its metadata and the offsets of its tensors.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Format`].
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::File { file: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            // Its length is not known, and tensors are read at their offsets.
            let detail = "it is not a regular file".to_owned();
            return Err(Error::Format { file: path.to_owned(), detail });
        }
        let length = about.len();
        let mut header = Header { from: BufReader::new(&file), at: 0, length };
        let (metadata, tensors) = header.read().map_err(|detail| Error::Format {
            file: path.to_owned(),
            detail: format!("{detail}, at byte {}", header.at),
        })?;
        Ok(Self { path: path.to_owned(), file, metadata, tensors })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An error about a metadata value.
    pub fn key_error(&self, key: &str, detail: impl Into<String>) -> Error {
        Error::Key { file: self.path.clone(), key: key.to_owned(), detail: detail.into() }
    }

    /// An error about a tensor.
    pub fn tensor_error(&self, tensor: &str, detail: impl Into<String>) -> Error {
        Error::Tensor { file: self.path.clone(), tensor: tensor.to_owned(), detail: detail.into() }
    }

    /// Whether the file has a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// A tensor that the model needs.
    ///
    /// # Errors
    /// [`Error::Tensor`] if the file lacks it, or stores it in an unsupported format.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        match self.tensors.get(name) {
            None => Err(self.tensor_error(name, "the file has no such tensor, which the model needs")),
            Some(Err(detail)) => Err(self.tensor_error(name, detail)),
            Some(Ok(tensor)) => Ok(tensor),
        }
    }

    /// Reads the blocks of a tensor.
    ///
    /// # Errors
    /// Same as [`Gguf::tensor`], and [`Error::File`].
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let mut blocks = vec![0; self.tensor(name)?.bytes()];
        self.read_into(name, 0, &mut blocks)?;
        Ok(blocks)
    }

    /// Reads a tensor's blocks into `blocks`, starting at the tensor's byte `from`.
    ///
    /// # Errors
    /// Same as [`Gguf::read`].
    pub fn read_into(&self, name: &str, from: usize, blocks: &mut [u8]) -> Result<()> {
        let tensor = self.tensor(name)?;
        let read = |from: usize, blocks: &mut [u8]| {
            read_at(&self.file, blocks, tensor.place.0 + from as u64)
                .map_err(|source| Error::File { file: self.path.clone(), source })
        };
        let Some(columns) = &tensor.columns else { return read(from, blocks) };
        // Read the rows that contain the bytes, then select the columns.
        let (of_row, whole) = (tensor.bytes() / tensor.shape[0], tensor.place.1 / tensor.shape[0]);
        let rows = from / of_row..(from + blocks.len()).div_ceil(of_row);
        let mut read_rows = vec![0; rows.len() * whole];
        read(rows.start * whole, &mut read_rows)?;
        let skipped = from - rows.start * of_row;
        blocks.copy_from_slice(&columns.of(&read_rows)[skipped..][..blocks.len()]);
        Ok(())
    }

    /// An integer of the metadata, if there is one.
    ///
    /// # Errors
    /// [`Error::Key`] if the value is not an integer from 0 to `u32::MAX`.
    pub fn number(&self, key: &str) -> Result<Option<usize>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(&Value::Integer(value)) if u32::try_from(value).is_ok() => Ok(Some(value as usize)),
            Some(other) => {
                Err(self.key_error(key, format!("a whole number from 0 is expected, not {other:?}")))
            }
        }
    }

    /// A float of the metadata, if there is one.
    ///
    /// # Errors
    /// [`Error::Key`] if the value is not a finite float.
    pub fn float(&self, key: &str) -> Result<Option<f64>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(&Value::Float(value)) if value.is_finite() => Ok(Some(value)),
            Some(other) => Err(self.key_error(key, format!("a number is expected, not {other:?}"))),
        }
    }

    /// A string of the metadata, if there is one.
    ///
    /// # Errors
    /// [`Error::Key`] if the value is not a string.
    pub fn string(&self, key: &str) -> Result<Option<&str>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::String(value)) => Ok(Some(value)),
            Some(other) => Err(self.key_error(key, format!("a string is expected, not {other:?}"))),
        }
    }

    /// A boolean of the metadata, if there is one.
    ///
    /// # Errors
    /// [`Error::Key`] if the value is not a boolean.
    pub fn truth(&self, key: &str) -> Result<Option<bool>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(&Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(self.key_error(key, format!("true or false is expected, not {other:?}"))),
        }
    }

    /// An array of the metadata, with each element converted by `element`.
    ///
    /// # Errors
    /// [`Error::Key`] if the file lacks the array, or `element` rejects one of its elements.
    pub fn array<'a, T>(&'a self, key: &str, element: impl Fn(&'a Value) -> Option<T>) -> Result<Vec<T>> {
        match self.metadata.get(key) {
            None => Err(self.key_error(key, "the file has no such array, which the model needs")),
            Some(Value::Array(values)) => values
                .iter()
                .map(element)
                .collect::<Option<_>>()
                .ok_or_else(|| self.key_error(key, "the array has elements of an unexpected type")),
            Some(_) => Err(self.key_error(key, "an array is expected")),
        }
    }
}

/// Reads at an offset of a file; several threads may read at the same time.
#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(not(unix))]
fn read_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    use std::io::{Seek as _, SeekFrom};
    // The offset belongs to the file, so one thread reads at a time.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let (_one, mut file) = (ONE.lock(), file);
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(bytes)
}

/// The contents of a header: metadata, and tensors or why they are not supported.
type Contents = (HashMap<String, Value>, HashMap<String, Result<Tensor, String>>);

/// The header of a file while it is read.
struct Header<R> {
    from: R,
    at: u64,
    length: u64,
}

impl<R: Read> Header<R> {
    fn read(&mut self) -> Result<Contents, String> {
        if &self.bytes::<4>()? != b"GGUF" {
            return Err("it does not begin with GGUF: it is not a GGUF file".to_owned());
        }
        let version = self.u32()?;
        if !matches!(version, 2 | 3) {
            return Err(format!("its version is {version}, and 2 and 3 are supported, little-endian"));
        }
        let (tensors, values) = (self.u64()?, self.u64()?);
        let mut metadata = HashMap::new();
        for _ in 0..values {
            let (key, ty) = (self.string()?, self.u32()?);
            let value = self.value(ty, 0).map_err(|detail| format!("{key}: {detail}"))?;
            metadata.insert(key, value);
        }
        let mut named = Vec::new();
        for _ in 0..tensors {
            let (name, dimensions) = (self.string()?, self.u32()?);
            if dimensions > MOST_DIMENSIONS {
                return Err(format!(
                    "tensor {name} has {dimensions} dimensions, and may have {MOST_DIMENSIONS}"
                ));
            }
            // The innermost extent comes first.
            let extents = (0..dimensions).map(|_| self.u64()).collect::<Result<Vec<_>, _>>()?;
            named.push((name, extents, self.u32()?, self.u64()?));
        }
        let alignment = match metadata.get("general.alignment") {
            None => 32,
            Some(&Value::Integer(value)) if (1..=1 << 30).contains(&value) => value as u64,
            Some(other) => return Err(format!("general.alignment is {other:?}")),
        };
        let data = self.at.next_multiple_of(alignment);
        let tensor = |(name, extents, format, offset): (String, Vec<u64>, u32, u64)| {
            let tensor = self.tensor(&extents, format, data.checked_add(offset));
            (name, tensor)
        };
        let tensors = named.into_iter().map(tensor).collect();
        Ok((metadata, tensors))
    }

    fn tensor(&self, extents: &[u64], format: u32, start: Option<u64>) -> Result<Tensor, String> {
        let format = Format::numbered(format)?;
        let columns = extents.first().copied().unwrap_or(1);
        let rows = extents.iter().skip(1).try_fold(1u64, |rows, &extent| rows.checked_mul(extent));
        let blocks = columns / format.elements() as u64;
        let bytes = rows.and_then(|rows| rows.checked_mul(blocks)?.checked_mul(format.bytes() as u64));
        if !columns.is_multiple_of(format.elements() as u64) {
            let elements = format.elements();
            return Err(format!("rows of {columns} elements are not whole blocks of {elements} ({format})"));
        }
        // A vector is one row. No program writes one in blocks, and a rank's part may be less than
        // a block.
        if rows == Some(1) && format.elements() > 1 {
            return Err(format!("it is a vector in {format}; supported for vectors are F32, F16 and BF16"));
        }
        let is_in_file =
            |(start, bytes): (u64, u64)| start.checked_add(bytes).is_some_and(|end| end <= self.length);
        let Some((start, bytes)) = start.zip(bytes).filter(|place| is_in_file(*place)) else {
            return Err(format!(
                "its {extents:?} elements ({format}) reach past the end of the file: it is cut off"
            ));
        };
        Ok(Tensor {
            shape: [rows.unwrap_or(0) as usize, columns as usize],
            format,
            place: (start, bytes as usize),
            columns: None,
        })
    }

    fn value(&mut self, ty: u32, depth: u32) -> Result<Value, String> {
        Ok(match ty {
            0 => Value::Integer(self.bytes::<1>()?[0].into()),
            1 => Value::Integer(i8::from_le_bytes(self.bytes()?).into()),
            2 => Value::Integer(u16::from_le_bytes(self.bytes()?).into()),
            3 => Value::Integer(i16::from_le_bytes(self.bytes()?).into()),
            4 => Value::Integer(self.u32()?.into()),
            5 => Value::Integer(i32::from_le_bytes(self.bytes()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.bytes()?).into()),
            7 => Value::Bool(self.bytes::<1>()?[0] != 0),
            8 => Value::String(self.string()?),
            9 if depth < MOST_NESTED => {
                let (of, count) = (self.u32()?, self.u64()?);
                // The array grows with the bytes that are read, so a large count alone reserves no
                // memory.
                let mut values = Vec::new();
                for _ in 0..count {
                    values.push(self.value(of, depth + 1)?);
                }
                Value::Array(values)
            }
            10 => Value::Integer(self.u64()?.into()),
            11 => Value::Integer(i64::from_le_bytes(self.bytes()?).into()),
            12 => Value::Float(f64::from_le_bytes(self.bytes()?)),
            _ => return Err(format!("it has a value of type {ty}, which GGUF does not have here")),
        })
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        self.from.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "the file ends in its header: it is cut off".to_owned(),
            _ => error.to_string(),
        })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn string(&mut self) -> Result<String, String> {
        let length = self.u64()?;
        if length > self.length.saturating_sub(self.at) {
            return Err(format!("a string of {length} bytes reaches past the end of the file"));
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| "a string is not UTF-8".to_owned())
    }
}
