//! Reductions, matches, votes and shuffles over groups of a warp: lanes 0 to 19, and 20 to 31.

use crate::support::{Bits, SM_80, on_each, poisoned, random};
use moye::{Global, GlobalMut, Grid, Kernel};
use moye_kernels_copy as kernels;

/// The lanes of `lane`'s group.
fn group(lane: usize) -> std::ops::Range<usize> {
    if lane < 20 { 0..20 } else { 20..32 }
}

/// Compares each lane's result with `want` of the lane, for inputs with and without repetitions.
#[track_caller]
fn check<T: Bits, U: Bits>(
    kernel: &Kernel<(Global<T>, GlobalMut<U>)>,
    of: impl Fn(u64) -> T,
    want: impl Fn(&[T], usize) -> U,
) {
    let all_same = [7; 32].to_vec();
    let few = random(21, 32).into_iter().map(|r| r % 3).collect();
    // One lane with a different value, in either group.
    let with = |value: u64, at: usize, other| {
        let mut inputs = vec![value; 32];
        inputs[at] = other;
        inputs
    };
    for inputs in [random(20, 32), few, all_same, with(0, 4, 7), with(7, 30, 0)] {
        let inputs: Vec<T> = inputs.into_iter().map(&of).collect();
        let input = |lane: usize| format!("lane {lane} of {:?}", &inputs[group(lane)]);
        on_each(
            &SM_80,
            kernel.name(),
            |lane| Some(want(&inputs, lane)),
            input,
            |module, device| {
                let source = device.upload(&inputs).unwrap();
                let mut output = poisoned::<U>(device, 32);
                // SAFETY: 32 elements each.
                unsafe { module.launch(kernel, Grid::new(1, 32), (&source, &mut output)) }.unwrap();
                output.download().unwrap()
            },
        );
    }
}

/// `fold` over the values of the lane's group.
fn over<T: Bits>(fold: fn(T, T) -> T) -> impl Fn(&[T], usize) -> T {
    move |inputs, lane| inputs[group(lane)].iter().copied().reduce(fold).expect("a group has lanes")
}

#[test]
fn redux_reduces_over_the_lanes_of_its_mask() {
    let (unsigned, signed) = (|r: u64| (r >> 32) as u32, |r: u64| (r >> 32) as i32);
    check(&kernels::redux_add, unsigned, over(u32::wrapping_add));
    check(&kernels::redux_add_s32, signed, over(i32::wrapping_add));
    check(&kernels::redux_min_u32, unsigned, over(Ord::min));
    check(&kernels::redux_max_u32, unsigned, over(Ord::max));
    check(&kernels::redux_min_s32, signed, over(Ord::min));
    check(&kernels::redux_max_s32, signed, over(Ord::max));
    check(&kernels::redux_and, unsigned, over(|a, b| a & b));
    check(&kernels::redux_or, unsigned, over(|a, b| a | b));
    check(&kernels::redux_xor, unsigned, over(|a, b| a ^ b));
}

/// The lanes of the group that have the lane's value.
fn matching<T: Bits + PartialEq>(inputs: &[T], lane: usize) -> u32 {
    group(lane).filter(|&other| inputs[other] == inputs[lane]).fold(0, |mask, other| mask | 1 << other)
}

#[test]
fn match_finds_the_lanes_with_the_same_value() {
    check(&kernels::match_any_b32, |r| r as u32, matching);
    check(&kernels::match_any_b64, |r| r << 20, matching);
    let all = |inputs: &[u32], lane: usize| {
        u32::from(inputs[group(lane)].iter().all(|&value| value == inputs[lane]))
    };
    check(&kernels::match_all_b32, |r| r as u32, all);
}

/// Whether a lane votes yes.
fn odd(value: u32) -> bool {
    !value.is_multiple_of(2)
}

#[test]
fn votes_count_the_lanes_of_their_mask() {
    let votes =
        |inputs: &[u32], lane| inputs[group(lane)].iter().map(|&value| odd(value)).collect::<Vec<_>>();
    check(
        &kernels::vote_all_odd,
        |r| r as u32,
        |inputs, lane| votes(inputs, lane).iter().all(|&yes| yes).into(),
    );
    check(&kernels::vote_any_odd, |r| r as u32, |inputs, lane| votes(inputs, lane).contains(&true).into());
    check(
        &kernels::ballot_odd,
        |r| r as u32,
        |inputs, lane| {
            group(lane).filter(|&other| odd(inputs[other])).fold(0, |mask, other| mask | 1 << other)
        },
    );
}

/// The value of the lane seven positions later in the group, cyclically.
fn seventh<T: Bits>(inputs: &[T], lane: usize) -> T {
    let group = group(lane);
    inputs[group.start + (lane - group.start + 7) % group.len()]
}

#[test]
fn shuffles_hand_values_to_other_lanes() {
    check(&kernels::shuffle_seventh, |r| r as u32, seventh);
    check(&kernels::shuffle_seventh_s32, |r| r as i32, seventh);
    check(&kernels::shuffle_seventh_f32, |r| (r >> 40) as f32 - 0.5, seventh);
    // Past the ends of the warp a lane keeps its value.
    check(
        &kernels::shuffle_up_3,
        |r| r as u32,
        |inputs, lane| inputs[if lane < 3 { lane } else { lane - 3 }],
    );
    check(
        &kernels::shuffle_down_5,
        |r| r as u32,
        |inputs, lane| inputs[if lane < 27 { lane + 5 } else { lane }],
    );
    check(&kernels::shuffle_xor_13, |r| r as u32, |inputs, lane| inputs[lane ^ 13]);
}
