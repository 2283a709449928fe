use moye_device::layout::layout;

fn main() {
    let _ = layout!((4, 2.5));
    let width = 2.5;
    let _ = layout!((4, width));
    let _ = layout!((4, _):(1, 4));
    let _ = layout!((4:1, 2));
}
