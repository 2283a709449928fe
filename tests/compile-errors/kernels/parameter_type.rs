use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut};

#[kernel(threads = 32)]
pub unsafe fn takes_a_slice(_n: u32, _x: &[f32], _y: GlobalMut<f32>) {}

#[kernel]
pub unsafe fn takes_a_vector(_x: Global<f32>, _y: Vec<f32>) {}

#[kernel]
pub unsafe fn takes_a_sign(_sign: char) {}

fn main() {}
