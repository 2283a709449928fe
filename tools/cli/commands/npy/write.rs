//! Writes NumPy files.

use crate::commands::dtype::{InFile, Stored};
use crate::commands::output::Output;
use crate::commands::progress;
use anyhow::Result;
use ndarray::ArrayView2;
use std::fs::File;
use std::io::{self, BufWriter, Write};

impl Output {
    /// Writes a matrix as a NumPy file.
    pub fn write_matrix<T: Stored>(self, matrix: ArrayView2<'_, T>) -> Result<()> {
        self.write(|file| write_npy(file, matrix))
    }

    /// Writes an array in C order as a NumPy file.
    pub fn write_tensor<T: InFile>(self, shape: &[usize], elements: &[T]) -> Result<()> {
        self.write(|file| {
            let bar = progress::bytes("writing", size_of_val(elements) as u64);
            let mut writer = BufWriter::new(bar.wrap_write(file));
            writer.write_all(&header(T::DTYPE.descriptor(), shape))?;
            for element in elements {
                writer.write_all(&element.stored_bits().to_le_bytes()[..T::BYTES])?;
            }
            writer.flush()?;
            bar.finish_and_clear();
            Ok(())
        })
    }
}

/// Writes a matrix in C order, as NumPy does.
fn write_npy<T: Stored>(file: &mut File, matrix: ArrayView2<'_, T>) -> io::Result<()> {
    let bar = progress::bytes("writing", (T::BYTES * matrix.len()) as u64);
    let mut writer = BufWriter::new(bar.wrap_write(file));
    writer.write_all(&header(T::DTYPE.descriptor(), &[matrix.nrows(), matrix.ncols()]))?;
    for row in matrix.rows() {
        for element in row {
            writer.write_all(&element.stored_bits().to_le_bytes()[..T::BYTES])?;
        }
    }
    writer.flush()?;
    bar.finish_and_clear();
    Ok(())
}

/// The header of a .npy file (format 1.0 of NumPy's `numpy.lib.format`), padded to a multiple of 64
/// bytes.
fn header(descriptor: &str, shape: &[usize]) -> Vec<u8> {
    const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
    let shape: Vec<_> = shape.iter().map(usize::to_string).collect();
    let shape = shape.join(", ");
    let says = format!("{{'descr': '{descriptor}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Two bytes hold the header's length, and a newline ends the header.
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
