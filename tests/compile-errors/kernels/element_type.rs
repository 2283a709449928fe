use moye_device::kernel;
use moye_device::memory::Global;

#[kernel]
pub unsafe fn reads_strings(_x: Global<String>) {}

fn main() {}
