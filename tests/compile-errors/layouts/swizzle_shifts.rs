use moye_device::layout::Swizzle;

const BOTH: Swizzle = Swizzle::new(2, 0, 3).composition(Swizzle::new(2, 0, 2));

fn main() {
    println!("{BOTH}");
}
