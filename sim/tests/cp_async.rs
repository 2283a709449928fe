//! `cp.async`: the data arrive at the wait, and not before.

use crate::common::fault;
use moye_sim::intrinsics::*;
use moye_sim::{Access, Allocation, Dim3, FaultKind, GlobalMemory, Launch};

fn bytes_0_to_255(memory: &GlobalMemory) -> Allocation {
    let source = memory.alloc(256, "source").unwrap();
    source.write(0, &(0..=255).collect::<Vec<u8>>()).unwrap();
    source
}

fn launch(memory: &GlobalMemory) -> Launch<'static> {
    Launch::new("k", 1, 32, memory).shared_bytes(1024)
}

#[test]
fn copies_of_every_size_arrive_at_the_wait_zero_filled_behind_the_source() {
    let memory = GlobalMemory::new();
    let source = bytes_0_to_255(&memory);
    let from = source.address();
    launch(&memory)
        .run(&|| {
            let base = shared_base() + 32 * lane_id();
            cp_async(base, from + 16, 16, 16);
            cp_async(base + 16, from + 8, 8, 5);
            cp_async(base + 24, from + 4, 4, 4);
            cp_async(base + 28, 3, 4, 0);
            cp_async_wait_all();
            assert_eq!(load_shared::<[u8; 16]>(base), std::array::from_fn(|i| 16 + i as u8));
            assert_eq!(load_shared::<[u8; 8]>(base + 16), [8, 9, 10, 11, 12, 0, 0, 0], "5 of 8 bytes");
            assert_eq!(
                load_shared::<[u8; 8]>(base + 24),
                [4, 5, 6, 7, 0, 0, 0, 0],
                "nothing read of the last 4"
            );
        })
        .unwrap();
}

#[test]
fn reading_before_the_wait_faults_with_issuer_and_line() {
    let memory = GlobalMemory::new();
    let source = bytes_0_to_255(&memory);
    let from = source.address();
    let line = line!() + 3;
    let error = fault(launch(&memory), &|| {
        if lane_id() == 9 {
            cp_async(shared_base(), from, 16, 16);
            cp_async_commit();
        }
        sync_threads();
        load_shared::<u32>(shared_base() + 4);
    });
    let expected = format!(
        "read of 4 bytes of shared memory at offset 4 while a cp.async into it is in flight: thread (9,0,0) issued it at {}:{line} and has not waited for it\ncall `cp_async_commit` and `cp_async_wait` in the thread that copies, then `sync_threads`, before the access",
        file!()
    );
    assert!(error.to_string().ends_with(&expected), "{error}");
}

#[test]
fn groups_complete_oldest_first_and_only_as_far_as_waited_for() {
    let memory = GlobalMemory::new();
    let source = bytes_0_to_255(&memory);
    let from = source.address();
    let kernel = |wait: u32, read: u32| {
        move || {
            for stage in 0..3 {
                cp_async(shared_base() + 128 * stage + 4 * lane_id(), from + 4 * u64::from(stage), 4, 4);
                cp_async_commit();
            }
            cp_async_wait_group(wait);
            sync_threads();
            let word: [u8; 4] = load_shared(shared_base() + 128 * read + 4 * (31 - lane_id()));
            assert_eq!(u32::from(word[0]), 4 * read);
        }
    };
    for (wait, read) in [(2, 0), (1, 0), (1, 1), (0, 2)] {
        launch(&memory).run(&kernel(wait, read)).unwrap_or_else(|e| panic!("wait {wait}, stage {read}: {e}"));
    }
    for (wait, read) in [(3, 0), (2, 1), (1, 2)] {
        let error = fault(launch(&memory), &kernel(wait, read));
        assert!(matches!(error.kind, FaultKind::SharedInFlight { .. }), "wait {wait}, stage {read}: {error}");
    }
}

#[test]
fn a_wait_for_groups_leaves_uncommitted_copies_in_flight_and_empty_groups_count() {
    let memory = GlobalMemory::new();
    let source = bytes_0_to_255(&memory);
    let from = source.address();
    let error = fault(launch(&memory), &|| {
        cp_async(shared_base() + 4 * lane_id(), from, 4, 4);
        cp_async_wait_group(0);
        load_shared::<u32>(shared_base() + 4 * lane_id());
    });
    assert!(matches!(error.kind, FaultKind::SharedInFlight { .. }), "nothing was committed: {error}");
    launch(&memory)
        .run(&|| {
            cp_async(shared_base() + 4 * lane_id(), from, 4, 4);
            cp_async_commit();
            cp_async_commit();
            cp_async_wait_group(1);
            load_shared::<u32>(shared_base() + 4 * lane_id());
        })
        .unwrap();
}

#[test]
fn a_thread_that_exits_without_waiting_leaves_its_copies_in_flight_for_good() {
    let memory = GlobalMemory::new();
    let source = bytes_0_to_255(&memory);
    let from = source.address();
    let leave = || cp_async(shared_base() + 4 * lane_id(), from, 4, 4);
    launch(&memory).run(&leave).expect("copies in flight at the exit are no fault");
    let error = fault(launch(&memory), &|| {
        if lane_id() == 0 {
            return cp_async(shared_base(), from, 4, 4);
        }
        load_shared::<u32>(shared_base());
    });
    assert!(
        error.to_string().contains("and exited without waiting for it\ncall `cp_async_commit`"),
        "{error}"
    );
}

#[test]
fn writing_to_what_is_in_flight_faults_for_stores_and_copies() {
    let memory = GlobalMemory::new();
    let source = bytes_0_to_255(&memory);
    let from = source.address();
    let error = fault(launch(&memory), &|| {
        cp_async(shared_base() + 4 * lane_id(), from, 4, 4);
        store_shared(shared_base() + 4 * lane_id(), 1u32);
    });
    assert!(matches!(error.kind, FaultKind::SharedInFlight { access: Access::Write, .. }), "{error}");
    let error = fault(launch(&memory), &|| cp_async(shared_base(), from, 4, 4));
    assert_eq!(error.thread, Dim3::new(1, 0, 0), "the second copy to the same bytes: {error}");
    assert!(
        matches!(error.kind, FaultKind::SharedInFlight { access: Access::CpAsyncDestination, .. }),
        "{error}"
    );
}

#[test]
fn source_and_destination_are_checked_when_the_copy_is_issued() {
    let memory = GlobalMemory::new();
    let source = bytes_0_to_255(&memory);
    let (from, to) = (source.address(), shared_base());
    let issue = |to: u32, from: u64, bytes: u32, read: u32| {
        fault(Launch::new("k", 1, 1, &memory).shared_bytes(1024), &|| cp_async(to, from, bytes, read)).kind
    };
    assert!(matches!(
        issue(to, from + 256, 16, 1),
        FaultKind::GlobalOutOfBounds { access: Access::CpAsyncSource, bytes: 1, .. }
    ));
    assert!(matches!(issue(to, from + 4, 8, 8), FaultKind::GlobalMisaligned { bytes: 8, .. }));
    assert!(matches!(issue(to + 8, from, 16, 16), FaultKind::SharedMisaligned { offset: 8, .. }));
    assert!(matches!(issue(to + 1024, from, 16, 0), FaultKind::SharedOutOfBounds { offset: 1024, .. }));
    for (bytes, read) in [(12, 12), (0, 0), (4, 5)] {
        let kind = issue(to, from, bytes, read);
        assert!(matches!(kind, FaultKind::InvalidOperand { operation: "cp.async", .. }), "{kind}");
    }
}
