//! The first launch: a kernel copies a matrix through shared memory.
//!
//! `cargo run --release --example copy` runs it on GPU 0, or without a GPU on the simulator. The
//! kernel is `ops/movement/ladder/copy.rs`: read it beside this page.

use moye::{Device, Grid, Result, kernels};

fn main() -> Result<()> {
    // GPU 0, or the simulator. MOYE_DEVICE=sim selects the simulator.
    let device = Device::open()?;
    println!("device: {}", device.name());

    // A column-major matrix: elements adjacent in memory are adjacent along M. The extents need not
    // be multiples of the tile.
    let (m, n) = if device.is_gpu() { (8191, 8193) } else { (511, 513) };
    let elements: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
    let src = device.upload(&elements)?;

    for (name, kernel) in [("copy", kernels::copy), ("copy_async", kernels::copy_async)] {
        // 0xFF bytes are NaN, so elements that the kernel omits are noticed.
        let mut dst = device.alloc_uninit::<f32>(m * n)?;
        dst.fill_bytes(0xFF)?;

        // One block of 32 x 8 threads for each 32 x 32 tile.
        let grid = Grid::new((m.div_ceil(32) as u32, n.div_ceil(32) as u32), 256);
        let mut launch = || {
            // The compiler checks the types. A launch is unsafe because the compiler cannot check
            // that the strides, in elements, keep every access inside the two buffers.
            let (stride_m, stride_n) = (1_i64, m as i64);
            let arguments = (&src, &mut dst, m as u32, n as u32, stride_m, stride_n, stride_m, stride_n);
            // SAFETY: both buffers have m * n elements, and these are the strides of a column-major
            // m x n matrix.
            unsafe { device.launch(&kernel, grid, arguments) }
        };
        launch()?; // The first launch also compiles the PTX for this GPU.
        let time = device.time(|_| launch())?;

        // The download waits for the kernel.
        assert_eq!(dst.download()?, elements, "{name} changed something");
        let bytes = 2 * m * n * size_of::<f32>();
        println!("{name}: {m} x {n} f32, {time:?}, {:.3} GB/s", bytes as f64 / time.as_secs_f64() / 1e9);
    }
    Ok(())
}
