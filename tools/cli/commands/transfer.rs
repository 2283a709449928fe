//! Copies matrices to the device and back in chunks, so that a progress bar can advance.

use super::progress;
use anyhow::{Result, anyhow};
use moye::{Buffer, Device, Element};

/// Bytes of a chunk, which a GPU copies in milliseconds.
const PART: usize = 64 << 20;

/// Copies elements to the device.
pub fn upload<T: Element>(device: &Device, elements: &[T]) -> Result<Buffer<T>> {
    let mut buffer = device.alloc_uninit(elements.len())?;
    let bar = progress::bytes("upload", size_of_val(elements) as u64);
    for (index, part) in elements.chunks(PART / T::BYTES).enumerate() {
        let first = index * (PART / T::BYTES);
        buffer.slice_mut(first..first + part.len())?.upload_from(part)?;
        bar.inc(size_of_val(part) as u64);
    }
    bar.finish_and_clear();
    Ok(buffer)
}

/// Copies all elements from the device.
pub fn download<T: Element + Default>(buffer: &Buffer<T>) -> Result<Vec<T>> {
    let mut elements = zeros(buffer.len())?;
    let bar = progress::bytes("download", size_of_val(&elements[..]) as u64);
    for (index, part) in elements.chunks_mut(PART / T::BYTES).enumerate() {
        let first = index * (PART / T::BYTES);
        buffer.slice(first..first + part.len())?.download_into(part)?;
        bar.inc(size_of_val(part) as u64);
    }
    bar.finish_and_clear();
    Ok(elements)
}

/// This number of zeros; an error if the host lacks the memory.
fn zeros<T: Element + Default>(len: usize) -> Result<Vec<T>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(len).map_err(|_| {
        let bytes = len as u128 * T::BYTES as u128;
        anyhow!("this machine has no memory for the result of {bytes} bytes; use smaller matrices")
    })?;
    zeros.resize(len, T::default());
    Ok(zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_one_part_arrives_whole_and_comes_back() {
        let device = Device::sim();
        const ELEMENTS: usize = PART / size_of::<f32>();
        for len in [0, 1, ELEMENTS, ELEMENTS + 3] {
            let elements: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let buffer = upload(&device, &elements).unwrap();
            assert!(buffer.download().unwrap() == elements, "upload of {len}");
            assert!(download(&buffer).unwrap() == elements, "download of {len}");
        }
    }

    #[test]
    fn a_result_that_no_memory_holds_is_an_error_with_its_bytes() {
        for len in [1_usize << 61, 1 << 58] {
            let said = zeros::<f32>(len).unwrap_err().to_string();
            assert!(said.contains(&(4 * len as u128).to_string()), "{said}");
        }
    }
}
