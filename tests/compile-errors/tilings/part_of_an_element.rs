//! An atom of 16 bits moves half of an f32.

use moye_device::atom::TiledCopy;
use moye_device::atom::copy::UniversalCopy;
use moye_device::layout::layout;

const COPY: TiledCopy<UniversalCopy<u16>, f32> = TiledCopy::new(layout!((32, 8)), layout!((1, 1)));

fn main() {
    println!("{}", COPY.tile());
}
