//! Layouts at work: a transpose whose tile turns round in shared memory.
//!
//! A warp that writes a column of the tile and a warp that reads a row of it must both touch 32 different banks. The
//! layout `(32,32):(1,33)` does that, and this example first shows why, with the layout algebra that the kernel uses,
//! then transposes with the library's fastest kernel (`device/kernels/lines.rs`), whose tile of
//! 64 x 64 is padded in the same way; the one explained here is `device/kernels/transpose.rs`.

use moye::layout::{Layout, layout};
use moye::{Device, Matrix, MatrixMut, Result, transpose};

/// How many of the 32 banks a warp touches that walks along mode `mode` of a layout of 4-byte elements.
fn banks(tile: Layout, mode: usize) -> usize {
    let walk = tile.mode(mode);
    let mut touched = [false; 32];
    for lane in 0..32 {
        touched[walk.at(lane) as usize % 32] = true;
    }
    touched.iter().filter(|&&t| t).count()
}

fn main() -> Result<()> {
    for tile in [layout!((32, 32):(1, 32)), layout!((32, 32):(1, 33))] {
        println!("{tile}: {} banks along a column, {} along a row", banks(tile, 0), banks(tile, 1));
    }

    let device = Device::open()?;
    println!("device: {}", device.name());
    let (rows, cols) = if device.is_gpu() { (16384, 8192) } else { (1000, 700) };
    let elements: Vec<f32> = (0..rows * cols).map(|i| i as f32).collect();
    let src = device.upload(&elements)?;
    let mut dst = device.alloc_uninit::<f32>(rows * cols)?;

    // Matrices are views with any strides; here both are row-major.
    let a = Matrix::row_major(&src, rows, cols)?;
    let time = {
        let mut b = MatrixMut::row_major(&mut dst, cols, rows)?;
        transpose(&device, &a, &mut b)?; // The first launch also compiles the PTX for this GPU.
        device.time(|_| transpose(&device, &a, &mut b))?
    };

    let transposed = dst.download()?;
    for row in 0..rows {
        for col in 0..cols {
            assert_eq!(transposed[col * rows + row], elements[row * cols + col], "element ({col}, {row})");
        }
    }
    let bytes = 2 * rows * cols * size_of::<f32>();
    println!("{rows} x {cols} f32, {time:?}, {:.3} GB/s", bytes as f64 / time.as_secs_f64() / 1e9);
    Ok(())
}
