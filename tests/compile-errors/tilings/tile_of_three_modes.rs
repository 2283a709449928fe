//! A matrix has two modes, and so have its tiles.

use moye_device::layout::layout;
use moye_device::memory::Global;
use moye_device::static_layout;
use moye_device::tensor::{Matrix, UnitStride};

static_layout! {
    Tile = layout!((16, 8, 2));
}

fn main() {
    let matrix = Matrix::new(Global::<f32>::from_address(0), (16, 16), UnitStride::<0>(16));
    let tile = matrix.local_tile::<Tile, _>((0, 0));
    println!("{}", tile.layout());
}
