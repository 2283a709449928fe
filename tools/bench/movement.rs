//! Copies and transposes, beside the driver's copy of the same number of bytes.

use super::results::{Figure, Row};
use super::timing::in_turn;
use super::{Measure, Monitor, Seen};
use anyhow::{Context, Result, bail};
use cudarc::driver::sys;
use moye::{Buffer, Element, Matrix, MatrixMut, copy, explain_copy, explain_transpose, transpose};

/// The element sizes, in bytes.
pub const BYTES: [usize; 5] = [1, 2, 4, 8, 16];

/// Checks and times a copy, or a transpose, of a column-major matrix with elements of `bytes`
/// bytes.
///
/// # Errors
/// A wrong result, an unknown element size, or an error of the device.
pub fn row(
    measure: &Measure<'_>,
    transposed: bool,
    bytes: usize,
    (rows, cols): (usize, usize),
) -> Result<Row> {
    match bytes {
        1 => row_of::<u8>(measure, transposed, (rows, cols), |random| random.u8(..)),
        2 => row_of::<u16>(measure, transposed, (rows, cols), |random| random.u16(..)),
        4 => row_of::<u32>(measure, transposed, (rows, cols), |random| random.u32(..)),
        8 => row_of::<u64>(measure, transposed, (rows, cols), |random| random.u64(..)),
        16 => row_of::<u128>(measure, transposed, (rows, cols), |random| random.u128(..)),
        _ => bail!("copy and transpose take elements of {BYTES:?} bytes, not of {bytes}"),
    }
}

/// [`row`] for elements `T`.
fn row_of<T: Element + PartialEq>(
    measure: &Measure<'_>,
    transposed: bool,
    (rows, cols): (usize, usize),
    number: impl Fn(&mut fastrand::Rng) -> T,
) -> Result<Row> {
    let (device, bytes) = (measure.device, T::BYTES);
    let len = rows
        .checked_mul(cols)
        .with_context(|| format!("a {rows} x {cols} matrix is larger than any memory"))?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut before = Vec::new();
    before
        .try_reserve_exact(len)
        .with_context(|| format!("there is no memory for {rows} x {cols} elements of {bytes} bytes"))?;
    before.extend((0..len).map(|_| number(&mut random)));
    let src = device.upload(&before)?;
    let mut dst = device.alloc_uninit::<T>(len)?;
    dst.fill_bytes(0xFF)?;
    let from = Matrix::col_major(&src, rows, cols)?;
    let run = |dst: &mut Buffer<T>| {
        if transposed {
            transpose(device, &from, &mut MatrixMut::col_major(dst, cols, rows)?)
        } else {
            copy(device, &from, &mut MatrixMut::col_major(dst, rows, cols)?)
        }
    };
    run(&mut dst)?;
    let kernel = match transposed {
        true => explain_transpose(device, &from, &mut MatrixMut::col_major(&mut dst, cols, rows)?)?,
        false => explain_copy(device, &from, &mut MatrixMut::col_major(&mut dst, rows, cols)?)?,
    };
    let kernel = kernel.unwrap_or("none").to_owned();
    let name = if transposed { "transpose" } else { "copy" };
    let after = dst.download()?;
    // All elements must be equal bit by bit.
    let wrong = (0..len).find(|&i| {
        let at = if transposed { i / cols + i % cols * rows } else { i };
        after[i] != before[at]
    });
    if let Some(i) = wrong {
        bail!("{name} of {rows} x {cols} elements of {bytes} bytes is wrong in element {i}; it is not timed");
    }
    drop(after);

    let other = device.alloc_uninit::<T>(len)?;
    // The simulator has no driver for comparison.
    let mut driver = match device.is_gpu() {
        true => Some(driver_copy(measure, other.address(), src.address(), len * bytes)?),
        false => None,
    };
    let mut seen = Vec::new();
    let mut watch = || seen.extend(measure.monitor.map(Monitor::look));
    let mut ours = || Ok(run(&mut dst)?);
    let times = match &mut driver {
        Some(driver) => in_turn(device, &measure.plan, &mut [&mut ours, driver], &mut watch)?,
        None => in_turn(device, &measure.plan, &mut [&mut ours], &mut watch)?,
    };
    let gigabytes = 2.0 * (len * bytes) as f64 / 1e9;
    Ok(Row {
        work: name,
        kind: format!("{bytes} bytes"),
        majors: None,
        epilogue: None,
        by: None,
        rest_ms: measure.plan.rest.as_millis() as u64,
        m: rows,
        n: cols,
        k: None,
        unit: "GB/s",
        moye: Figure::new(&times[0], gigabytes),
        peer: times.get(1).map(|times| ("device copy", Figure::new(times, gigabytes))),
        no_peer: None,
        limit: measure.facts.as_ref().map(|facts| facts.memory_rate / 1e9).filter(|&rate| rate > 0.0),
        relative_error: None,
        kernel,
        seen: Seen::typical(&seen),
    })
}

/// The driver's copy, on the device's default stream. Nothing is launched before the returned
/// function is called.
fn driver_copy(
    measure: &Measure<'_>,
    to: u64,
    from: u64,
    bytes: usize,
) -> Result<impl FnMut() -> Result<()> + use<>> {
    let stream = measure.device.default_stream().raw_handle()?;
    Ok(move || {
        // SAFETY: both addresses are of buffers of at least `bytes` bytes that outlive the calls;
        // the stream belongs to the device.
        unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.cast()) }
            .result()
            .context("cuMemcpyDtoDAsync failed")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::on_simulator;

    #[test]
    fn copies_and_transposes_are_checked_and_printed() {
        on_simulator(|measure| {
            for (transposed, name) in [(false, "copy"), (true, "transpose")] {
                for bytes in BYTES {
                    let row = row(measure, transposed, bytes, (70, 33)).unwrap();
                    assert_eq!(row.what(), format!("{name} {bytes} bytes 70 x 33"));
                    let moved = 2.0 * bytes as f64 * 70.0 * 33.0 / row.moye.seconds / 1e9;
                    assert!((row.moye.median / moved - 1.0).abs() < 1e-9, "read and written: {row:?}");
                }
            }
            let said = row(measure, false, 3, (8, 8)).unwrap_err().to_string();
            assert_eq!(said, "copy and transpose take elements of [1, 2, 4, 8, 16] bytes, not of 3");
            let by = |extents, bytes| row(measure, true, bytes, extents).unwrap().kernel;
            assert_eq!(by((70, 33), 2), "transpose_u16");
            assert_eq!(by((70, 34), 2), "transpose_words_u16");
            assert_eq!(by((72, 36), 1), "transpose_words_u8");
        });
    }
}
