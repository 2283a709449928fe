//! Layouts in use: a transpose of a tile in shared memory.
//!
//! A warp that writes a column of the tile and a warp that reads a row of it must both access 32
//! different banks. The layout `(32,32):(1,33)` achieves that. This example first shows why, with
//! the layout algebra that the kernel uses, and then launches that kernel: read
//! `ops/movement/ladder/transpose.rs` beside this page. (`moye::transpose` takes matrices of any
//! strides; its kernel has a larger tile that is padded in the same way.)

use moye::layout::{Layout, layout};
use moye::{Device, Grid, Result, kernels};

/// The number of banks that a warp accesses along mode `mode` of a layout of 4-byte elements.
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

    // Both matrices are row-major, so their last mode is contiguous. The kernel expects it first:
    // it receives the source as cols x rows, the destination as rows x cols, both column-major.
    let (m, n) = (cols as u32, rows as u32);
    let grid = Grid::new((m.div_ceil(32), n.div_ceil(32)), 256);
    let mut launch = || {
        let arguments = (&src, &mut dst, m, n, 1_i64, cols as i64, 1_i64, rows as i64);
        // SAFETY: both buffers have rows * cols elements, and these are the strides of column-major
        // matrices of these extents.
        unsafe { device.launch(&kernels::transpose, grid, arguments) }
    };
    launch()?; // The first launch also compiles the PTX for this GPU.
    let time = device.time(|_| launch())?;

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
