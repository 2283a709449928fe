//! Launches the kernel on GPU 0, or on the simulator where there is no GPU, and checks what it did.

use moye::{Device, Grid, Ptx, Result, include_ptx};
use own_kernels::{BLOCK, TILE, axpy};

/// What the build script compiled.
static KERNELS: Ptx = include_ptx!("own_kernels");

fn main() -> Result<()> {
    let device = Device::open()?;
    let kernels = device.load(&KERNELS)?;

    let (m, n) = (1000, 70);
    let x: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
    let y = vec![1.0; m * n];
    let x_on_device = device.upload(&x)?;
    let mut y_on_device = device.upload(&y)?;

    let grid = Grid::new((m.div_ceil(TILE.0) as u32, n.div_ceil(TILE.1) as u32), BLOCK);
    // SAFETY: both buffers hold m * n numbers.
    unsafe { kernels.launch(&axpy, grid, (2.0, &x_on_device, &mut y_on_device, m as u32, n as u32))? };

    for (i, (result, (x, y))) in y_on_device.download()?.into_iter().zip(x.iter().zip(&y)).enumerate() {
        assert_eq!(result, 2.0 * x + y, "element {i}");
    }
    println!("{} {m} x {n} on {}: right", axpy.name(), device.name());
    Ok(())
}
