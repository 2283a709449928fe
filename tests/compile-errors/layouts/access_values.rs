use moye_device::analysis::{AccessReport, global_access};
use moye_device::layout::layout;

const REPORT: AccessReport = global_access(layout!((32, 6)), 32, 4);

fn main() {
    println!("{REPORT:?}");
}
