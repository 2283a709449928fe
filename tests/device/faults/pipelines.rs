//! Mistakes with a [`Pipeline`](moye_device::pipeline::Pipeline) that its types do not prevent,
//! each by a kernel on `Device::sim()`. Mistakes that they prevent do not compile:
//! `tests/fixtures/compile-errors/tilings.rs`.

use crate::fault;
use moye::Grid;
use moye_device::arch::*;
use moye_device::kernel;
use moye_device::memory::{GlobalMut, Shared, SharedArray, SharedStorage};
use moye_device::pipeline::{PipelineStorage, Warps};
use moye_device::static_layout;
use moye_sim::{Access, FaultKind};

/// Stages of the ring, and bytes of each.
const STAGES: u32 = 2;
const BYTES: u32 = 64;
/// The number of filled stages: the ring wraps around three times.
const TURNS: u32 = 6;

static_layout! {
    /// The ring.
    pub Ring = moye_device::layout!(32);
}

/// Each kernel's shared-memory storage; the ring comes first.
type Storage<const WARPS: u32 = 1> = (SharedArray<u32, Ring>, PipelineStorage<STAGES, Warps<WARPS>>);

/// The mistake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// A stage's reader releases it while its copy is still reading it.
    ReleasesEarly,
    /// A stage is read before the wait for it.
    ReadsBeforeTheWait,
    /// A warp that synchronises with the producer reads a stage that no thread has waited for.
    ReadsWithoutAWait,
    /// More bytes of a stage are announced than arrive.
    AnnouncesTooMuch,
}

/// A block of three warps, in which a stage waits for `WARPS` releases: the first lane of the first
/// warp fills stages, that of the second copies each to `x`, and the third only makes the mistake.
///
/// # Safety
/// `x` has a stage's words.
#[inline(always)]
unsafe fn ring<const WARPS: u32>(x: GlobalMut<u32>, wrong: Wrong) {
    let (warp, lane) = (thread_idx().x / 32, lane_id());
    // SAFETY: `x` has a stage's words; the simulator checks the rest.
    unsafe {
        let (_, pipeline) = <Storage<WARPS> as SharedStorage>::take();
        let ring = Shared::<u32>::from_address(shared_base());
        let stage_at = |stage: u32| ring.offset((stage * BYTES / 4) as i32);
        if thread_idx().x == 0 {
            pipeline.init();
        }
        sync_threads();
        if warp == 0 && lane == 0 {
            let mut producer = pipeline.producer();
            let announced = if wrong == Wrong::AnnouncesTooMuch { BYTES + 16 } else { BYTES };
            let turns = if wrong == Wrong::ReadsWithoutAWait { STAGES } else { TURNS };
            for _ in 0..turns {
                let filling = producer.acquire(announced);
                let to = stage_at(filling.index()).address();
                bulk_load(to, x.address(), BYTES, filling.barrier(), None, None);
            }
        } else if warp == 1 && wrong != Wrong::ReadsWithoutAWait {
            let mut consumer = pipeline.consumer();
            for _ in 0..TURNS {
                if wrong == Wrong::ReadsBeforeTheWait && lane == 0 {
                    x.write(0, stage_at(0).read(0));
                }
                let full = consumer.wait();
                if lane == 0 {
                    bulk_store(x.address(), stage_at(full.index()).address(), BYTES, None);
                    bulk_commit_group();
                }
                if wrong == Wrong::ReleasesEarly {
                    consumer.release(full);
                    bulk_wait_group_read::<0>();
                } else {
                    bulk_wait_group_read::<0>();
                    consumer.release(full);
                }
            }
        }
        if wrong == Wrong::ReadsWithoutAWait && warp != 1 {
            // The third warp synchronises with the producer: it knows that the copies were issued,
            // not that they have arrived.
            sync_barrier(1, 64);
            if warp == 2 && lane == 0 {
                x.write(0, stage_at(0).read(0));
            }
            // The producer must not exit before the read.
            sync_barrier(1, 64);
        }
    }
}

macro_rules! kernels {
    ($($name:ident $wrong:ident $warps:literal;)*) => { $(
        #[kernel(threads = 96, shared = Storage<$warps>)]
        unsafe fn $name(x: GlobalMut<u32>) {
            // SAFETY: the kernel has the contract of `ring`.
            unsafe { ring::<$warps>(x, Wrong::$wrong) }
        }
    )* };
}
kernels! {
    does_nothing_wrong Nothing 1;
    releases_by_one_warp_of_two Nothing 2;
    releases_early ReleasesEarly 1;
    reads_before_the_wait ReadsBeforeTheWait 1;
    reads_without_a_wait ReadsWithoutAWait 1;
    announces_too_much AnnouncesTooMuch 1;
}

/// Checks that all parts are in the message, and that the fault's line is in this file.
fn check(text: &str, parts: &[&str]) {
    for part in parts.iter().chain(&["tests/device/faults/pipelines.rs:"]) {
        assert!(text.contains(part), "`{part}` is missing: {text}");
    }
}

#[test]
fn the_ring_without_a_mistake_runs() {
    let device = moye::Device::sim();
    let words: Vec<u32> = (1..=16).collect();
    let mut x = device.upload(&words).unwrap();
    // SAFETY: a stage's words.
    unsafe { device.launch(&does_nothing_wrong, Grid::new(1, 96), (&mut x,)) }.unwrap();
    assert_eq!(x.download().unwrap(), words);
}

#[test]
fn refilling_a_stage_before_its_copy_has_read_it_is_a_fault() {
    let fault = fault(&releases_early, Grid::new(1, 96));
    let FaultKind::SharedBeingRead { access, offset: 0, .. } = fault.kind else { panic!("{fault}") };
    assert_eq!((access, fault.thread.x), (Access::BulkDestination, 0), "{fault}");
    check(
        &fault.to_string(),
        &[
            "bulk copy's write of 16 bytes of shared memory at offset 0, which cp.async.bulk.global.shared::cta of thread (32,0,0) at ",
            "(thread (32,0,0) released it at tests/device/faults/pipelines.rs:",
            "\nlet the storing thread call `bulk_wait_group_read`, then a barrier",
        ],
    );
}

#[test]
fn reading_a_stage_before_its_wait_is_a_fault() {
    let fault = fault(&reads_before_the_wait, Grid::new(1, 96));
    // Either access may be the first, the read or the copy: nothing orders them.
    let FaultKind::Race(race) = &fault.kind else { panic!("{fault}") };
    let both = [race.access, race.other.access];
    assert!(both.contains(&Access::Read) && both.contains(&Access::BulkDestination), "{fault}");
    assert!([fault.thread.x, race.other.thread.x].contains(&32), "{fault}");
    check(
        &fault.to_string(),
        &["of shared memory, at offset 0", "wait on the mbarrier at which the copy completes"],
    );
}

#[test]
fn reading_a_stage_whose_copy_was_not_waited_for_is_a_fault() {
    let fault = fault(&reads_without_a_wait, Grid::new(1, 96));
    assert!(
        matches!(
            fault.kind,
            FaultKind::SharedInFlight {
                access: Access::Read,
                bytes: 4,
                offset: 0,
                what: "bulk copy",
                issuer_exited: false,
                ..
            }
        ),
        "{fault}"
    );
    assert_eq!(fault.thread.x, 64, "{fault}");
    check(
        &fault.to_string(),
        &[
            "read of 4 bytes of shared memory at offset 0 while a bulk copy into it is in flight: thread (0,0,0) issued it at tests/device/faults/pipelines.rs:",
            " and has not waited for it",
        ],
    );
}

#[test]
fn a_stage_that_one_warp_of_two_releases_leaves_the_producer_waiting() {
    let fault = fault(&releases_by_one_warp_of_two, Grid::new(1, 96));
    assert!(matches!(fault.kind, FaultKind::WaitNeverEnds { .. }), "{fault}");
    check(
        &fault.to_string(),
        &[
            "1 thread (0,0,0) waits for the phase of parity 0 of the mbarrier at offset 144, which still expects 1 arrivals and 0 bytes",
            "32 threads (32,0,0) to (63,0,0) wait for the phase of parity 1 of the mbarrier at offset 128, which still expects 1 arrivals",
        ],
    );
}

#[test]
fn bytes_that_were_announced_and_do_not_come_leave_the_consumer_waiting() {
    let fault = fault(&announces_too_much, Grid::new(1, 96));
    assert!(matches!(fault.kind, FaultKind::WaitNeverEnds { .. }), "{fault}");
    check(
        &fault.to_string(),
        &[
            "(32,0,0) to (63,0,0) wait for the phase of parity 0 of the mbarrier at offset 128, which still expects 0 arrivals and 16 bytes",
        ],
    );
}
