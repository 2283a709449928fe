//! `cp.async` writes shared memory, not registers.

use moye_device::algorithm::copy_tiled;
use moye_device::atom::copy::SM80_CP_ASYNC_CACHEGLOBAL;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::layout;
use moye_device::memory::Global;
use moye_device::tensor::{Aligned, Matrix, UnitStride};
use moye_device::{static_layout, tiled_copy};

tiled_copy! {
    Load: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
}
static_layout! {
    Tile = layout!((128, 8));
}

fn main() {
    let strides = Aligned::<_, 16>(UnitStride::<0>(128));
    let tile = Matrix::new(Global::<f32>::from_address(0), (128, 8), strides).local_tile::<Tile, _>((0, 0));
    let from = Load::get_slice(0).partition_s(tile);
    unsafe {
        let mut to = from.make_fragment_like();
        copy_tiled(Load, &from, &mut to);
    }
}
