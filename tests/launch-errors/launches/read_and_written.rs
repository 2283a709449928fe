use moye::{Device, Global, GlobalMut, Grid, Kernel};

pub fn launch(kernel: &Kernel<(Global<f32>, GlobalMut<f32>, u32)>) -> moye::Result<()> {
    let device = Device::sim();
    let mut x = device.upload(&[1.0f32])?;
    unsafe { device.launch(kernel, Grid::new(1, 32), (&x, &mut x, 1)) }
}

fn main() {}
