use moye_device::layout::layout;

fn main() {
    let _ = layout!((4, 0));
}
