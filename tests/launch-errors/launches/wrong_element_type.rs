use moye::{Device, Global, GlobalMut, Grid, Kernel};

pub fn launch(kernel: &Kernel<(Global<f32>, GlobalMut<f32>, u32)>) -> moye::Result<()> {
    let device = Device::sim();
    let x = device.upload(&[1.0f64])?;
    let mut y = device.alloc_zeroed::<f32>(1)?;
    unsafe { device.launch(kernel, Grid::new(1, 32), (&x, &mut y, 1)) }
}

fn main() {}
