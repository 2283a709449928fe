//! Who fills the stages of a pipeline does not read them too.

use moye_device::pipeline::{Pipeline, Warps};

fn takes_both(pipeline: Pipeline<4, Warps<8>>) {
    let _producer = pipeline.producer();
    let _consumer = pipeline.consumer();
}

fn main() {
    let _ = takes_both;
}
