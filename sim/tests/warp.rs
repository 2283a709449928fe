//! Warp operations against the PTX specification.

use crate::common::fault;
use moye_sim::intrinsics::*;
use moye_sim::{GlobalMemory, Launch};

const FULL: u32 = u32::MAX;

fn run(threads: u32, kernel: &(dyn Fn() + Sync)) {
    Launch::new("k", 2, threads, &GlobalMemory::new()).run(kernel).unwrap();
}

#[test]
fn shuffles_of_all_modes_widths_and_distances_stay_in_their_segments() {
    run(64, &|| {
        let lane = lane_id() as i64;
        for width in [1, 2, 4, 8, 16, 32] {
            let (first, end) = (lane / width * width, lane / width * width + width);
            for b in 0..32i64 {
                let check = |mode, source: i64, in_segment: bool| {
                    let (value, valid) = shfl(mode, FULL, 1000 + lane as u32, b as u32, width as u32);
                    let from = if in_segment { source } else { lane };
                    assert_eq!(
                        (i64::from(value), valid),
                        (1000 + from, in_segment),
                        "{mode:?} {b}, width {width}"
                    );
                };
                check(ShuffleMode::Idx, first + b % width, true);
                check(ShuffleMode::Up, lane - b, lane - b >= first);
                check(ShuffleMode::Down, lane + b, lane + b < end);
                // An xor may leave the segment downwards: only lanes above the segment's last are
                // out of range.
                check(ShuffleMode::Xor, lane ^ b, (lane ^ b) < end);
            }
        }
    });
}

#[test]
fn a_shuffle_with_a_clamp_value_follows_the_formula_of_ptx() {
    // The worked example: lane 5, segments of 8 lanes, clamp 3 of the segment.
    run(32, &|| {
        let c = 0b11000 << 8 | 3;
        let lane = lane_id();
        let (segment, inner) = (lane & !7, lane & 7);
        let (value, valid) = shfl_clamped(ShuffleMode::Down, FULL, lane, 1, c);
        assert_eq!((value, valid), if inner < 3 { (lane + 1, true) } else { (lane, false) });
        let (value, valid) = shfl_clamped(ShuffleMode::Idx, FULL, lane, 2, c);
        assert_eq!((value, valid), (segment + 2, true));
        let (value, valid) = shfl_clamped(ShuffleMode::Idx, FULL, lane, 6, c);
        assert_eq!((value, valid), (lane, false), "6 is above the clamp");
        let (value, valid) = shfl_clamped(ShuffleMode::Up, FULL, lane, 1, 0b11000 << 8 | 2);
        assert_eq!((value, valid), if inner >= 3 { (lane - 1, true) } else { (lane, false) });
        assert_eq!(
            shfl_clamped(ShuffleMode::Idx, FULL, lane, 33, 31),
            (1, true),
            "only five bits of b count"
        );
    });
}

#[test]
fn shuffles_work_within_a_mask_and_every_lane_may_ask_for_its_own() {
    run(32, &|| {
        let lane = lane_id();
        // Even lanes among themselves, each reading the next but one, while odd lanes do their own.
        if lane.is_multiple_of(2) {
            let (value, valid) = shfl(ShuffleMode::Idx, 0x5555_5555, lane * lane, (lane + 2) % 32, 32);
            assert_eq!((value, valid), (((lane + 2) % 32).pow(2), true));
        } else {
            assert_eq!(reduce_add(0xAAAA_AAAA, 1u32), 16);
        }
    });
}

#[test]
fn a_shuffle_from_a_lane_that_exited_or_of_a_wrong_width_faults() {
    let memory = GlobalMemory::new();
    let error = fault(Launch::new("k", 1, 32, &memory), &|| {
        if lane_id() != 3 {
            shfl(ShuffleMode::Idx, FULL, 0, 3, 32);
        }
    });
    assert!(
        error.to_string().contains("shfl.sync.idx reads lane 3, which is not in the mask"),
        "it exited: {error}"
    );
    let error = fault(Launch::new("k", 1, 32, &memory), &|| {
        shfl(ShuffleMode::Idx, FULL, 0, 3, 12);
    });
    assert!(
        error.to_string().ends_with("shfl.sync.idx: a width of 12, which is not a power of two up to 32")
    );
}

#[test]
fn votes_and_matches_count_the_lanes_that_take_part() {
    run(32, &|| {
        let lane = lane_id();
        assert_eq!(vote_ballot(FULL, lane.is_multiple_of(3)), (0..32).step_by(3).fold(0, |m, l| m | 1 << l));
        assert!(vote_all(FULL, lane < 32) && !vote_all(FULL, lane != 31));
        assert!(vote_any(FULL, lane == 31) && !vote_any(FULL, lane == 32));
        let half = if lane < 16 { 0xFFFF } else { 0xFFFF_0000 };
        assert_eq!(vote_ballot(half, true), half);
        assert_eq!(vote_all(half, lane < 16), lane < 16, "each half votes for itself");
        assert_eq!(match_any(FULL, lane % 4), 0x1111_1111 << (lane % 4));
    });
}

#[test]
fn operations_go_on_without_lanes_that_exited_or_never_existed() {
    run(40, &|| {
        let (warp, lane) = (warp_id(), lane_id());
        let active = if warp == 0 { 0xFFFF_FFF0 } else { 0xFF };
        if warp == 0 && lane < 4 {
            return;
        }
        assert_eq!(vote_ballot(FULL, true), active);
        assert_eq!(active_lanes(), active);
        sync_warp(FULL);
        assert!(vote_all(FULL, true));
        assert_eq!(reduce_add(FULL, 1i32), active.count_ones() as i32);
    });
    // The waiting lanes arrive first, and the lanes that they wait for exit later.
    run(32, &|| {
        if lane_id() >= 4 {
            return;
        }
        assert_eq!(vote_ballot(FULL, true), 0xF);
    });
}

#[test]
fn reductions_give_every_lane_the_result() {
    run(32, &|| {
        let lane = lane_id();
        let signed = lane as i32 - 16;
        assert_eq!(reduce_add(FULL, lane), 496);
        assert_eq!(reduce_add(FULL, u32::MAX), 0u32.wrapping_sub(32), "sums wrap");
        assert_eq!((reduce_min(FULL, signed), reduce_max(FULL, signed)), (-16, 15));
        assert_eq!((reduce_min(FULL, signed as u32), reduce_max(FULL, lane)), (0, 31));
        assert_eq!((reduce_and(FULL, lane | 64), reduce_or(FULL, lane), reduce_xor(FULL, lane)), (64, 31, 0));
    });
}

#[test]
fn a_collective_of_ones_own_gets_the_inputs_of_its_mask_only() {
    run(32, &|| {
        let lane = lane_id();
        let mask = 0x0F0F_0F0F;
        if mask & (1 << lane) == 0 {
            return;
        }
        let seen =
            warp_collective("gather", mask, ExitedLanes::Ignored, (lane, [lane as f64; 3]), |inputs| {
                let present = (0..32).filter(|&l| inputs[l].is_some()).fold(0u32, |m, l| m | 1 << l);
                let last = inputs.iter().flatten().last().map(|input| input.1[2]);
                std::array::from_fn(|lane| (present, last, lane))
            });
        assert_eq!(seen, (mask, Some(27.0), lane as usize));
    });
}

#[test]
fn threads_take_turns_in_the_same_order_in_every_run() {
    let order = || {
        let order = std::sync::Mutex::new(Vec::new());
        Launch::new("k", 1, 96, &GlobalMemory::new())
            .run(&|| {
                let note = |step: u32| order.lock().unwrap().push((step, warp_id(), lane_id()));
                note(0);
                sync_warp(FULL);
                note(1);
                sync_threads();
                note(2);
                if lane_id().is_multiple_of(2) {
                    sync_warp(0x5555_5555);
                }
                note(3);
            })
            .unwrap();
        order.into_inner().unwrap()
    };
    let first = order();
    assert_eq!(first.len(), 4 * 96);
    for _ in 0..5 {
        assert_eq!(order(), first, "one OS thread runs a block, and its threads in turn");
    }
}
