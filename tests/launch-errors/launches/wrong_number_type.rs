use moye::{Device, Global, GlobalMut, Grid, Kernel};

pub fn launch(kernel: &Kernel<(Global<f32>, GlobalMut<f32>, u32)>) -> moye::Result<()> {
    let device = Device::sim();
    let x = device.upload(&[1.0f32])?;
    let mut y = device.alloc_zeroed::<f32>(1)?;
    unsafe { device.launch(kernel, Grid::new(1, 32), (&x, &mut y, x.len())) }
}

fn main() {}
