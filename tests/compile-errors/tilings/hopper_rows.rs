//! A tile whose rows follow each other is not where `wgmma` looks for it.

use moye_device::atom::wgmma::{SM90_64x128x16_F32BF16BF16_SS as Atom, SharedOperand};
use moye_device::layout::{ComposedLayout, layout};

const A: SharedOperand = SharedOperand::a::<Atom>(ComposedLayout::plain(layout!((128, 64):(64, 1))));

fn main() {
    let _ = A;
}
