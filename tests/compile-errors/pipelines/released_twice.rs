//! A stage is released once.

use moye_device::pipeline::Consumer;

fn releases(consumer: &mut Consumer<4, 1>) {
    let full = consumer.wait();
    consumer.release(full);
    consumer.release(full);
}

fn main() {
    let _ = releases;
}
