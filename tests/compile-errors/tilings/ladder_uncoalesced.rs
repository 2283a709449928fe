//! Step 3 of the ladder with four neighbours a thread, two at a time: each request leaves half of its sectors unused.

#[path = "../ladder.rs"]
mod ladder;

use moye_device::atom::TiledCopy;
use moye_device::atom::copy::UniversalCopy;
use moye_kernels::ladder::{Problem, staged};
use moye_device::layout::layout;
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::{Aligned, UnitStride};

ladder_tiling! {
    Torn: u64,
    strides Aligned<UnitStride<0>, 8>,
    smem layout!((128, 8):(1, 130)),
    load UniversalCopy<u64> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)))
}

fn main() {
    let (a, c) = (Global::from_address(0), GlobalMut::from_address(0));
    unsafe { staged::<Torn>(Problem { a, b: a, c, shape: (1, 1, 1), leading: [2, 2, 1] }) };
}
