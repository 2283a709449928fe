//! Reductions, matches, votes and shuffles over a warp. But for shuffles by distances, lanes below
//! 20 and the others work in two groups.

use moye_device::arch::*;
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut};

/// Lane `l` gives `input[l]`, and writes to `output[l]` what its group, the lanes below 20 or the
/// others, makes of it.
macro_rules! by_group {
    ($($name:ident: $from:ty => $to:ty = $function:expr;)*) => { $(
        #[kernel(threads = 32)]
        pub unsafe fn $name(input: Global<$from>, output: GlobalMut<$to>) {
            let lane = lane_id();
            let mask = if lane < 20 { 0x000F_FFFF } else { 0xFFF0_0000 };
            let function = $function;
            // SAFETY: the buffers have 32 elements.
            unsafe { output.write(i64::from(lane), function(mask, input.read(i64::from(lane)))) }
        }
    )* };
}
by_group! {
    redux_add: u32 => u32 = reduce_add;
    redux_add_s32: i32 => i32 = reduce_add;
    redux_min_u32: u32 => u32 = reduce_min;
    redux_max_u32: u32 => u32 = reduce_max;
    redux_min_s32: i32 => i32 = reduce_min;
    redux_max_s32: i32 => i32 = reduce_max;
    redux_and: u32 => u32 = reduce_and;
    redux_or: u32 => u32 = reduce_or;
    redux_xor: u32 => u32 = reduce_xor;
    match_any_b32: u32 => u32 = match_any;
    match_any_b64: u64 => u32 = match_any_u64;
    match_all_b32: u32 => u32 = |mask, value| u32::from(match_all(mask, value));
}

/// Whether a lane of the votes says yes.
#[inline(always)]
fn odd(value: u32) -> bool {
    value & 1 == 1
}

by_group! {
    vote_all_odd: u32 => u32 = |mask, value| u32::from(vote_all(mask, odd(value)));
    vote_any_odd: u32 => u32 = |mask, value| u32::from(vote_any(mask, odd(value)));
    ballot_odd: u32 => u32 = |mask, value| ballot(mask, odd(value));
}

/// The lane seven further on in a group, from its end back to its start.
#[inline(always)]
fn seventh(lane: u32) -> u32 {
    if lane < 20 { (lane + 7) % 20 } else { 20 + (lane - 20 + 7) % 12 }
}

// A shuffle by a distance works on the whole warp, whose ends it stops at, and not on groups.
by_group! {
    shuffle_seventh: u32 => u32 = |mask, value| shuffle(mask, value, seventh(lane_id()));
    shuffle_seventh_s32: i32 => i32 = |mask, value| shuffle(mask, value, seventh(lane_id()));
    shuffle_seventh_f32: f32 => f32 = |mask, value| shuffle(mask, value, seventh(lane_id()));
    shuffle_up_3: u32 => u32 = |_: u32, value| shuffle_up(FULL_WARP, value, 3);
    shuffle_down_5: u32 => u32 = |_: u32, value| shuffle_down(FULL_WARP, value, 5);
    shuffle_xor_13: u32 => u32 = |_: u32, value| shuffle_xor(FULL_WARP, value, 13);
}
