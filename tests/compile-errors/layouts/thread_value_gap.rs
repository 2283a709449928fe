use moye_device::layout::{TvLayout, layout, make_layout_tv};

const TV: TvLayout = make_layout_tv(layout!((32, 4):(8, 1)), layout!((1, 4)));

fn main() {
    println!("{}", TV.layout);
}
