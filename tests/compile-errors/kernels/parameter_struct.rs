use moye_device::kernel;
use moye_device::kernel::KernelParam;
use moye_device::memory::{Global, TensorMap};

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct WithSlice {
    x: &'static [f32],
    n: u32,
}

#[derive(Clone, Copy, KernelParam)]
pub struct WithoutLayout {
    x: Global<f32>,
}

#[derive(Clone, Copy, KernelParam)]
#[repr(C, align(16))]
pub struct Aligned {
    x: Global<f32>,
}

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct WithMap {
    map: TensorMap,
    n: u32,
}

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Empty {}

#[derive(Clone, Copy, KernelParam)]
pub enum Choice {
    Yes,
    No,
}

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Generic<T> {
    x: T,
    n: u32,
}

#[kernel]
pub unsafe fn takes_a_generic_of_a_letter(_x: Generic<char>) {}

fn main() {}
