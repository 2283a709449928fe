//! Races of lanes of a warp: lanes are unordered between barriers of the warp, and only these order
//! memory.

use super::{Case, check_all};
use moye_sim::Access::{Read, Write};
use moye_sim::RaceThreads::{Block, Warp};
use moye_sim::intrinsics::*;

const FULL: u32 = u32::MAX;

fn at(word: u32) -> u32 {
    shared_base() + 4 * word
}

/// Every pair that races is of one warp, in a block of two.
fn pairs_of_two_warps(right: bool, _: u64) {
    let t = thread_idx().x;
    store_shared(at(t), t); // pairs_of_two_warps
    if right {
        sync_warp(FULL);
    }
    load_shared::<u32>(at(t ^ 1)); // pairs_of_two_warps
    sync_threads();
}

fn matches(right: bool, _: u64) {
    let lane = lane_id();
    store_shared(at(lane), lane); // matches
    match_any(FULL, lane / 4);
    if right {
        sync_warp(FULL);
    }
    load_shared::<u32>(at(lane ^ 1)); // matches
}

fn halves_of_the_warp(right: bool, _: u64) {
    // Each half waits for itself, and reads the other's words.
    let lane = lane_id();
    store_shared(at(lane), lane); // halves_of_the_warp
    sync_warp(if right { FULL } else { 0xFFFF << (lane / 16 * 16) });
    load_shared::<u32>(at(lane ^ 16)); // halves_of_the_warp
}

fn half_with_itself(right: bool, _: u64) {
    let lane = lane_id();
    store_shared(at(lane), lane); // half_with_itself
    if right {
        sync_warp(0xFFFF << (lane / 16 * 16));
    }
    load_shared::<u32>(at(lane ^ 8)); // half_with_itself
}

fn stmatrix_without_barrier(right: bool, _: u64) {
    let lane = lane_id();
    stmatrix::<4>(false, shared_base() + 16 * lane, [lane; 4]); // stmatrix_without_barrier
    if right {
        sync_warp(FULL);
    }
    load_shared::<u32>(at(4 * (31 - lane))); // stmatrix_without_barrier
}

fn elected_lane_writes(right: bool, _: u64) {
    if elect(FULL) {
        store_shared(at(0), 1_u32); // elected_lane_writes
    }
    if right {
        sync_warp(FULL);
    }
    if lane_id() == 9 {
        load_shared::<u32>(at(0)); // elected_lane_writes
    }
}

fn lanes_write_one_word(right: bool, _: u64) {
    let lane = lane_id();
    store_shared(at(if right { lane } else { lane % 16 }), lane); // lanes_write_one_word
}

fn butterfly(right: bool, data: u64) {
    // The classic reduction, without barriers of the warp.
    let lane = lane_id();
    store_global(data + 4 * u64::from(lane), lane);
    sync_warp(FULL);
    let other: u32 = load_global(data + 4 * u64::from(lane ^ 16)); // butterfly
    if right {
        sync_warp(FULL);
    }
    store_global(data + 4 * u64::from(lane), lane + other); // butterfly
}

/// A sum of all threads: the first rounds race within warps, the last one between them.
fn rounds_of_a_loop(right: bool, _: u64) {
    let t = thread_idx().x;
    store_shared(at(t), t);
    sync_threads();
    for distance in [1, 2, 4, 8, 16, 32] {
        let other: u32 = load_shared(at(t ^ distance)); // rounds_of_a_loop
        if right {
            sync_threads();
        }
        store_shared(at(t), t + other); // rounds_of_a_loop
        sync_threads();
    }
}

pub const CASES: &[Case] = &[
    Case::race("pairs_of_two_warps", pairs_of_two_warps, Warp, [Write, Read]),
    Case::race("matches", matches, Warp, [Write, Read]).threads(32),
    Case::race("halves_of_the_warp", halves_of_the_warp, Warp, [Write, Read]).threads(32),
    Case::race("half_with_itself", half_with_itself, Warp, [Write, Read]).threads(32),
    Case::race("stmatrix_without_barrier", stmatrix_without_barrier, Warp, [Write, Read]).threads(32),
    Case::race("elected_lane_writes", elected_lane_writes, Warp, [Write, Read]).threads(32),
    Case::race("lanes_write_one_word", lanes_write_one_word, Warp, [Write, Write]).threads(32),
    Case::race("butterfly", butterfly, Warp, [Read, Write]).threads(32),
    Case::race("rounds_of_a_loop", rounds_of_a_loop, Block, [Read, Write]),
];

#[test]
fn races_of_a_warps_lanes_are_found_in_every_order() {
    check_all(CASES, include_str!("warp.rs"));
}

/// Once `ldmatrix` has read for one lane it has read for all: any lane may release the rows for the
/// warp.
#[test]
fn what_ldmatrix_has_read_is_released_by_any_lane() {
    let released = |right: bool, _: u64| {
        let (t, empty) = (thread_idx().x, shared_base());
        let rows = shared_base() + 1024;
        if t == 0 {
            (1..4).for_each(|turn| mbarrier_init(shared_base() + 8 * turn, 32));
            mbarrier_init(empty, 1);
        }
        sync_threads();
        for turn in 0..3 {
            let full = shared_base() + 8 * (turn + 1);
            if t < 32 {
                mbarrier_wait_parity(empty, (turn % 2) ^ 1);
                store_shared(rows + 16 * t, [turn; 4]);
                mbarrier_arrive(full);
            } else {
                mbarrier_wait_parity(full, 0);
                if !right && t == 32 {
                    mbarrier_arrive(empty);
                }
                ldmatrix::<4>(false, rows + 16 * (t - 32));
                if right && t == 32 {
                    mbarrier_arrive(empty);
                }
            }
        }
    };
    let case = Case::race("what_ldmatrix_has_read", released, Warp, [Write, Read]);
    for order in (0..10).map(Some) {
        case.run(true, order).unwrap();
        let fault = case.run(false, order).unwrap_err();
        assert!(matches!(fault.kind, moye_sim::FaultKind::Race(_)), "{fault}");
    }
}

/// The lanes of one instruction may be in different epochs: one of them has released something.
#[test]
fn lanes_that_store_a_row_together_do_not_race_with_each_other() {
    let memory = moye_sim::GlobalMemory::new();
    let kernel = || {
        if lane_id() == 0 {
            mbarrier_init(shared_base(), 2);
            mbarrier_arrive(shared_base());
        }
        stmatrix::<1>(false, shared_base() + 128 + 16 * (lane_id() % 8), [lane_id()]);
    };
    moye_sim::Launch::new("rows", 1, 32, &memory).shared_bytes(1024).races(true).run(&kernel).unwrap();
}
