use moye_device::kernel;

#[kernel(thread = 256)]
pub unsafe fn unknown() {}

#[kernel(threads)]
pub unsafe fn no_value() {}

#[kernel(threads = 0)]
pub unsafe fn no_threads() {}

#[kernel(threads = 1025)]
pub unsafe fn many_threads() {}

#[kernel(threads = "256")]
pub unsafe fn threads_in_words() {}

#[kernel(threads = 256, min_blocks = 33)]
pub unsafe fn many_blocks() {}

#[kernel(min_blocks = 2)]
pub unsafe fn blocks_of_no_size() {}

#[kernel(threads = 256, threads = 128)]
pub unsafe fn twice() {}

const ROWS: usize = 64;

#[kernel(threads = ROWS * 32)]
pub unsafe fn computed() {}

fn main() {}
