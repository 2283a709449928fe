//! `cp.async` reads global memory, not shared.

use moye_device::algorithm::copy_tiled;
use moye_device::atom::copy::SM80_CP_ASYNC_CACHEGLOBAL;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::layout;
use moye_device::memory::Shared;
use moye_device::tensor::SharedTensor;
use moye_device::{static_layout, tiled_copy};

tiled_copy! {
    Load: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
}
static_layout! {
    Smem = layout!((128, 8));
}

fn main() {
    let smem = SharedTensor::<f32, Smem>::shared(Shared::from_address(0));
    let copy = Load::get_slice(0);
    let from = copy.partition_s(smem);
    let mut to = copy.partition_d(smem);
    unsafe { copy_tiled(Load, &from, &mut to) };
}
