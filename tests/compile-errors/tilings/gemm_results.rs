//! Results of another shape than what they are added to.

use moye_device::algorithm::gemm_tiled_into;
use moye_device::atom::mma::UniversalFma;
use moye_device::atom::TiledMma;
use moye_device::layout::layout;
use moye_device::tensor::Fragment;
use moye_device::{static_layout, tiled_mma};

tiled_mma! {
    Fma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((1, 1, 1)));
}
static_layout! {
    A = layout!((4, 2));
    B = layout!((3, 2));
    C = layout!((4, 3));
    D = layout!((3, 4));
}

fn main() {
    let (a, b) = (Fragment::<f32, A>::filled(1.0), Fragment::<f32, B>::filled(1.0));
    let (c, mut d) = (Fragment::<f32, C>::filled(0.0), Fragment::<f32, D>::filled(0.0));
    unsafe { gemm_tiled_into(Fma, &mut d, &a, &b, &c) };
}
