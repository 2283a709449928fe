//! Sums the rows of a matrix: `cargo run` on the simulator, `cargo run --features gpu` on a GPU.

use std::error::Error;

use new_kernels::{BLK_M, THREADS, row_sum};

fn main() -> Result<(), Box<dyn Error>> {
    let (m, n) = (100, 1024);
    let x: Vec<f32> = (0..m * n).map(|i| (i % 7) as f32).collect();
    let (sums, device) = row_sums(&x, m, n)?;
    for (i, (sum, row)) in sums.iter().zip(x.chunks(n)).enumerate() {
        // Integers as small as these are exact in f32.
        assert_eq!(*sum, row.iter().sum::<f32>(), "row {i}");
    }
    println!("the sums of {m} rows of {n} elements are right, on {device}");
    Ok(())
}

/// The sums of the rows, and the device that computed them.
#[cfg(feature = "gpu")]
fn row_sums(x: &[f32], m: usize, n: usize) -> Result<(Vec<f32>, String), Box<dyn Error>> {
    /// The build script's output.
    static KERNELS: moye::Ptx = moye::include_ptx!("new_kernels");

    // GPU 0, or the simulator without a GPU.
    let device = moye::Device::open()?;
    let kernels = device.load(&KERNELS)?;
    let (x, mut y) = (device.upload(x)?, device.alloc_zeroed::<f32>(m)?);
    let grid = moye::Grid::new((m as u32).div_ceil(BLK_M), THREADS);
    // SAFETY: `x` has m rows of n elements, n a multiple of 4, and `y` has m elements.
    unsafe { kernels.launch(&row_sum, grid, (&x, &mut y, m as u32, n as u32, n as i64))? };
    Ok((y.download()?, device.name().to_owned()))
}

/// The sums of the rows, and the device that computed them.
#[cfg(not(feature = "gpu"))]
fn row_sums(x: &[f32], m: usize, n: usize) -> Result<(Vec<f32>, String), Box<dyn Error>> {
    use moye_device::memory::{Global, GlobalMut};

    let memory = moye_sim::GlobalMemory::new();
    let (x, y) = (memory.upload(x, "x")?, memory.upload(&vec![0.0f32; m], "y")?);
    let (on_x, on_y) = (Global::from_address(x.address()), GlobalMut::from_address(y.address()));
    let arguments = (on_x, on_y, m as u32, n as u32, n as i64);
    // SAFETY: `x` has m rows of n elements, n a multiple of 4, and `y` has m elements.
    unsafe { row_sum.simulate(&memory, (m as u32).div_ceil(BLK_M), THREADS, arguments)? };
    Ok((y.download(), "the simulator".to_owned()))
}
