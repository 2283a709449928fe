//! mbarriers: phases by arrivals and bytes, parities, misuse, and deadlocks.

use crate::common::fault;
use moye_sim::intrinsics::*;
use moye_sim::{FaultKind, GlobalMemory, Launch, WaitPlace};

fn launch<'a>(memory: &GlobalMemory, threads: u32) -> Launch<'a> {
    Launch::new("k", 1, threads, memory).shared_bytes(256)
}

#[test]
fn waits_by_parity_follow_the_phases_in_turn() {
    let kernel = || {
        let (barrier, t) = (shared_base(), thread_idx().x);
        if t == 0 {
            mbarrier_init(barrier, 32);
            assert!(mbarrier_test_wait_parity(barrier, 1), "the phase before the first is over");
            assert!(!mbarrier_test_wait_parity(barrier, 0));
        }
        sync_threads();
        for phase in 0..20 {
            if t < 32 {
                mbarrier_arrive(barrier);
            }
            mbarrier_wait_parity(barrier, phase % 2);
            sync_threads();
        }
    };
    launch(&GlobalMemory::new(), 64).run(&kernel).unwrap();
}

#[test]
fn more_arrivals_than_a_phase_takes_are_a_fault() {
    let error = fault(launch(&GlobalMemory::new(), 1), &|| {
        mbarrier_init(shared_base(), 1);
        mbarrier_expect_tx(shared_base(), 64);
        mbarrier_arrive(shared_base());
        mbarrier_arrive(shared_base());
    });
    let text = error.to_string();
    assert!(
        text.ends_with("mbarrier.arrive: 1 arrivals at an mbarrier whose phase still expects 0 of 1 arrivals, and 64 bytes"),
        "{text}"
    );
}

#[test]
fn what_is_no_mbarrier_and_what_is_none_any_more_fault() {
    let memory = GlobalMemory::new();
    let error = fault(launch(&memory, 1), &|| {
        store_shared(shared_base(), 7_u64);
        mbarrier_arrive(shared_base());
    });
    assert!(error.to_string().contains("there is no mbarrier at shared address 0x400"), "{error}");
    let error = fault(launch(&memory, 1), &|| {
        mbarrier_init(shared_base(), 1);
        mbarrier_inval(shared_base());
        mbarrier_arrive(shared_base());
    });
    assert!(matches!(error.kind, FaultKind::SharedUnwritten { offset: 0, .. }), "{error}");
}

#[test]
fn a_deadlock_tells_what_each_warp_waits_for() {
    let error = fault(launch(&GlobalMemory::new(), 96), &|| {
        let (full, empty, t) = (shared_base(), shared_base() + 8, thread_idx().x);
        if t == 0 {
            mbarrier_init(full, 1);
            mbarrier_init(empty, 64);
        }
        sync_threads();
        if t < 32 {
            if t == 0 {
                mbarrier_arrive_expect_tx(full, 4096);
            }
            mbarrier_wait_parity(empty, 0);
        } else {
            mbarrier_wait_parity(full, 0);
            mbarrier_arrive(empty);
        }
    });
    let FaultKind::WaitNeverEnds { waiting, .. } = &error.kind else { panic!("{error}") };
    let places: Vec<_> = waiting.iter().map(|group| (group.place, group.threads.count())).collect();
    assert_eq!(
        places,
        [
            (WaitPlace::Mbarrier { offset: 8, parity: 0, pending: 64, transactions: 0 }, 32),
            (WaitPlace::Mbarrier { offset: 0, parity: 0, pending: 0, transactions: 4096 }, 64),
        ]
    );
    let text = error.to_string();
    assert!(
        text.contains("64 threads (32,0,0) to (95,0,0) wait for the phase of parity 0 of the mbarrier at offset 0, which still expects 0 arrivals and 4096 bytes, at"),
        "{text}"
    );
}

/// 32 producers arrive once each at an mbarrier of this count; the other warp waits, and reads what
/// they wrote.
fn handed_over(count: u32, order: u64) -> Result<(), moye_sim::LaunchError> {
    handed_over_with(count, order, true)
}

fn handed_over_with(count: u32, order: u64, races: bool) -> Result<(), moye_sim::LaunchError> {
    let kernel = || {
        let (mbarrier, words, t) = (shared_base(), shared_base() + 128, thread_idx().x);
        if t == 0 {
            mbarrier_init(mbarrier, count);
        }
        sync_threads();
        if t < 32 {
            store_shared(words + 4 * t, t);
            mbarrier_arrive(mbarrier);
        } else {
            mbarrier_wait_parity(mbarrier, 0);
            assert_eq!(load_shared::<u32>(words + 4 * (t - 32)), t - 32);
        }
    };
    launch(&GlobalMemory::new(), 64).races(races).order(order).run(&kernel).map(|_| ())
}

#[test]
fn mbarriers_work_where_races_are_not_looked_for() {
    handed_over_with(32, 0, false).unwrap();
    assert!(handed_over_with(33, 0, false).is_err());
}

#[test]
fn an_initial_count_that_is_not_the_number_of_arrivals_is_a_fault_in_every_order() {
    for order in 0..10 {
        handed_over(32, order).unwrap();
        for (count, lacks) in [(33, 1), (64, 32)] {
            let error = handed_over(count, order).unwrap_err();
            let fault = error.fault().unwrap();
            assert!(matches!(fault.kind, FaultKind::WaitNeverEnds { .. }), "{fault}");
            assert!(fault.to_string().contains(&format!("which still expects {lacks} arrivals")), "{fault}");
        }
        for count in [1, 16, 31] {
            assert!(handed_over(count, order).is_err(), "count {count} for 32 arrivals, order {order}");
        }
    }
}
