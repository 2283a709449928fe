//! The faults of kernels, each by a kernel that causes it, launched like any other on
//! `Device::sim()`: the fault's kind, and that the message names kernel, block, thread, line and
//! values.
//!
//! `sim/tests` has the other faults, among them one that takes minutes with a device's limits
//! (`FaultKind::NoProgress`) and one that the host causes (`FaultKind::NoStack`).

mod kernels;
mod pipelines;

use moye::{Device, Error, GlobalMut, Grid, Kernel};
use moye_sim::{Access, Fault, FaultKind};
use rstest::rstest;

/// A kernel of this file.
type Faulty = Kernel<(GlobalMut<u32>,)>;

/// Launches a faulty kernel, two blocks of 64 threads.
fn fault(kernel: &Faulty, grid: Grid) -> Fault {
    let device = Device::sim();
    let mut x = device.upload(&[0u32; 64]).unwrap();
    // SAFETY: the simulator checks every access; the kernel runs on no other device.
    let error = unsafe { device.launch(kernel, grid, (&mut x,)) }.unwrap_err();
    let Error::Simulator(error) = error else { panic!("{}: {error}", kernel.name()) };
    let fault = error.fault().unwrap_or_else(|| panic!("{}: {error}", kernel.name())).clone();
    // The device stays usable.
    assert_eq!(device.upload(&[5u32]).unwrap().download().unwrap(), [5]);
    fault
}

/// Whether a fault is of a kind.
type Kind = fn(&FaultKind) -> bool;

macro_rules! kind {
    ($($pattern:tt)*) => {
        (|kind: &FaultKind| matches!(kind, FaultKind::$($pattern)*)) as Kind
    };
}

#[rstest]
#[case::write_out_of_bounds(
    kernels::writes_out_of_bounds,
    kind!(GlobalOutOfBounds { access: Access::Write, bytes: 4, .. }),
    3,
    &["write of 4 bytes of global memory at 0x", "256 bytes"]
)]
#[case::atomic_out_of_bounds(
    kernels::adds_out_of_bounds,
    kind!(GlobalOutOfBounds { access: Access::Atomic, bytes: 4, .. }),
    3,
    &["atomic operation of 4 bytes of global memory at 0x", "256 bytes"]
)]
#[case::barrier_that_one_never_reaches(
    kernels::leaves_before_the_barrier,
    kind!(BarrierIncomplete { barrier: 0, arrived: 63, expected: 64, .. }),
    0,
    &["barrier 0 is incomplete: 63 of 64 threads arrived", "63 threads (0,0,0) to (2,0,0), (4,0,0) to (63,0,0) wait at barrier 0 at ", "1 thread (3,0,0) exited"]
)]
#[case::barrier_with_two_counts(
    kernels::counts_a_barrier_in_two_ways,
    kind!(BarrierMismatch { barrier: 1, count: 32, expected: 64, .. }),
    32,
    &["barrier 1 is used with 32 threads, but other threads wait at it with 64 threads", "32 threads (0,0,0) to (31,0,0) wait"]
)]
#[case::lane_that_has_exited(
    kernels::multiplies_without_a_lane,
    kind!(WarpLaneExited { mask: u32::MAX, missing: 0b1000, .. }),
    0,
    &["ldmatrix", "needs lanes that have exited or do not exist, 0x00000008"]
)]
#[case::lanes_in_two_operations(
    kernels::has_lanes_in_two_operations,
    kind!(WarpMismatch { operation: "vote.sync.any", other_lane: 0, .. }),
    16,
    &["vote.sync.any with mask 0xffffffff, but lane 0 of the mask is in bar.warp.sync with mask 0xffffffff at "]
)]
#[case::lanes_that_never_come(
    kernels::has_lanes_that_never_come,
    kind!(WarpIncomplete { mask: u32::MAX, missing: 0xFFFF_0000, .. }),
    0,
    &["bar.warp.sync with mask 0xffffffff is not reached by lanes 0xffff0000", "wait for the phase of parity 0 of the mbarrier"]
)]
#[case::shuffle_from_a_lane_that_takes_no_part(
    kernels::shuffles_from_a_lane_that_takes_no_part,
    kind!(ShuffleInactive { source_lane: 8, active: 0xFF, .. }),
    7,
    &["shfl.sync.down reads lane 8, which is not in the mask of active lanes 0x000000ff"]
)]
#[case::wait_that_never_ends(
    kernels::waits_for_what_never_happens,
    kind!(WaitNeverEnds { .. }),
    3,
    &["which no thread of the block can make happen any more", "63 threads"]
)]
#[case::store_left_behind(
    kernels::leaves_a_store_behind,
    kind!(BulkCopiesLeft { copies: 1 }),
    3,
    &["the thread exited while 1 bulk copies that it issued still read shared memory"]
)]
#[case::load_left_behind(
    kernels::leaves_a_load_behind,
    kind!(BulkLoadsLeft { copies: 1, .. }),
    63,
    &["while 1 bulk copies into or out of its shared memory were in flight, the first issued by thread (3,0,0) at "]
)]
#[case::write_under_a_store(
    kernels::writes_what_is_being_stored,
    kind!(SharedBeingRead { access: Access::Write, bytes: 4, offset: 4, .. }),
    3,
    &["write of 4 bytes of shared memory at offset 4, which "]
)]
#[case::store_without_a_fence(
    kernels::stores_without_a_fence,
    kind!(SharedUnfenced { access: Access::BulkSource, offset: 0, writer: Some(_) }),
    3,
    &["bulk copy's read of shared memory at offset 0, which thread (3,0,0) wrote with no fence.proxy.async since"]
)]
fn a_fault_names_its_block_thread_and_values(
    #[case] kernel: Faulty,
    #[case] kind: Kind,
    #[case] thread: u32,
    #[case] parts: &[&str],
) {
    check(&fault(&kernel, Grid::new(2, 64)), &kernel, kind, thread, parts);
}

#[rstest]
#[case::block_that_has_ended(
    kernels::reads_of_a_block_that_has_ended,
    kind!(PeerEnded { access: Access::Read, rank: 0 }),
    &["read of the shared memory of block 0 of the cluster, which has exited"]
)]
#[case::store_on_its_way(
    kernels::reads_a_store_that_is_on_its_way,
    kind!(SharedInFlight { access: Access::Read, bytes: 4, offset: 0, what: "st.async", .. }),
    &["read of 4 bytes of shared memory at offset 0 while a st.async into it is in flight: thread (0,0,0) issued it at "]
)]
#[case::block_that_is_not_there(
    kernels::reads_of_a_block_that_is_not_there,
    kind!(NoSuchPeer { rank: 2, blocks: 2, .. }),
    &["which is in block 2: the cluster has 2 blocks"]
)]
fn a_fault_between_blocks_of_a_cluster_names_its_block_thread_and_values(
    #[case] kernel: Faulty,
    #[case] kind: Kind,
    #[case] parts: &[&str],
) {
    check(&fault(&kernel, Grid::new(2, 64).clusters(2)), &kernel, kind, 3, parts);
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_stack_overflow_names_its_block_and_thread() {
    let fault = fault(&kernels::recurses, Grid::new(2, 64));
    assert!(matches!(fault.kind, FaultKind::StackOverrun { bytes: 262_144 }), "{fault}");
    let told = "kernel `recurses`, block (1,0,0), thread (3,0,0)";
    let text = fault.to_string();
    assert!(text.starts_with(told) && text.contains("stack of 262144 bytes overflowed"), "{text}");
}

fn check(fault: &Fault, kernel: &Faulty, kind: Kind, thread: u32, parts: &[&str]) {
    assert!(kind(&fault.kind), "{fault}: {:?}", fault.kind);
    let text = fault.to_string();
    // The fault of the lowest block is reported.
    let block = u32::from(!EVERY_BLOCK.contains(&kernel.name()));
    let place = format!("kernel `{}`, block ({block},0,0), thread ({thread},0,0)", kernel.name());
    assert!(text.starts_with(&place), "{place}: {text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing: {text}");
    }
    // The kernel's line, if an instruction in it is at fault; faults detected when a thread or a
    // block ends have none.
    let ends = matches!(fault.kind, FaultKind::BulkCopiesLeft { .. } | FaultKind::BulkLoadsLeft { .. });
    match fault.location {
        Some(location) => {
            assert_eq!(location.file(), "tests/device/faults/kernels.rs", "{text}");
            let line = format!("tests/device/faults/kernels.rs:{}", location.line());
            assert!(text.contains(&line), "{line}: {text}");
        }
        None => assert!(ends, "no line: {text}"),
    }
}

/// Kernels in which every block makes the mistake.
const EVERY_BLOCK: &[&str] = &[
    "counts_a_barrier_in_two_ways",
    "has_lanes_in_two_operations",
    "has_lanes_that_never_come",
    "shuffles_from_a_lane_that_takes_no_part",
];
