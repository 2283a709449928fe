//! Asynchronous stores between the blocks of a cluster: which threads may access the stored words
//! when, and faults.

use crate::common::{Words, fault};
use moye_sim::intrinsics::*;
use moye_sim::{Access, Dim3, Fault, FaultKind, GlobalMemory, Launch};

/// The mbarriers are before the tile, which starts at a multiple of 64.
fn barrier(number: u32) -> u32 {
    shared_base() + 8 * number
}

fn tile() -> u32 {
    shared_base() + 64
}

fn meet() {
    cluster_arrive();
    cluster_wait();
}

/// Two blocks of 32 threads with 256 bytes after the mbarriers.
fn launch<'a>(memory: &GlobalMemory) -> Launch<'a> {
    Launch::new("k", 2, 32, memory).cluster(2).shared_bytes(320)
}

/// The first thread initialises two mbarriers that expect these bytes, then the blocks meet.
fn expect(bytes: [u32; 2]) {
    if thread_idx().x == 0 {
        for (number, bytes) in (0..).zip(bytes) {
            mbarrier_init(barrier(number), 1);
            mbarrier_arrive_expect_tx(barrier(number), bytes);
        }
    }
    meet();
}

/// Runs a step in thread 0 of block 0 once the mbarriers of both blocks expect `bytes`, then a step
/// in thread `at` of block 1 once thread 0 there has waited for them all; both blocks end together.
fn sent(bytes: [u32; 2], send: impl Fn() + Sync, at: u32, look: impl Fn() + Sync) -> Result<(), Fault> {
    let kernel = || {
        let (rank, t) = (cluster_rank(), thread_idx().x);
        expect(bytes);
        if (rank, t) == (0, 0) {
            send();
        }
        if (rank, t) == (1, 0) {
            (0..2)
                .filter(|&number| bytes[number] > 0)
                .for_each(|number| mbarrier_wait_parity(barrier(number as u32), 0));
        }
        // Gives the first thread time to wait, without synchronisation.
        (0..20_000).for_each(|_| _ = thread_idx());
        if (rank, t) == (1, at) {
            look();
        }
        meet();
    };
    let run = launch(&GlobalMemory::new()).run(&kernel);
    run.map(drop).map_err(|error| error.fault().unwrap_or_else(|| panic!("{error}")).clone())
}

#[test]
fn words_of_4_8_and_16_bytes_arrive_in_one_phase() {
    let send = || {
        let (to, at) = (|offset: u32| map_shared(tile() + offset, 1), map_shared(barrier(0), 1));
        store_async(to(4), 5_u32, at);
        store_async(to(8), 6_u64 << 40 | 7, at);
        store_async(to(16), [8_u32, 9, 10, 11], at);
    };
    let look = || {
        assert_eq!(load_shared::<u32>(tile() + 4), 5);
        assert_eq!(load_shared::<u64>(tile() + 8), 6 << 40 | 7);
        assert_eq!(load_shared::<[u32; 4]>(tile() + 16), [8, 9, 10, 11]);
    };
    sent([4 + 8 + 16, 0], send, 0, look).unwrap();
}

#[test]
fn a_block_may_store_to_itself_by_either_address() {
    let kernel = || {
        expect([8, 0]);
        if thread_idx().x == 0 {
            store_async(tile(), 5_u32, barrier(0));
            let rank = cluster_rank();
            store_async(map_shared(tile() + 4, rank), 6_u32, map_shared(barrier(0), rank));
        }
        mbarrier_wait_parity(barrier(0), 0);
        assert_eq!(load_shared::<u64>(tile()), 6 << 32 | 5);
        meet();
    };
    launch(&GlobalMemory::new()).run(&kernel).unwrap();
}

#[test]
fn a_launch_without_clusters_has_no_asynchronous_stores() {
    let kernel = || {
        mbarrier_init(barrier(0), 1);
        store_async(tile(), 5_u32, barrier(0));
    };
    let memory = GlobalMemory::new();
    let error = Launch::new("k", 1, 1, &memory).shared_bytes(320).run(&kernel).unwrap_err();
    assert!(error.to_string().contains("the launch has no clusters"), "{error}");
}

#[test]
fn stored_bytes_may_not_be_accessed_before_the_wait_but_adjacent_bytes_may() {
    let memory = GlobalMemory::new();
    let run = |touch: fn()| {
        let kernel = move || {
            expect([4, 0]);
            if (cluster_rank(), thread_idx().x) == (1, 7) {
                store_shared(tile(), 1_u32);
                store_shared(tile() + 8, 2_u32);
            }
            meet();
            if (cluster_rank(), thread_idx().x) == (0, 3) {
                store_async(map_shared(tile() + 4, 1), 5_u32, map_shared(barrier(0), 1));
            }
            meet();
            if (cluster_rank(), thread_idx().x) == (1, 7) {
                touch();
            }
            // Before this, no thread lets it complete.
            meet();
            mbarrier_wait_parity(barrier(0), if cluster_rank() == 1 { 0 } else { 1 });
            meet();
        };
        launch(&memory).run(&kernel).map_err(|error| error.fault().unwrap().clone())
    };
    run(|| assert_eq!(load_shared::<u32>(tile()) + load_shared::<u32>(tile() + 8), 3)).unwrap();
    run(|| store_shared(tile() + 12, 3_u32)).unwrap();
    let touches: [(fn(), Access); 4] = [
        (|| _ = load_shared::<u32>(tile() + 4), Access::Read),
        (|| _ = load_shared::<u64>(tile()), Access::Read),
        (|| store_shared(tile() + 4, 9_u32), Access::Write),
        (|| store_async(tile() + 4, 9_u32, barrier(0)), Access::StoreAsync),
    ];
    for (touch, expected) in touches {
        let fault = run(touch).unwrap_err();
        let FaultKind::SharedInFlight { what: "st.async", access, issuer, .. } = fault.kind else {
            panic!("{fault}")
        };
        assert_eq!((access, issuer, fault.thread), (expected, Dim3::new(3, 0, 0), Dim3::new(7, 0, 0)));
        assert_eq!(fault.block, Dim3::new(1, 0, 0), "{fault}");
        assert!(fault.to_string().contains("while a st.async into it is in flight"), "{fault}");
    }
}

#[test]
fn who_did_not_wait_for_the_mbarrier_may_not_read_what_others_waited_for() {
    let send = || store_async(map_shared(tile(), 1), 5_u32, map_shared(barrier(0), 1));
    let read = || assert_eq!(load_shared::<u32>(tile()), 5);
    sent([4, 0], send, 0, read).unwrap();
    let wait = || mbarrier_wait_parity(barrier(0), 0);
    sent([4, 0], send, 20, || (wait(), read()).1).unwrap();
    let fault = sent([4, 0], send, 20, || store_shared(tile(), 7_u32)).unwrap_err();
    let FaultKind::Race(race) = &fault.kind else { panic!("{fault}") };
    assert_eq!((race.access, race.other.access), (Access::Write, Access::StoreAsync), "{fault}");
    let fault = sent([4, 0], send, 20, read).unwrap_err();
    assert!(
        matches!(
            fault.kind,
            FaultKind::SharedNotAwaited { what: "st.async", bytes: 4, offset: 64, mbarrier: 0, .. }
        ),
        "{fault}"
    );
    assert!(fault.to_string().contains("written by a st.async that completes on the mbarrier at offset 0"));
}

#[test]
fn words_of_16_bytes_that_complete_on_two_mbarriers_are_distinguished() {
    let send = || {
        store_async(map_shared(tile(), 1), 5_u32, map_shared(barrier(0), 1));
        store_async(map_shared(tile() + 4, 1), 6_u32, map_shared(barrier(1), 1));
        store_async(map_shared(tile() + 8, 1), 7_u64, map_shared(barrier(1), 1));
    };
    let look = |number: u32, offset: u32| {
        move || {
            mbarrier_wait_parity(barrier(number), 0);
            assert_eq!(load_shared::<u32>(tile() + offset), 5 + offset / 4);
        }
    };
    for (number, offset) in [(0, 0), (1, 4), (1, 8)] {
        sent([4, 12], send, 9, look(number, offset)).unwrap();
    }
    for (number, offset) in [(0, 4), (0, 8), (1, 0)] {
        let fault = sent([4, 12], send, 9, look(number, offset)).unwrap_err();
        let other = i64::from(8 * (1 - number));
        assert!(
            matches!(fault.kind, FaultKind::SharedNotAwaited { mbarrier, .. } if mbarrier == other),
            "{number} {offset}: {fault}"
        );
    }
    let both = || assert_eq!(load_shared::<u128>(tile()), 7 << 64 | 6 << 32 | 5);
    sent([4, 12], send, 0, both).unwrap();
}

#[test]
fn a_store_into_what_a_bulk_copy_brought_leaves_the_rest_with_the_copy() {
    let memory = GlobalMemory::new();
    let source = Words::new(&memory, 4, 9);
    let from = source.address();
    let run = |offset: u32, copied: bool| {
        let kernel = move || {
            let (rank, t) = (cluster_rank(), thread_idx().x);
            expect([16, 4]);
            if (rank, t) == (1, 0) {
                bulk_load(tile(), from, 16, barrier(0), None);
                mbarrier_wait_parity(barrier(0), 0);
            }
            meet();
            if (rank, t) == (0, 0) {
                store_async(map_shared(tile() + 4, 1), 5_u32, map_shared(barrier(1), 1));
            }
            if (rank, t) == (1, 0) {
                mbarrier_wait_parity(barrier(1), 0);
                if copied {
                    bulk_load(tile() + 16, from, 16, barrier(1), None);
                }
            }
            (0..20_000).for_each(|_| _ = thread_idx());
            if (rank, t) == (1, 9) {
                assert_eq!(load_shared::<u32>(tile() + offset), 9);
            }
            meet();
        };
        launch(&memory).run(&kernel).map_err(|error| error.fault().unwrap().clone())
    };
    // All have met since the copy.
    run(0, false).unwrap();
    run(8, false).unwrap();
    let fault = run(4, false).unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::SharedNotAwaited { what: "st.async", mbarrier: 8, .. }),
        "{fault}"
    );
    // No thread waits for the next phase.
    let fault = run(0, true).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::BulkLoadsLeft { what: "bulk copies", .. }), "{fault}");
}

#[test]
fn an_asynchronous_operation_reads_what_was_stored_behind_a_fence_only() {
    let memory = GlobalMemory::new();
    let target = Words::new(&memory, 4, 0);
    let to = target.address();
    for own in [false, true] {
        let run = |fences: bool| {
            let kernel = move || {
                let (rank, t) = (cluster_rank(), thread_idx().x);
                expect([16, 0]);
                if (rank, t) == (u32::from(own), 0) {
                    store_async(map_shared(tile(), 1), [5_u32; 4], map_shared(barrier(0), 1));
                }
                if (rank, t) == (1, 0) {
                    mbarrier_wait_parity(barrier(0), 0);
                    if fences {
                        fence_proxy_async();
                    }
                    bulk_store(to, tile(), 16);
                    bulk_commit();
                    bulk_wait_group(0);
                }
                meet();
            };
            launch(&memory).run(&kernel).map_err(|error| error.fault().unwrap().clone())
        };
        run(true).unwrap();
        assert_eq!(target.read(), [5; 4]);
        let fault = run(false).unwrap_err();
        let FaultKind::SharedUnfenced { access: Access::BulkSource, writer, .. } = fault.kind else {
            panic!("{fault}")
        };
        assert_eq!(writer, own.then_some(Dim3::new(0, 0, 0)), "{fault}");
        let way = if own {
            "call `fence_proxy_async` in the writing thread"
        } else {
            "then call `fence_proxy_async` in it"
        };
        assert!(fault.to_string().contains(way), "{fault}");
    }
}

#[test]
fn a_store_over_bytes_that_a_copy_still_reads_is_a_fault() {
    let memory = GlobalMemory::new();
    let target = Words::new(&memory, 4, 0);
    let to = target.address();
    let run = |waits: bool| {
        let kernel = move || {
            let (rank, t) = (cluster_rank(), thread_idx().x);
            expect([if rank == 1 { 4 } else { 0 }, 0]);
            if (rank, t) == (1, 0) {
                store_shared(tile(), [1_u32; 4]);
                fence_proxy_async();
                bulk_store(to, tile(), 16);
                bulk_commit();
                if waits {
                    bulk_wait_group_read(0);
                }
            }
            meet();
            if (rank, t) == (0, 0) {
                store_async(map_shared(tile(), 1), 5_u32, map_shared(barrier(0), 1));
            }
            if (rank, t) == (1, 0) {
                mbarrier_wait_parity(barrier(0), 0);
                bulk_wait_group(0);
            }
            meet();
        };
        launch(&memory).run(&kernel).map_err(|error| error.fault().unwrap().clone())
    };
    run(true).unwrap();
    let fault = run(false).unwrap_err();
    assert!(
        matches!(
            fault.kind,
            FaultKind::SharedBeingRead { access: Access::StoreAsync, bytes: 4, offset: 64, .. }
        ),
        "{fault}"
    );
}

#[test]
fn invalid_addresses_are_the_faults_of_other_stores() {
    let to = |offset: u32, rank: u32| map_shared(shared_base() + offset, rank);
    let told = |send: &(dyn Fn() + Sync)| sent([4, 0], send, 0, || ()).unwrap_err();
    let fault = told(&|| store_async(to(64, 1), 5_u32, to(0, 0)));
    let text = fault.to_string();
    assert!(matches!(fault.kind, FaultKind::InvalidOperand { operation: "st.async", .. }), "{text}");
    assert!(text.contains("the destination is in block 1 of the cluster, the mbarrier in block 0"), "{text}");
    let fault = told(&|| store_async(to(68, 1), 5_u64, to(0, 1)));
    assert!(
        matches!(
            fault.kind,
            FaultKind::SharedMisaligned { access: Access::StoreAsync, bytes: 8, offset: 68 }
        ),
        "{fault}"
    );
    assert!(fault.to_string().contains("st.async write of 8 bytes of shared memory at offset 68"), "{fault}");
    let fault = told(&|| store_async(to(312, 1), [5_u32; 4], to(0, 1)));
    assert!(
        matches!(fault.kind, FaultKind::SharedOutOfBounds { bytes: 16, offset: 312, shared_bytes: 320, .. }),
        "{fault}"
    );
    let fault = told(&|| store_async(to(320, 1), 5_u32, to(0, 1)));
    assert!(matches!(fault.kind, FaultKind::SharedOutOfBounds { bytes: 4, offset: 320, .. }), "{fault}");
    let fault = told(&|| store_async(to(64, 1) + (to(64, 1) - to(64, 0)), 5_u32, to(0, 1)));
    assert!(matches!(fault.kind, FaultKind::NoSuchPeer { rank: 2, blocks: 2, .. }), "{fault}");
    let fault = told(&|| {
        store_shared_cluster(to(128, 1), 0_u64);
        store_async(to(64, 1), 5_u32, to(128, 1));
    });
    assert!(fault.to_string().contains("there is no mbarrier at shared address 0x480"), "{fault}");
}

#[test]
fn bytes_that_the_phase_does_not_expect_keep_it_from_ending() {
    let send = || {
        store_async(map_shared(tile(), 1), 5_u32, map_shared(barrier(0), 1));
    };
    let fault = sent([8, 0], send, 0, || ()).unwrap_err();
    assert!(fault.to_string().contains("still expects 0 arrivals and 4 bytes"), "{fault}");
}

#[test]
fn a_store_to_a_block_that_ends_before_its_phase_or_has_ended_is_a_fault() {
    let memory = GlobalMemory::new();
    let error = fault(launch(&memory), &|| {
        expect([4, 0]);
        if (cluster_rank(), thread_idx().x) == (0, 2) {
            store_async(map_shared(tile(), 1), 5_u32, map_shared(barrier(0), 1));
        }
        meet();
    });
    assert!(matches!(error.kind, FaultKind::BulkLoadsLeft { copies: 1, what: "st.async", .. }), "{error}");
    assert_eq!(error.block, Dim3::new(1, 0, 0));
    let text = error.to_string();
    assert!(
        text.contains(
            "1 st.async into or out of its shared memory were in flight, the first issued by thread (2,0,0)"
        ),
        "{text}"
    );
    let error = fault(launch(&memory), &|| {
        expect([4, 0]);
        if cluster_rank() == 0 {
            // Long after the other block has returned.
            (0..100_000).for_each(|_| _ = load_shared::<u64>(barrier(0)));
            store_async(map_shared(tile(), 1), 5_u32, map_shared(barrier(0), 1));
        }
    });
    assert!(matches!(error.kind, FaultKind::PeerEnded { rank: 1, .. }), "{error}");
}
