//! Operands whose N do not fit: a 8 x 4, b 6 x 4, c 8 x 8.

use moye_device::algorithm::gemm;
use moye_device::static_layout;
use moye_device::tensor::Fragment;
use moye_device::layout::layout;

static_layout! {
    A = layout!((8, 4));
    B = layout!((6, 4));
    C = layout!((8, 8));
}

fn main() {
    let (a, b) = (Fragment::<f32, A>::filled(1.0), Fragment::<f32, B>::filled(1.0));
    let mut c = Fragment::<f32, C>::filled(0.0);
    unsafe { gemm(&a, &b, &mut c) };
}
