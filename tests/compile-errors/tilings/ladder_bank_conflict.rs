//! Step 2 of the ladder with threads whose reads of A meet in the banks: rows of 8 elements, K the fast axis.

#[path = "../ladder.rs"]
mod ladder;

use moye_device::atom::TiledCopy;
use moye_device::atom::copy::UniversalCopy;
use moye_kernels::ladder::{Problem, staged};
use moye_device::layout::layout;
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::UnitStride;

ladder_tiling! {
    Conflicting: f32,
    strides UnitStride<1>,
    smem layout!((128, 8):(8, 1)),
    load UniversalCopy<f32> = TiledCopy::new(layout!((32, 8):(8, 1)), layout!((1, 1)))
}

fn main() {
    let (a, c) = (Global::from_address(0), GlobalMut::from_address(0));
    unsafe { staged::<Conflicting>(Problem { a, b: a, c, shape: (1, 1, 1), leading: [8, 8, 1] }) };
}
