use moye_device::layout::{IntTuple, transform, tuple};

const SUM: IntTuple = transform!(tuple!((4, 2)), tuple!((4, (2, 3))), |a, b| a + b);

fn main() {
    println!("{SUM}");
}
