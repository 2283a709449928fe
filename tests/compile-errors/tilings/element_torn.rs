use moye_device::atom::TiledCopy;
use moye_device::atom::copy::SM75_U32x4_LDSM_N;
use moye_device::layout::layout;

const COPY: TiledCopy<SM75_U32x4_LDSM_N, f64> = TiledCopy::new(layout!((32, 1)), layout!((1, 4)));

fn main() {
    println!("{}", COPY.tile());
}
