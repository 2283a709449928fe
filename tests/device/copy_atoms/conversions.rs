//! Conversions: every 16-bit input; f32 inputs with every upper half; and, for 16-bit results,
//! every value and the rounding boundary between neighbours.

use crate::support::{SM_80, SM_90, binary, random, unary};
use half::{bf16, f16};
use moye_device::arch::{Bf16x2, F16x2};
use moye_kernels_copy as kernels;

/// Every upper half of an f32 with four lower halves, among them half of the last bit of f16, tf32
/// and bf16 and its neighbours.
fn floats() -> Vec<f32> {
    const LOW: [u32; 16] = [
        0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x3000, 0x5000, 0x7000, 0x7FFF, 0x8000, 0x8001, 0x9000,
        0xF000, 0xFFFF,
    ];
    let with = |high: u32| {
        (0..4).map(move |k| f32::from_bits(high << 16 | LOW[((high * 5 + 4 * k + high / 97) % 16) as usize]))
    };
    let mut all: Vec<f32> = (0..=0xFFFF).flat_map(with).collect();
    // Around the limits of integer types, and ties.
    for value in
        [0.5, 1.5, 2.5, 127.5, 126.5, 128.0, 255.5, 254.5, 256.0, 2147483648.0, 4294967296.0, 2147483500.0]
    {
        all.extend([value, -value]);
    }
    all
}

/// Every value of a 16-bit float format, and the midpoint to the next one with the adjacent f32
/// values: wherever the nearest value changes, up to the overflow to infinity.
fn turns(to_f32: impl Fn(u16) -> f32) -> Vec<f32> {
    let of = |bits: u16| {
        let value = to_f32(bits);
        if !value.is_finite() {
            return vec![value, -value];
        }
        let exact = |bits| f64::from(to_f32(bits));
        let next =
            if to_f32(bits + 1).is_finite() { exact(bits + 1) } else { 2.0 * exact(bits) - exact(bits - 1) };
        let middle = ((f64::from(value) + next) / 2.0) as f32;
        assert_eq!(f64::from(middle), (f64::from(value) + next) / 2.0, "an f32 has it");
        let around = [value, middle, middle.next_down(), middle.next_up()];
        around.into_iter().flat_map(|value| [value, -value]).collect()
    };
    (0..=0x7FFF).flat_map(of).collect()
}

/// The inputs for f16, and for bf16.
fn halves() -> [Vec<f32>; 2] {
    let with = |turns| [floats(), turns].concat();
    [with(turns(|bits| f16::from_bits(bits).to_f32())), with(turns(|bits| bf16::from_bits(bits).to_f32()))]
}

#[test]
fn every_number_of_both_formats_is_rounded_to() {
    let [to_f16, to_bf16] = halves();
    let all = |results: Vec<u16>| {
        let mut seen = vec![false; 1 << 16];
        results.into_iter().for_each(|bits| seen[usize::from(bits)] = true);
        seen
    };
    let seen = all(to_f16.into_iter().map(|x| f16::from_f32(x).to_bits()).collect());
    assert!((0..=u16::MAX).all(|bits| f16::from_bits(bits).is_nan() || seen[usize::from(bits)]));
    let seen = all(to_bf16.into_iter().map(|x| bf16::from_f32(x).to_bits()).collect());
    assert!((0..=u16::MAX).all(|bits| bf16::from_bits(bits).is_nan() || seen[usize::from(bits)]));
}

/// 0 for negative values; NaN is kept.
fn relu(value: f32) -> f32 {
    if value <= 0.0 { 0.0 } else { value }
}

#[test]
fn f32_to_f16_is_the_nearest() {
    let [inputs, _] = halves();
    unary(&SM_80, &kernels::cvt_f16, &inputs, f16::from_f32);
    unary(&SM_80, &kernels::cvt_f16_relu, &inputs, |x| f16::from_f32(relu(x)));
}

#[test]
fn f32_to_bf16_is_the_nearest() {
    let [_, inputs] = halves();
    unary(&SM_80, &kernels::cvt_bf16, &inputs, bf16::from_f32);
    unary(&SM_80, &kernels::cvt_bf16_relu, &inputs, |x| bf16::from_f32(relu(x)));
}

/// Inputs in pairs: each as the lower half, with another one as the upper.
fn pairs(all: Vec<f32>) -> Vec<[f32; 2]> {
    (0..all.len()).map(|i| [all[i], all[(i * 7 + 13) % all.len()]]).collect()
}

#[test]
fn pairs_of_f32_are_rounded_each_for_itself() {
    let f16s = |a, b| F16x2::new(f16::from_f32(a), f16::from_f32(b));
    let bf16s = |a, b| Bf16x2::new(bf16::from_f32(a), bf16::from_f32(b));
    let [to_f16, to_bf16] = halves().map(pairs);
    binary(&kernels::cvt_f16x2, &to_f16, f16s);
    binary(&kernels::cvt_bf16x2, &to_bf16, bf16s);
    binary(&kernels::cvt_f16x2_relu, &to_f16, |a, b| f16s(relu(a), relu(b)));
    binary(&kernels::cvt_bf16x2_relu, &to_bf16, |a, b| bf16s(relu(a), relu(b)));
}

#[test]
fn every_f16_and_bf16_keeps_its_value_as_f32() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let f16s: Vec<f16> = all.iter().map(|&bits| f16::from_bits(bits)).collect();
    let bf16s: Vec<bf16> = all.iter().map(|&bits| bf16::from_bits(bits)).collect();
    unary(&SM_80, &kernels::cvt_f32_of_f16, &f16s, f16::to_f32);
    unary(&SM_80, &kernels::cvt_f32_of_bf16, &bf16s, bf16::to_f32);
}

/// f32 with the 13 low bits rounded off: `half` is added before they are truncated, with at most a
/// carry into the exponent.
fn tf32(value: f32, half: impl Fn(u32) -> u32) -> f32 {
    if value.is_finite() {
        f32::from_bits((value.to_bits() + half(value.to_bits())) & !0x1FFF)
    } else {
        value
    }
}

#[test]
fn f32_to_tf32_rounds_ties_away() {
    // A NaN is truncated too: if its payload is only in the 13 low bits, infinity remains.
    let cut = |x: f32| if x.is_nan() { f32::from_bits(x.to_bits() & !0x1FFF) } else { tf32(x, |_| 0x1000) };
    unary(&SM_80, &kernels::cvt_tf32, &floats(), cut);
}

#[test]
fn f32_to_tf32_rounds_to_even_and_towards_0() {
    // A tie carries only if the last kept bit is 1.
    let even = |bits: u32| 0x0FFF + (bits >> 13 & 1);
    unary(&SM_90, &kernels::sm_90::cvt_tf32_rn, &floats(), |x| tf32(x, even));
    unary(&SM_90, &kernels::sm_90::cvt_tf32_rz, &floats(), |x| tf32(x, |_| 0));
    unary(&SM_90, &kernels::sm_90::cvt_tf32_rn_relu, &floats(), |x| tf32(relu(x), even));
}

#[test]
fn f32_to_integers_is_the_nearest_within_range() {
    let mut inputs = floats();
    // Most floats are far outside the range of the small integers, so add more inputs inside it.
    inputs.extend(random(7, 1 << 14).into_iter().map(|r| (r as i32 % 4000) as f32 / 8.0));
    unary(&SM_80, &kernels::cvt_s8, &inputs, |x| x.round_ties_even() as i8);
    unary(&SM_80, &kernels::cvt_u8, &inputs, |x| x.round_ties_even() as u8);
    unary(&SM_80, &kernels::cvt_s32, &inputs, |x| x.round_ties_even() as i32);
    unary(&SM_80, &kernels::cvt_u32, &inputs, |x| x.round_ties_even() as u32);
}
