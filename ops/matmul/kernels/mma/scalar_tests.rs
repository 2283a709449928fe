//! Tests of the arithmetic.

#[path = "../../../../tests/fixtures/common/gated.rs"]
mod gated;

use super::super::scalar_f64::{GELU_FACTOR, exp_f64};
use super::*;
use gated::gated;

#[test]
fn the_exponential_of_f64_is_within_four_units_in_the_last_place() {
    for i in -80_000..=0 {
        let x = f64::from(i) * 0.01;
        let (([power, _], [scale, other]), of_half) = (exp_f64([x, 0.0]), (0.5 * x).exp());
        let root = power * scale;
        let off = (root / of_half) * (other / of_half) - 1.0;
        assert!(off.abs() < 5.0 * f64::EPSILON, "e^{x}: {root:e} * {other:e} is off by {off:e}");
        assert!(root.is_normal() && other.is_normal(), "e^{x}: {root:e} * {other:e}");
    }
}

#[test]
fn activations_are_what_their_formulas_say() {
    for i in -200..=200 {
        let x = f64::from(i) * 0.1;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let gelu_tanh =
            0.5 * x * (1.0 + ((2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
        let y = x as f32;
        let all = [
            ("relu", x.relu(), y.relu(), x.max(0.0)),
            ("gelu_tanh", x.gelu_tanh(), y.gelu_tanh(), gelu_tanh),
            ("silu", x.silu(), y.silu(), x * sigmoid(x)),
            // Paired with a value whose sigmoid is smallest.
            ("gelu_tanh", x.gelu_tanh(), f32::gelu_tanh_of_two([y, -100.0])[0], gelu_tanh),
            ("gelu_tanh", x.gelu_tanh(), f32::gelu_tanh_of_two([-100.0, y])[1], gelu_tanh),
            ("silu", x.silu(), f32::silu_of_two([y, -100.0])[0], x * sigmoid(x)),
            ("silu", x.silu(), f32::silu_of_two([-100.0, y])[1], x * sigmoid(x)),
            ("silu", f64::silu_of_two([x, 0.0])[0], f32::silu_of_two([y, f32::NAN])[0], x * sigmoid(x)),
        ];
        for (which, got, got_f32, want) in all {
            assert!(
                (got - want).abs() <= 1e-14 * (1.0 + want.abs()),
                "{which}({x}) = {got:e}, expected {want:e}"
            );
            let off = (f64::from(got_f32) - want).abs();
            assert!(off <= 4e-6 * (1.0 + want.abs()), "{which}({x}) = {got_f32:e} in f32, expected {want:e}");
        }
    }
    // Far from zero, paired with each other.
    let far = [-1e5, -1e20, -1e30, f32::MIN, 1e5, 1e20, f32::MAX, -44.0, -43.0, 0.0, 1.0];
    for x in far {
        for y in far {
            for (which, of_two, of_one) in [
                ("gelu_tanh", f32::gelu_tanh_of_two([x, y])[0], x.gelu_tanh()),
                ("gelu_tanh", f32::gelu_tanh_of_two([y, x])[1], x.gelu_tanh()),
                ("silu", f32::silu_of_two([x, y])[0], x.silu()),
                ("silu", f32::silu_of_two([y, x])[1], x.silu()),
            ] {
                let off = (of_two - of_one).abs();
                assert!(
                    off <= 1e-6 * of_one.abs() + 1e-16,
                    "{which}({x:e}) beside {y:e}: {of_two:e}, {of_one:e} alone"
                );
            }
        }
    }
    assert!(f32::NAN.relu().is_nan());
    assert!(
        f32::silu_of_two([f32::NAN, 0.0])[0].is_nan() && f32::gelu_tanh_of_two([0.0, f32::NAN])[1].is_nan()
    );
    assert_eq!((-5).relu(), 0);
}

/// `t` of the tanh form of GELU.
fn cubic(x: f64) -> f64 {
    GELU_FACTOR[0] * (x + 0.044_715 * x * x * x)
}

/// The distance of `got` from `want`, in units in the last place of a float with `fraction`
/// bits of fraction and the least exponent `least`. NaN for zeros of different signs.
fn units(got: f64, want: f64, fraction: i32, least: i32) -> f64 {
    if got == want {
        return if got == 0.0 && got.is_sign_negative() != want.is_sign_negative() { f64::NAN } else { 0.0 };
    }
    let exponent = ((want.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least);
    // By two powers, for the smallest exponents of f64.
    let half = (fraction - exponent) / 2;
    ((got - want) * 2f64.powi(half)).abs() * 2f64.powi(fraction - exponent - half)
}

/// Values of all exponents and both signs, infinities and NaN.
fn of_all_exponents() -> impl Iterator<Item = f64> {
    (0..=0x7ff_u64).flat_map(|exponent| {
        let fractions =
            [0, 1, 0x5_5555_5555_5555, 0x8_0000_0000_0000, 0xc_cccc_cccc_cccc, 0xf_ffff_ffff_ffff];
        fractions.into_iter().flat_map(move |fraction| {
            [0, 1].map(|sign: u64| f64::from_bits(sign << 63 | exponent << 52 | fraction))
        })
    })
}

#[test]
fn silu_and_gelu_tanh_of_f64_are_right_to_a_few_units_from_infinity_to_infinity() {
    let near = (-800_000..=800_000).map(|i| f64::from(i) * 1e-3);
    for x in of_all_exponents().chain(near) {
        for (which, t, got) in [("silu", x, x.silu()), ("gelu_tanh", cubic(x), x.gelu_tanh())] {
            if x.is_nan() {
                assert!(got.is_nan(), "{which}({x}) is {got}");
                continue;
            }
            let (want, bound) =
                (gated(x, t), if which == "silu" { 10.0 } else { 10.0 + 4.0 * t.abs().min(800.0) });
            let off = units(got, want, 52, -1022);
            assert!(off <= bound, "{which}({x:e}) = {got:e}, {off} units from {want:e}");
        }
    }
}

#[test]
fn every_f16_and_bf16_has_the_silu_and_gelu_tanh_that_its_type_has_nearest_or_next_to_it() {
    for bits in 0..=u16::MAX {
        // A value, its type's fraction bits and least exponent, its rounding and its largest value.
        type OfType = (f32, i32, i32, fn(f32) -> f64, f64);
        let of_f16: OfType =
            (f16::from_bits(bits).widen(), 10, -14, |x| f16::from_f32(x).to_f64(), f16::MAX.to_f64());
        let of_bf16: OfType =
            (bf16::from_bits(bits).widen(), 7, -126, |x| bf16::from_f32(x).to_f64(), bf16::MAX.to_f64());
        for (x, fraction, least, narrow, most) in [of_f16, of_bf16] {
            if x.is_nan() {
                assert!(narrow(x.silu()).is_nan() && narrow(x.gelu_tanh()).is_nan());
                continue;
            }
            for (which, t, got) in
                [("silu", x.into(), x.silu()), ("gelu_tanh", cubic(x.into()), x.gelu_tanh())]
            {
                let (got, want) = (narrow(got), gated(x.into(), t));
                if want.is_finite() && want <= most {
                    let off = units(got, want, fraction, least);
                    // Half a unit is the rounding error.
                    assert!(off <= 0.51, "{which}({x:e}) = {got:e}, {off} units from {want:e}");
                } else {
                    assert_eq!(got, want, "{which}({x:e})");
                }
            }
        }
    }
}

/// GELU in f64 within a few units: the error function's argument is rounded, and far below zero
/// it is magnified by twice the square.
fn exact(x: f64) -> f64 {
    use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
    // The rounding error of the constant 1 / sqrt(2).
    const REST: f64 = -4.833_646_656_726_457e-17;
    let z = -x * FRAC_1_SQRT_2;
    let off = f64::mul_add(-x, FRAC_1_SQRT_2, -z) - x * REST;
    let tail = libm::erfc(z);
    let corrected = if off.is_finite() { tail - FRAC_2_SQRT_PI * (-z * z).exp() * off } else { tail };
    0.5 * x.max(-1e9) * corrected
}

#[test]
fn gelu_of_f64_is_right_to_a_few_units_from_infinity_to_infinity() {
    let near = (-800_000..=800_000).map(|i| f64::from(i) * 1e-3);
    for x in of_all_exponents().chain(near) {
        let (got, want) = (x.gelu(), exact(x));
        if x.is_nan() {
            assert!(got.is_nan(), "gelu({x}) is {got}");
            continue;
        }
        // A subnormal result of the reference's error function has few bits.
        let bound = if x < -37.4 { 64.0 } else { 12.0 };
        let off = units(got, want, 52, -1022);
        assert!(off <= bound, "gelu({x:e}) = {got:e}, {off} units from {want:e}");
    }
}

#[test]
fn every_f16_and_bf16_has_the_gelu_that_its_type_has_nearest_or_next_to_it() {
    for bits in 0..=u16::MAX {
        let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
        let of_f16 = (half.to_f64(), f16::from_f32(half.to_f32().gelu()).to_f64(), 10, -14);
        let of_bf16 = (brain.to_f64(), bf16::from_f32(brain.to_f32().gelu()).to_f64(), 7, -126);
        for (x, got, fraction, least) in [of_f16, of_bf16] {
            if x.is_nan() {
                assert!(got.is_nan());
                continue;
            }
            let off = units(got, exact(x), fraction, least);
            // Half a unit is the rounding error.
            assert!(off <= 0.51, "gelu({x:e}) = {got:e}, {off} units from {:e}", exact(x));
        }
    }
}

#[test]
#[allow(clippy::excessive_precision, reason = "a reference has all its digits")]
fn gelu_is_that_of_fifty_digits() {
    // Computed with mpmath 1.3.0 at 50 digits.
    let gelu = [
        (1.0, 0.841_344_746_068_542_948_585),
        (-0.001, -0.000_499_601_057_786_088_947_807),
        (-1.0, -0.158_655_253_931_457_051_415),
        (-2.5, -0.015_524_163_314_440_337_917_4),
        (-5.0, -0.000_001_433_257_859_395_969_558_37),
        (-10.0, -7.619_853_024_160_526_065_97e-23),
        (-13.5, -1.055_538_986_263_815_314_12e-40),
        (-20.0, -5.507_248_237_212_467_390_15e-88),
        (-30.0, -1.472_014_178_144_456_117_86e-196),
        (-37.0, -2.118_461_352_334_093_424_39e-298),
        (-38.4, -2.535_014_344_061_478_827_49e-321),
    ];
    for (x, want) in gelu {
        let (got, narrow) = (x.gelu(), f64::from((x as f32).gelu()));
        assert!(units(got, want, 52, -1022) <= 1.0, "gelu({x}) = {got:e}, expected {want:e}");
        assert!(
            x < -13.0 || x == -0.001 || { units(narrow, want, 23, -126) <= 12.0 + 2.0 * x * x },
            "gelu({x}) = {narrow:e} in f32, expected {want:e}"
        );
    }
}

#[test]
#[allow(clippy::excessive_precision, reason = "a reference has all its digits")]
fn activations_of_f64_are_within_one_unit_of_fifty_digits() {
    // GELU, its tanh form, and SiLU, with mpmath 1.3.0 at 50 digits.
    let table = [
        (-26.5, [-1.284_233_104_980_379_877_6e-153, -0.0, -8.211_870_717_587_390_318_2e-11]),
        (
            -18.91,
            [
                -8.921_433_022_494_707_110_2e-79,
                -4.207_901_490_450_617_695_1e-222,
                -1.159_265_398_662_092_541_9e-7,
            ],
        ),
        (
            -18.87,
            [
                -1.899_251_360_821_335_252_5e-78,
                -9.501_940_373_900_369_967_4e-221,
                -1.204_023_667_346_730_472_9e-7,
            ],
        ),
        (
            -16.36,
            [
                -3.019_466_007_550_496_148_4e-59,
                -1.523_118_460_389_232_936_5e-146,
                -1.284_474_660_992_868_479_6e-6,
            ],
        ),
        (
            -10.48,
            [
                -5.593_372_112_429_658_307_9e-25,
                -1.225_533_932_673_331_792_8e-42,
                -2.944_034_614_797_268_283_2e-4,
            ],
        ),
        (
            -4.381,
            [
                -2.587_766_260_592_851_389_6e-5,
                -9.992_492_200_910_366_498_4e-6,
                -0.054_141_288_693_470_408_484,
            ],
        ),
        (
            -4.275,
            [
                -4.085_559_675_191_876_770_4e-5,
                -1.766_432_845_050_477_797_5e-5,
                -0.058_657_955_932_768_354_922,
            ],
        ),
        (
            -3.937,
            [
                -1.624_142_558_488_147_676_1e-4,
                -9.454_260_711_548_647_466_9e-5,
                -0.075_328_267_297_200_431_377,
            ],
        ),
        (
            -3.522,
            [-7.542_435_964_739_371_033_8e-4, -5.649_226_442_939_725_775_6e-4, -0.101_055_705_209_968_865_55],
        ),
        (
            -3.301,
            [
                -0.001_590_106_266_804_556_468_5,
                -0.001_306_486_009_385_717_095_9,
                -0.117_307_304_658_517_914_22,
            ],
        ),
        (
            -0.606,
            [-0.164_987_970_224_087_657_73, -0.165_022_053_174_908_210_8, -0.213_901_147_778_779_407_06],
        ),
        (
            -1e-09,
            [
                -4.999_999_996_010_577_507_4e-10,
                -4.999_999_996_010_577_507_4e-10,
                -4.999_999_997_500_000_311_4e-10,
            ],
        ),
        (
            3e-05,
            [1.500_035_904_805_230_781_2e-5, 1.500_035_904_805_230_754_6e-5, 1.500_022_499_999_998_350_5e-5],
        ),
        (1.108, [0.959_604_553_991_619_623_26, 0.959_415_792_421_851_286_22, 0.832_945_716_283_996_666_01]),
        (3.071, [3.067_724_115_917_806_143_9, 3.068_109_065_860_912_481_5, 2.934_894_959_700_937_541_8]),
        (3.779, [3.778_702_480_417_879_047_4, 3.778_806_808_735_739_005_4, 3.694_595_034_803_227_058_9]),
    ];
    for (x, want) in table {
        let got = [x.gelu(), x.gelu_tanh(), x.silu()];
        for ((which, got), want) in ["gelu", "gelu_tanh", "silu"].iter().zip(got).zip(want) {
            assert!(units(got, want, 52, -1022) <= 1.0, "{which}({x}) = {got:e}, expected {want:e}");
        }
    }
}

#[test]
#[allow(clippy::excessive_precision, reason = "a reference has all its digits")]
fn activations_far_below_zero_are_those_of_fifty_digits() {
    // Computed with mpmath 1.3.0 at 50 digits.
    let silu = [
        (-1.0, -0.268_941_421_369_995_120_75),
        (-20.0, -4.122_307_236_380_407_162_9e-8),
        (-88.0, -5.328_049_667_953_043_578_4e-37),
        (-90.0, -7.374_611_361_591_463_887_3e-38),
        (-100.5, -2.267_621_836_596_621_494_8e-42),
        (-700.0, -6.901_773_580_631_839_599_7e-302),
        (-740.0, -3.099_667_511_235_556_215_2e-319),
        (-745.0, -2.102_651_294_201_593_121_9e-321),
    ];
    for (x, want) in silu {
        let (got, narrow) = (x.silu(), f64::from((x as f32).silu()));
        assert!(units(got, want, 52, -1022) <= 1.0, "silu({x}) = {got:e}, expected {want:e}");
        assert!(
            x < -104.0 || units(narrow, want, 23, -126) <= 8.0,
            "silu({x}) = {narrow:e} in f32, expected {want:e}"
        );
    }
    let gelu_tanh = [
        (-1.0, -0.158_808_009_391_723_295_22),
        (-5.0, -2.291_796_196_629_506_045_6e-7),
        (-10.0, -1.204_092_348_209_805_993_7e-37),
        (-10.5, -7.424_900_556_079_039_823e-43),
        (-20.0, -3.375_450_956_310_967_319_7e-261),
        (-21.0, -6.016_648_487_631_484_674_2e-301),
    ];
    for (x, want) in gelu_tanh {
        let (got, narrow, t) = (x.gelu_tanh(), f64::from((x as f32).gelu_tanh()), cubic(x).abs());
        assert!(units(got, want, 52, -1022) <= 1.0, "gelu_tanh({x}) = {got:e}, expected {want:e}");
        let off = units(narrow, want, 23, -126);
        assert!(x < -10.6 || off <= 8.0 + 4.0 * t, "gelu_tanh({x}) = {narrow:e} in f32, expected {want:e}");
    }
    for far in [-1e300, f64::MIN, f64::NEG_INFINITY] {
        let got = [
            far.silu(),
            far.gelu_tanh(),
            f64::from((far as f32).silu()),
            f64::from((far as f32).gelu_tanh()),
        ];
        assert!(got.iter().all(|got| *got == 0.0 && got.is_sign_negative()), "of {far:e}: {got:?}");
    }
}
