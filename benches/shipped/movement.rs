//! Copies and transposes, beside the driver's copy of as many bytes.

use crate::Line;
use crate::nvidia::driver_copy;
use crate::timing::{in_turn, numbers};
use moye::{Device, Matrix, MatrixMut, Result, copy, transpose};

/// An `n x n` f32 matrix moved, in GB/s read and written.
pub fn line(device: &Device, name: &str, n: usize) -> Result<Line> {
    let before = numbers(n * n, n as u64);
    let src = device.upload(&before)?;
    let mut dst = device.alloc_uninit::<f32>(n * n)?;
    let other = device.alloc_uninit::<f32>(n * n)?;
    dst.fill_bytes(0xFF)?;
    let from = Matrix::col_major(&src, n, n)?;
    let (from_address, to_address) = (src.address(), other.address());
    let seconds = {
        let mut to = MatrixMut::col_major(&mut dst, n, n)?;
        let mut ours =
            || if name == "copy" { copy(device, &from, &mut to) } else { transpose(device, &from, &mut to) };
        let mut theirs = driver_copy(to_address, from_address, n * n * size_of::<f32>());
        in_turn(device, &mut [&mut ours, &mut theirs])?
    };
    let after = dst.download()?;
    for i in (0..n * n).step_by(997) {
        let (row, col) = (i % n, i / n);
        let expected = if name == "copy" { before[i] } else { before[col + row * n] };
        assert_eq!(
            after[i], expected,
            "{name} of {n} x {n}: element {i} is wrong, so its time means nothing"
        );
    }
    let rate = |seconds: f64| 2.0 * (n * n * size_of::<f32>()) as f64 / seconds / 1e9;
    Ok(Line {
        work: format!("{name} {n} x {n} f32"),
        unit: "GB/s",
        ours: rate(seconds[0]),
        other: Some(("device copy", rate(seconds[1]))),
    })
}
