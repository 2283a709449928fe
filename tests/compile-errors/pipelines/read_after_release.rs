//! A stage that was released belongs to the producer: its number is gone with it.

use moye_device::pipeline::Consumer;

fn reads(consumer: &mut Consumer<4, 1>) -> u32 {
    let full = consumer.wait();
    consumer.release(full);
    full.index()
}

fn main() {
    let _ = reads;
}
