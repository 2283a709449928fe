//! The first launch: a matrix is copied by a kernel that passes through shared memory.
//!
//! `cargo run --release --example copy` runs it on GPU 0, or on the simulator where there is no
//! GPU. The kernel is `device/kernels/ladder/copy.rs`: read it beside this page.

use moye::{Device, Grid, Result, kernels};

fn main() -> Result<()> {
    // GPU 0, or the simulator of one. MOYE_DEVICE=sim chooses the simulator.
    let device = Device::open()?;
    println!("device: {}", device.name());

    // A column-major matrix: neighbours in memory are neighbours along M. The sizes need not fit
    // the tiles.
    let (m, n) = if device.is_gpu() { (8191, 8193) } else { (511, 513) };
    let elements: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
    let src = device.upload(&elements)?;

    for (name, kernel) in [("copy", kernels::copy), ("copy_async", kernels::copy_async)] {
        // 0xFF bytes are NaN: what the kernel leaves out would show.
        let mut dst = device.alloc_uninit::<f32>(m * n)?;
        dst.fill_bytes(0xFF)?;

        // A block of 32 x 8 threads for each tile of 32 x 32 elements.
        let grid = Grid::new((m.div_ceil(32) as u32, n.div_ceil(32) as u32), 256);
        let mut launch = || {
            // The compiler checks the types. What it cannot check is why a launch is unsafe: that
            // the strides, which are in elements, keep every access inside the two buffers.
            let (stride_m, stride_n) = (1_i64, m as i64);
            let arguments = (&src, &mut dst, m as u32, n as u32, stride_m, stride_n, stride_m, stride_n);
            // SAFETY: both buffers hold m * n elements, and these are the strides of a column-major
            // m x n matrix.
            unsafe { device.launch(&kernel, grid, arguments) }
        };
        launch()?; // The first launch also compiles the PTX for this GPU.
        let time = device.time(|_| launch())?;

        // Downloading waits for the kernel.
        assert_eq!(dst.download()?, elements, "{name} changed something");
        let bytes = 2 * m * n * size_of::<f32>();
        println!("{name}: {m} x {n} f32, {time:?}, {:.3} GB/s", bytes as f64 / time.as_secs_f64() / 1e9);
    }
    Ok(())
}
