//! Reductions and matches over groups of a warp: lanes 0 to 19, and 20 to 31.

use crate::support::{Bits, SM_80, on_each, poisoned, random};
use moye::{Global, GlobalMut, Grid, Kernel};
use moye_kernels_copy as kernels;

/// The lanes of the group that `lane` is in.
fn group(lane: usize) -> std::ops::Range<usize> {
    if lane < 20 { 0..20 } else { 20..32 }
}

/// Checks what each lane gets against `want` of its lane, over inputs with and without repetitions.
#[track_caller]
fn check<T: Bits, U: Bits>(
    kernel: &Kernel<(Global<T>, GlobalMut<U>)>,
    of: impl Fn(u64) -> T,
    want: impl Fn(&[T], usize) -> U,
) {
    let all_same = [7; 32].to_vec();
    let few = random(21, 32).into_iter().map(|r| r % 3).collect();
    for inputs in [random(20, 32), few, all_same] {
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

/// The lanes of the group with the lane's value.
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
