//! A stage is released once.

use moye_device::pipeline::Consumer;

unsafe fn releases(consumer: &mut Consumer<4, 1>) {
    let full = unsafe { consumer.wait() };
    unsafe { consumer.release(full) };
    unsafe { consumer.release(full) };
}

fn main() {
    let _ = releases;
}
