//! The f32 functions against f64: within the documented units in the last place.

#[path = "../../tests/fixtures/common/gated.rs"]
mod gated;

use gated::gated;
use moye_device::math;

/// Values of f32 from `from` to `to`, evenly spaced by their bits.
fn between(from: f32, to: f32) -> impl Iterator<Item = f32> {
    let (from, to) = (from.to_bits(), to.to_bits());
    (0..=100_000u32)
        .map(move |i| f32::from_bits(from + (u64::from(to - from) * u64::from(i) / 100_000) as u32))
}

/// The error of `got` in units in the last place of f32 at `want`.
fn units(got: f32, want: f64) -> f64 {
    let nearest = want as f32;
    let unit = f64::from(f32::from_bits((nearest.abs().to_bits()).max(0x0080_0000) + 1))
        - f64::from(f32::from_bits(nearest.abs().to_bits().max(0x0080_0000)));
    (f64::from(got) - want).abs() / unit
}

#[track_caller]
fn within(limit: f64, from: f32, to: f32, f: fn(f32) -> f32, exact: fn(f64) -> f64) {
    let mut worst = (0.0, 0.0);
    for x in between(from, to).flat_map(|x| [x, -x]) {
        let off = units(f(x), exact(f64::from(x)));
        if off > worst.0 {
            worst = (off, x);
        }
    }
    assert!(worst.0 <= limit, "{} units at {:e}", worst.0, worst.1);
}

#[test]
fn exact_functions_are_within_their_units_in_the_last_place() {
    within(2.0, 1e-6, 125.0, math::exp2, f64::exp2);
    within(2.0, 1e-6, 87.0, math::exp, f64::exp);
    within(4.0, 1e-9, 20.0, math::tanh, f64::tanh);
    within(4.0, 1e-9, 4.4, math::erf, libm::erf);
    for x in between(f32::from_bits(1), f32::MAX) {
        let (off, exact) = (units(math::log2(x), f64::from(x).log2()), f64::from(x).log2());
        assert!(off <= 3.0, "log2 of {x:e}, {exact}: {off} units");
        assert!(units(math::rsqrt(x), 1.0 / f64::from(x).sqrt()) <= 1.5, "rsqrt of {x:e}");
        assert_eq!(math::sqrt(x), x.sqrt());
    }
    for x in between(0.99, 1.01) {
        let off = units(math::log2(x), f64::from(x).log2());
        assert!(off <= 3.0, "log2 of {x:e}: {off} units");
    }
}

#[test]
fn the_ends_of_the_exact_functions_are_those_of_ieee_754() {
    assert_eq!(
        (math::exp2(200.0), math::exp2(-200.0), math::exp2(f32::NEG_INFINITY)),
        (f32::INFINITY, 0.0, 0.0)
    );
    assert_eq!(math::exp2(-149.0), f32::from_bits(1));
    assert_eq!((math::exp(f32::INFINITY), math::exp(-200.0)), (f32::INFINITY, 0.0));
    assert_eq!((math::log2(0.0), math::log2(f32::INFINITY)), (f32::NEG_INFINITY, f32::INFINITY));
    assert!(math::log2(-1.0).is_nan());
    assert_eq!((math::tanh(50.0), math::tanh(f32::NEG_INFINITY)), (1.0, -1.0));
    assert_eq!((math::erf(5.0), math::erf(f32::NEG_INFINITY)), (1.0, -1.0));
    for f in [math::exp2, math::exp, math::log2, math::tanh, math::erf, math::sqrt, math::rsqrt] {
        assert!(f(f32::NAN).is_nan());
    }
    for n in -149..128 {
        assert_eq!(math::log2(math::exp2(n as f32)), n as f32);
    }
}

#[test]
fn approximations_are_near_on_the_simulator_and_say_so_of_the_gpu() {
    for x in between(1e-3, 50.0) {
        assert!(units(math::fast::log2(x), f64::from(x).log2()) <= 0.51, "log2 of {x}");
        assert!(units(math::fast::rsqrt(x), 1.0 / f64::from(x).sqrt()) <= 0.51, "rsqrt of {x}");
        assert!(units(math::fast::tanh(x), f64::from(x).tanh()) <= 0.51, "tanh of {x}");
        for x in [x, -x] {
            assert!((f64::from(math::fast::erf(x)) - libm::erf(f64::from(x))).abs() < 1e-6, "erf of {x}");
        }
    }
    assert_eq!(math::fast::exp(0.0), 1.0);
}

#[test]
fn silu_and_both_gelus_are_right_to_a_few_units_from_infinity_to_infinity() {
    use moye_device::math::fast;
    // A prime step through all bit patterns; and the range where results become subnormal.
    let all = (0..=u32::MAX).step_by(10_007).map(f32::from_bits);
    let near = (-1_100_000..=1_100_000).map(|i| i as f32 * 1e-4);
    for x in all.chain(near).chain([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY]) {
        let wide = f64::from(x);
        let silu = [
            math::silu(x),
            fast::silu(x),
            fast::silu_of_two([x, -3.0])[0],
            fast::silu_of_two([f32::NAN, x])[1],
        ];
        let gelu = [
            math::gelu(x),
            fast::gelu(x),
            fast::gelu_of_two([x, -3.0])[0],
            fast::gelu_of_two([f32::NAN, x])[1],
        ];
        let gelu_tanh = [
            math::gelu_tanh(x),
            fast::gelu_tanh(x),
            fast::gelu_tanh_of_two([x, -3.0])[0],
            fast::gelu_tanh_of_two([f32::NAN, x])[1],
        ];
        let exact = 0.5 * wide.max(-1e9) * libm::erfc(-wide * std::f64::consts::FRAC_1_SQRT_2);
        let cubic = 1.595_769_121_605_731 * (wide + 0.044_715 * wide.powi(3));
        for (which, t, got) in
            [("silu", wide, silu), ("gelu_tanh", cubic, gelu_tanh), ("gelu", 0.5 * wide * wide, gelu)]
        {
            if x.is_nan() {
                assert!(got.iter().all(|got| got.is_nan()), "{which}({x}) is {got:?}");
                continue;
            }
            let want = if which == "gelu" { exact } else { gated(wide, t) };
            let bound = match which {
                "silu" => 8.0,
                "gelu" => 12.0 + 4.0 * t.abs().min(200.0),
                _ => 8.0 + 4.0 * t.abs().min(200.0),
            };
            for got in got {
                // The signs of the zeros at minus infinity and at -0 count.
                let same = f64::from(got) == want && got.is_sign_negative() == want.is_sign_negative();
                let off = units(got, want);
                assert!(same || off <= bound, "{which}({x:e}) = {got:e}, {off} units from {want:e}");
            }
        }
    }
}

#[test]
fn relu_is_the_greater_of_a_number_and_zero_and_keeps_nan() {
    assert_eq!([-1.5, -0.0, 2.5, f32::INFINITY].map(math::relu), [0.0, 0.0, 2.5, f32::INFINITY]);
    assert!(math::relu(f32::NAN).is_nan());
}
