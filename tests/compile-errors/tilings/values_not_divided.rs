use moye_device::atom::TiledCopy;
use moye_device::atom::copy::UniversalCopy;
use moye_device::layout::layout;

const COPY: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((6, 1)));

fn main() {
    println!("{}", COPY.tile());
}
