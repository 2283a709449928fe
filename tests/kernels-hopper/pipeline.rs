//! A pipeline whose consumers read runs of stages in turn.

use moye_device::arch::*;
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut, Shared, SharedArray};
use moye_device::pipeline::{PipelineStorage, Warps};
use moye_device::static_layout;

/// Stages of the ring, and words of each.
const STAGES: u32 = 3;
const WORDS: u32 = 32;

static_layout! {
    /// The ring.
    pub Ring = moye_device::layout!(96);
}

/// What the kernel keeps in shared memory; its array is the first part. One warp releases a stage.
pub type RingStorage = (SharedArray<u32, Ring>, PipelineStorage<STAGES, Warps<1>>);

/// A block of three warps: one loads `source`, 32 words a stage, and the other two read runs of
/// stages in turn, the first warp's first. `runs` are the lengths of `count` runs. Each reader
/// writes the words to `output`, times 2, and the second one's plus 1.
#[kernel(threads = 96, shared = RingStorage)]
pub unsafe fn readers_in_turn(source: Global<u32>, runs: Global<u32>, count: u32, output: GlobalMut<u32>) {
    let (warp, lane) = (thread_idx().x / 32, lane_id());
    // SAFETY: the kernel declares its storage, of which the ring is at the start; `source` and
    // `output` have 32 words for each stage of all runs. Each warp goes one way. A turn is given
    // behind the wait for the last stage of a run.
    unsafe {
        let (_, pipeline) = <RingStorage as moye_device::memory::SharedStorage>::take();
        let ring = Shared::<u32>::from_address(shared_base());
        if thread_idx().x == 0 {
            pipeline.init();
        }
        sync_threads();
        if warp == 2 {
            if lane == 0 {
                let mut producer = pipeline.producer();
                let (mut run, mut stage) = (0, 0);
                while run < count {
                    let end = stage + runs.read(run.into());
                    while stage < end {
                        let filling = producer.acquire(4 * WORDS);
                        let to = ring.offset((WORDS * filling.index()) as i32).address();
                        let from = source.offset(i64::from(WORDS * stage)).address();
                        bulk_load(to, from, 4 * WORDS, filling.barrier(), None, None);
                        stage += 1;
                    }
                    run += 1;
                }
            }
        } else {
            let mut consumer = pipeline.consumer();
            let (mut run, mut stage) = (0, 0);
            while run < count {
                let stages = runs.read(run.into());
                if run % 2 == warp {
                    if run > 0 {
                        sync_barrier(1 + warp, 64);
                    }
                    let end = stage + stages;
                    while stage < end {
                        let full = consumer.wait();
                        // The lane that arrives for the warp reads:
                        // `compute-sanitizer --tool racecheck` orders only the arriving thread's
                        // accesses before an arrival, not those of lanes that met it at a warp
                        // barrier.
                        if lane == 0 {
                            let mut at = 0;
                            while at < WORDS {
                                let word = ring.read((WORDS * full.index() + at) as i32);
                                output.write(i64::from(WORDS * stage + at), 2 * word + warp);
                                at += 1;
                            }
                        }
                        sync_warp(FULL_WARP);
                        consumer.release(full);
                        stage += 1;
                    }
                    if run + 1 < count {
                        arrive_barrier(2 - warp, 64);
                    }
                } else {
                    consumer.skip(stages);
                    stage += stages;
                }
                run += 1;
            }
        }
    }
}
