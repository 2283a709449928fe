//! A predicate is of one thread, `ldmatrix` of 32.

use moye_device::algorithm::copy_if;
use moye_device::atom::copy::SM75_U32x4_LDSM_N;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::layout;
use moye_device::memory::Shared;
use moye_device::tensor::SharedTensor;
use moye_device::{static_layout, tiled_copy};

tiled_copy! {
    Rows: TiledCopy<SM75_U32x4_LDSM_N, u16> = TiledCopy::new(layout!((16, 2)), layout!((2, 4)));
}
static_layout! {
    Smem = layout!((32, 32));
}

fn main() {
    let smem = SharedTensor::<u16, Smem>::shared(Shared::from_address(0));
    let copy = Rows::get_slice(0);
    unsafe {
        let mut fragment = copy.partition_d(smem).make_fragment_like();
        copy_if(Rows, |i| i == 0, &copy.partition_s(smem), &mut fragment);
    }
}
