//! Faults that are not races.

use super::{Case, Told, check_all, word};
use moye_sim::FaultKind;
use moye_sim::intrinsics::*;

fn tile_behind_the_end(right: bool, _: u64) {
    let at = if right { 4 } else { 8192 };
    store_shared(shared_base() + at * thread_idx().x, 0_u32); // tile_behind_the_end
}

fn vector_at_odd_word(right: bool, data: u64) {
    let step = if right { 2 } else { 1 };
    load_global::<u64>(word(data, step * (1 + thread_idx().x) / step * step)); // vector_at_odd_word
}

fn shuffle_of_some_lanes(right: bool, _: u64) {
    let lane = lane_id();
    if right || lane < 16 {
        shfl(ShuffleMode::Xor, u32::MAX, lane, 1, 32); // shuffle_of_some_lanes
    } else {
        sync_threads(); // shuffle_of_some_lanes
    }
}

fn lane_that_takes_no_part(right: bool, _: u64) {
    let lane = lane_id();
    if lane < 16 {
        shfl(ShuffleMode::Xor, 0xFFFF, lane, if right { 8 } else { 16 }, 32); // lane_that_takes_no_part
    }
}

fn arrivals_too_many(right: bool, _: u64) {
    let mbarrier = shared_base();
    if thread_idx().x == 0 {
        mbarrier_init(mbarrier, if right { 64 } else { 48 });
    }
    sync_threads();
    mbarrier_arrive(mbarrier);
    sync_threads();
    if !right && thread_idx().x == 0 {
        // 16 arrivals of the second phase, which waits for 48.
        mbarrier_wait_parity(mbarrier, 1); // arrivals_too_many
    }
}

fn polling_without_end(right: bool, data: u64) {
    if right {
        atomic_exchange(data, 1_u32);
    }
    while atomic_or(data, 0_u32) == 0 {} // polling_without_end
}

fn panics(right: bool, _: u64) {
    assert!(right || thread_idx().x != 3, "the kernel's own check"); // panics
}

fn recursion(right: bool, data: u64) {
    fn deeper(depth: u32, data: u64) -> u32 {
        let frame = [depth; 256];
        let index = load_global::<u32>(data) as usize; // recursion
        if depth == 0 { 0 } else { std::hint::black_box(frame)[index] + deeper(depth - 1, data) }
    }
    deeper(if right { 10 } else { 10_000 }, data);
}

pub const CASES: &[Case] = &[
    Case::new(
        "tile_behind_the_end",
        tile_behind_the_end,
        Told::Fault(|kind| matches!(kind, FaultKind::SharedOutOfBounds { .. })),
    ),
    Case::new(
        "vector_at_odd_word",
        vector_at_odd_word,
        Told::Fault(|kind| matches!(kind, FaultKind::GlobalMisaligned { .. })),
    ),
    Case::new(
        "shuffle_of_some_lanes",
        shuffle_of_some_lanes,
        Told::Fault(|kind| {
            matches!(kind, FaultKind::BarrierIncomplete { .. } | FaultKind::WarpMismatch { .. })
        }),
    ),
    Case::new(
        "lane_that_takes_no_part",
        lane_that_takes_no_part,
        Told::Fault(|kind| matches!(kind, FaultKind::ShuffleInactive { .. })),
    ),
    Case::new(
        "arrivals_too_many",
        arrivals_too_many,
        Told::Fault(|kind| matches!(kind, FaultKind::WaitNeverEnds { .. })),
    ),
    Case::new(
        "polling_without_end",
        polling_without_end,
        Told::Fault(|kind| matches!(kind, FaultKind::NoProgress { .. })),
    ),
    Case::new("panics", panics, Told::Fault(|kind| matches!(kind, FaultKind::Panicked { .. }))),
    Case::new("recursion", recursion, Told::Fault(|kind| matches!(kind, FaultKind::StackOverrun { .. }))),
];

#[test]
fn other_faults_are_found_in_every_order() {
    check_all(CASES, include_str!("others.rs"));
}
