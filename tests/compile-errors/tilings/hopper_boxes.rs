//! A tile in which no elements follow each other is not made of boxes.

use moye_device::atom::tma::TmaTile;
use moye_device::layout::{ComposedLayout, layout};

const TILE: TmaTile = TmaTile::new(ComposedLayout::plain(layout!((64, 32):(2, 128))), 16);

fn main() {
    let _ = TILE;
}
