#![deny(unsafe_op_in_unsafe_fn)]

use moye_device::kernel;
use moye_device::memory::GlobalMut;

// The body is that of an ordinary unsafe fn: what is unsafe in it stands in unsafe blocks.
#[kernel]
pub unsafe fn writes(y: GlobalMut<f32>) {
    *(y.address() as *mut f32) = 1.0;
}

fn main() {}
