//! `ldmatrix`, `stmatrix` and mbarriers: wrong uses are faults.

use crate::common::fault;
use moye_sim::intrinsics::*;
use moye_sim::{Access, FaultKind, GlobalMemory, Launch};

fn warp(memory: &GlobalMemory) -> Launch<'_> {
    Launch::new("matrices", 1, 32, memory).shared_bytes(1024)
}

/// Writes all of shared memory, and waits until everyone has.
fn fill() {
    for word in 0..8 {
        store_shared(shared_base() + 4 * (8 * lane_id() + word), 0u32);
    }
    sync_warp(u32::MAX);
}

#[test]
fn a_row_that_is_not_aligned_faults_in_its_own_lane() {
    let memory = GlobalMemory::new();
    let fault = fault(warp(&memory), &|| {
        fill();
        let row = shared_base() + 16 * lane_id();
        ldmatrix::<4>(false, if lane_id() == 9 { row + 8 } else { row });
    });
    assert_eq!(fault.thread.x, 9, "{fault}");
    assert_eq!(
        fault.kind,
        FaultKind::SharedMisaligned { access: Access::Read, bytes: 16, offset: 16 * 9 + 8 }
    );
}

#[test]
fn a_row_out_of_bounds_and_an_unwritten_row_are_faults() {
    let memory = GlobalMemory::new();
    let outside = fault(warp(&memory), &|| {
        fill();
        ldmatrix::<2>(true, shared_base() + if lane_id() == 15 { 1024 } else { 0 });
    });
    assert!(
        matches!(outside.kind, FaultKind::SharedOutOfBounds { offset: 1024, bytes: 16, .. }),
        "{outside}"
    );
    let unwritten = fault(warp(&memory), &|| {
        ldmatrix::<1>(false, shared_base() + 16 * lane_id());
    });
    assert!(matches!(unwritten.kind, FaultKind::SharedUnwritten { offset: 0, .. }), "{unwritten}");
    let store = fault(warp(&memory), &|| stmatrix(false, shared_base() + 16 * lane_id() + 4, [0; 4]));
    assert!(matches!(store.kind, FaultKind::SharedMisaligned { access: Access::Write, .. }), "{store}");
}

#[test]
fn addresses_of_lanes_beyond_the_matrices_are_ignored() {
    let memory = GlobalMemory::new();
    warp(&memory)
        .run(&|| {
            fill();
            let row = shared_base() + 16 * lane_id();
            ldmatrix::<1>(false, if lane_id() < 8 { row } else { 3 });
            sync_warp(u32::MAX);
            stmatrix(true, if lane_id() < 16 { row } else { 3 }, [lane_id(); 2]);
        })
        .unwrap();
}

#[test]
fn all_lanes_must_take_part() {
    let memory = GlobalMemory::new();
    let gone = fault(warp(&memory), &|| {
        fill();
        if lane_id() != 31 {
            ldmatrix::<1>(false, shared_base() + 16 * lane_id());
        }
    });
    assert!(matches!(gone.kind, FaultKind::WarpLaneExited { missing: 0x8000_0000, .. }), "{gone}");
    let small = fault(Launch::new("small", 1, 16, &memory).shared_bytes(1024), &|| {
        movmatrix_transposed(lane_id());
    });
    assert!(matches!(small.kind, FaultKind::WarpLaneExited { missing: 0xFFFF_0000, .. }), "{small}");
}

#[test]
fn copies_that_arrive_at_an_mbarrier_land_when_it_is_asked_and_not_before() {
    let memory = GlobalMemory::new();
    let source = memory.alloc(256, "source").unwrap();
    source.write(0, &(0..=255).collect::<Vec<u8>>()).unwrap();
    let address = source.address();
    let copy = move || {
        let barrier = shared_base() + 512;
        if lane_id() == 0 {
            mbarrier_init(barrier, 32);
        }
        sync_warp(u32::MAX);
        cp_async(shared_base() + 4 * lane_id(), address + 4 * u64::from(lane_id()), 4, 4);
        cp_async_commit();
        cp_async_mbarrier_arrive(barrier, false);
        barrier
    };
    warp(&memory)
        .run(&|| {
            let barrier = copy();
            let state = mbarrier_arrive(barrier);
            mbarrier_wait(barrier, state);
            let other = (lane_id() + 5) % 32;
            assert_eq!(
                load_shared::<u8>(shared_base() + 4 * other),
                4 * other as u8,
                "another thread's copy"
            );
            cp_async_wait_group(0);
        })
        .unwrap();
    let early = fault(warp(&memory), &|| {
        let _ = mbarrier_arrive(copy());
        load_shared::<u32>(shared_base() + 4 * lane_id());
    });
    assert!(matches!(early.kind, FaultKind::SharedInFlight { .. }), "{early}");
}

#[test]
fn an_mbarrier_with_an_invalid_count_or_without_initialisation_is_a_fault() {
    let memory = GlobalMemory::new();
    let stuck = fault(warp(&memory), &|| {
        let barrier = shared_base();
        if lane_id() == 0 {
            mbarrier_init(barrier, 33);
        }
        sync_warp(u32::MAX);
        let state = mbarrier_arrive(barrier);
        mbarrier_wait(barrier, state);
    });
    assert!(matches!(stuck.kind, FaultKind::WaitNeverEnds { .. }), "{stuck}");
    let unmade = fault(warp(&memory), &|| {
        mbarrier_arrive(shared_base() + 8);
    });
    assert!(matches!(unmade.kind, FaultKind::SharedUnwritten { offset: 8, bytes: 8, .. }), "{unmade}");
    let none = fault(warp(&memory), &|| mbarrier_init(shared_base(), 0));
    assert!(none.to_string().contains("a count of 0"), "{none}");
}
