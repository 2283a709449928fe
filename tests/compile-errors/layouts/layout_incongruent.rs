use moye_device::layout::layout;

fn main() {
    let _ = layout!((4, (2, 2)):(2, (1, 8, 16)));
    let _ = layout!((4, (2, 2)):(2, 1));
}
