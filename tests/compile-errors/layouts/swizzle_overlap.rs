use moye_device::layout::Swizzle;

const S: Swizzle = Swizzle::new(3, 4, 2);

fn main() {
    println!("{S}");
}
