//! The epilogue's arithmetic: in f32 for half precision and tf32, in f64 for f64, in i32 for
//! integers.

use super::arguments::{Activation, Arguments};
use half::{bf16, f16};
use moye_device::algorithm::transform;
use moye_device::arch::{self, Convert, Fma, opaque};
use moye_device::kernel::KernelParam;
use moye_device::math;
use moye_device::memory::Element;
use moye_device::tensor::{Access, Engine, Fragment, StaticLayout, Tensor};

/// The type of `alpha`, `beta`, the bias and the activation's arithmetic.
pub trait Scalar: Fma + KernelParam + PartialEq {
    /// The value 1.
    const ONE: Self;
    /// The additive identity for every value: -0 for floats, since `-0 + 0` is 0.
    const NOTHING: Self;

    /// [`Activation::Relu`].
    #[must_use]
    fn relu(self) -> Self;

    /// [`Activation::Gelu`]. It is not defined for integers, which are unchanged: the host refuses
    /// it.
    #[must_use]
    fn gelu(self) -> Self;

    /// [`Activation::GeluTanh`]; as for [`Scalar::gelu`].
    #[must_use]
    fn gelu_tanh(self) -> Self;

    /// [`Activation::Silu`]; as for [`Scalar::gelu`].
    #[must_use]
    fn silu(self) -> Self;

    /// [`Scalar::gelu`] of two numbers, if that takes fewer instructions.
    #[inline(always)]
    #[must_use]
    fn gelu_of_two(pair: [Self; 2]) -> [Self; 2] {
        pair.map(Self::gelu)
    }

    /// [`Scalar::gelu_tanh`] of two numbers, if that takes fewer instructions.
    #[inline(always)]
    #[must_use]
    fn gelu_tanh_of_two(pair: [Self; 2]) -> [Self; 2] {
        pair.map(Self::gelu_tanh)
    }

    /// [`Scalar::silu`] of two numbers, if that takes fewer instructions.
    #[inline(always)]
    #[must_use]
    fn silu_of_two(pair: [Self; 2]) -> [Self; 2] {
        pair.map(Self::silu)
    }
}

/// An element type of C, or of the bias, for arithmetic in `S`.
pub trait Convertible<S>: Element {
    /// The value in `S`.
    fn widen(self) -> S;
}

/// Replaces `results`, which hold the previous C if `beta` is not 0, by
/// `activation(alpha * sums + beta * c + bias)`.
///
/// `empty` means that there is no product: neither `alpha` nor `sums` is read, and `beta * c` keeps
/// its bits. Each condition is tested once for all elements, so that the code has one branch for
/// each condition, not one for each element.
///
/// # Safety
/// `sums` is readable, and so is `bias` if there is one.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub(super) unsafe fn finish<T, O, S, A, LA, B, LB, LR>(
    arguments: &Arguments<T, O, S>,
    sums: &Tensor<A, LA>,
    bias: &Tensor<B, LB>,
    results: &mut Fragment<B::Element, LR>,
    empty: bool,
) where
    T: Element,
    O: Element,
    S: Scalar + Convert<B::Element>,
    A: Access + Engine<Element: Convertible<S>>,
    B: Access + Engine<Element: Convertible<S>>,
    LA: StaticLayout,
    LB: StaticLayout,
    LR: StaticLayout,
{
    let count = const { LR::LAYOUT.size() as usize };
    let mut values = Fragment::<S, LR>::uninit();
    if empty {
        let none = if arguments.beta == S::ZERO { S::ZERO } else { S::NOTHING };
        transform(sums, &mut values, |_| none);
    } else {
        transform(sums, &mut values, |sum| arguments.alpha.fma(sum.widen(), S::ZERO));
    }
    if arguments.beta != S::ZERO {
        for e in 0..count {
            values.set(e, arguments.beta.fma(results.get(e).widen(), values.get(e)));
        }
    }
    if arguments.bias.address() != 0 {
        for e in 0..count {
            values.set(e, S::ONE.fma(bias.get(e).widen(), values.get(e)));
        }
    }
    // A branch for each group: the kernel does not test the condition for each element, and the
    // compiler schedules the instructions between two branches at once, in time that grows with the
    // square of their number.
    for group in 0..count.div_ceil(GROUP) {
        let group = group * GROUP..((group + 1) * GROUP).min(count);
        match opaque(arguments.activation) {
            RELU => {
                for e in group {
                    values.set(e, values.get(e).relu());
                }
            }
            GELU => {
                for e in group {
                    values.set(e, values.get(e).gelu());
                }
            }
            GELU_TANH => {
                for e in group {
                    values.set(e, values.get(e).gelu_tanh());
                }
            }
            SILU => {
                for e in group {
                    values.set(e, values.get(e).silu());
                }
            }
            _ => {}
        }
    }
    transform(&values, results, |value| value);
}

/// Elements whose activation is computed between two branches.
const GROUP: usize = 16;

const RELU: u32 = Activation::Relu as u32;
const GELU: u32 = Activation::Gelu as u32;
const GELU_TANH: u32 = Activation::GeluTanh as u32;
const SILU: u32 = Activation::Silu as u32;

// The activations are functions of their own on the host: inlined into each kernel they would be
// most of the time that a build of the kernels takes for the simulator.
impl Scalar for f32 {
    const ONE: Self = 1.0;
    const NOTHING: Self = -0.0;

    #[inline(always)]
    fn relu(self) -> Self {
        math::relu(self)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu(self) -> Self {
        math::fast::gelu(self)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu_tanh(self) -> Self {
        math::fast::gelu_tanh(self)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn silu(self) -> Self {
        math::fast::silu(self)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu_of_two(pair: [Self; 2]) -> [Self; 2] {
        math::fast::gelu_of_two(pair)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu_tanh_of_two(pair: [Self; 2]) -> [Self; 2] {
        math::fast::gelu_tanh_of_two(pair)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn silu_of_two(pair: [Self; 2]) -> [Self; 2] {
        math::fast::silu_of_two(pair)
    }
}

/// `2 * sqrt(2 / pi)` and the factor of the cube in GELU's form by a hyperbolic tangent:
/// `1 + tanh(y)` is `2 sigmoid(2 y)`.
const GELU_FACTOR: f64 = 1.595_769_121_605_731;
const GELU_CUBE: f64 = 0.044_715;

/// Below this the exponential of f64 is 0, and so is its product with the exponent.
const LEAST_F64: f64 = -800.0;

impl Scalar for f64 {
    const ONE: Self = 1.0;
    const NOTHING: Self = -0.0;

    #[inline(always)]
    fn relu(self) -> Self {
        if self < 0.0 { 0.0 } else { self }
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu(self) -> Self {
        // The exponential of `-40^2 / 2` is 0.
        let below = (-self.abs()).max(-40.0);
        let square = below * below;
        let [root, other] = exp_f64(-0.5 * square);
        // The rounding error of the square, which the exponential multiplies.
        let rounded = below.fma(below, -square);
        let tail = normal_tail(-below);
        let above = if self < 0.0 { -0.0 } else { self };
        (below * root).fma(other * tail.fma(-0.5 * rounded, tail), above)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu_tanh(self) -> Self {
        let below = (-self.abs()).max(LEAST_F64);
        let inner = below * (below * below).fma(GELU_FACTOR * GELU_CUBE, GELU_FACTOR);
        gated_f64(self, below, inner.max(LEAST_F64))
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn silu(self) -> Self {
        let below = (-self.abs()).max(LEAST_F64);
        gated_f64(self, below, below)
    }
}

/// `x * sigmoid(t)` as `max(x, -0) - |x| * e / (1 + e)`, of `below = -|x|` and the exponent `-|t|`
/// of `e`: the form of [`math::silu`].
#[inline(always)]
fn gated_f64(x: f64, below: f64, exponent: f64) -> f64 {
    let [root, other] = exp_f64(exponent);
    let above = if x < 0.0 { -0.0 } else { x };
    (below * root).fma(other / root.fma(other, 1.0), above)
}

/// `Phi(-a) * e^(a^2 / 2)` of the normal distribution `Phi`, for `a` from 0 to 40. Times `a + 4.5`
/// it is a polynomial of `(a - 4.5) / (a + 4.5)`: a fit by Chebyshev polynomials within 2^-55
/// relatively.
#[inline(always)]
fn normal_tail(a: f64) -> f64 {
    #[allow(clippy::excessive_precision, reason = "coefficients as they were computed")]
    const COEFFICIENTS: [f64; 23] = [
        0.763_230_528_970_203_133,
        -0.640_257_760_252_617_3,
        0.446_452_517_055_678_304,
        -0.253_141_799_950_945_586,
        0.111_382_596_570_205_939,
        -0.033_871_326_177_859_003_9,
        4.223_613_380_654_977_97e-3,
        1.748_830_577_677_128_86e-3,
        -9.177_465_095_669_084_73e-4,
        6.381_076_912_484_596_46e-6,
        1.120_427_525_386_433_06e-4,
        -1.593_274_779_509_398_29e-5,
        -1.423_605_832_113_647_43e-5,
        3.189_261_055_788_469_51e-6,
        2.142_972_931_107_297_12e-6,
        -4.986_208_268_882_209_84e-7,
        -3.787_734_933_053_868_42e-7,
        6.022_957_829_324_871_44e-8,
        6.907_785_412_696_767_17e-8,
        -2.422_280_687_801_048_99e-9,
        -9.747_974_538_320_730_26e-9,
        -7.794_994_997_237_529_8e-10,
        5.026_893_010_820_031_8e-10,
    ];
    let reciprocal = 1.0 / (a + 4.5);
    let t = reciprocal.fma(-9.0, 1.0);
    let mut sum = COEFFICIENTS[22];
    let mut at = 22;
    while at > 0 {
        at -= 1;
        sum = sum.fma(t, COEFFICIENTS[at]);
    }
    reciprocal * sum
}

/// `e^x` for x from -800 to 0 as two normal numbers whose product is within a few units in the last
/// place: `2^n * e^r` with `|r| <= ln(2) / 2`, and e^r by its series to the 13th power.
#[inline(always)]
fn exp_f64(x: f64) -> [f64; 2] {
    /// `ln(2)` in two parts. The first has few enough bits that its product with `n` is exact.
    const LN2: (f64, f64) = (f64::from_bits(0x3fe6_2e42_fee0_0000), 1.908_214_929_270_587_7e-10);
    // Adding and subtracting 1.5 * 2^52 rounds to the nearest integer.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let n = x.fma(core::f64::consts::LOG2_E, ROUND) - ROUND;
    let r = n.fma(-LN2.1, n.fma(-LN2.0, x));
    let mut sum = 1.0;
    let mut term = 13;
    while term > 0 {
        sum = (r * (1.0 / f64::from(term))).fma(sum, 1.0);
        term -= 1;
    }
    let power = |n: i64| f64::from_bits(((n + 1023) as u64) << 52);
    let (n, half) = (n as i64, n as i64 / 2);
    [sum * power(half), power(n - half)]
}

impl Scalar for i32 {
    const ONE: Self = 1;
    const NOTHING: Self = 0;

    #[inline(always)]
    fn relu(self) -> Self {
        if self < 0 { 0 } else { self }
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu(self) -> Self {
        self
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu_tanh(self) -> Self {
        self
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn silu(self) -> Self {
        self
    }
}

macro_rules! same {
    ($($t:ty),*) => { $(
        impl Convertible<$t> for $t {
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
        }
    )* };
}
same!(f32, f64, i32);

impl Convertible<f32> for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        arch::f16_to_f32(self)
    }
}

impl Convertible<f32> for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        arch::bf16_to_f32(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_of_f64_is_within_four_units_in_the_last_place() {
        for i in -80_000..=0 {
            let x = f64::from(i) * 0.01;
            let ([root, other], of_half) = (exp_f64(x), (0.5 * x).exp());
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
                // Paired with a number whose sigmoid is smallest.
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
                assert!(
                    off <= 4e-6 * (1.0 + want.abs()),
                    "{which}({x}) = {got_f32:e} in f32, expected {want:e}"
                );
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
            f32::silu_of_two([f32::NAN, 0.0])[0].is_nan()
                && f32::gelu_tanh_of_two([0.0, f32::NAN])[1].is_nan()
        );
        assert_eq!((-5).relu(), 0);
    }

    /// `x * sigmoid(t)`, by factors that do not underflow before the result.
    fn gated(x: f64, t: f64) -> f64 {
        if x < 0.0 {
            // Finite in place of minus infinity: the exponential of -800 is 0 for both.
            let (x, root) = (x.max(-1e9), (0.5 * t.max(-1600.0)).exp());
            x * root * root / (1.0 + t.max(-1600.0).exp())
        } else {
            x / (1.0 + (-t).exp())
        }
    }

    /// `t` of GELU by a hyperbolic tangent.
    fn cubic(x: f64) -> f64 {
        GELU_FACTOR * (x + GELU_CUBE * x * x * x)
    }

    /// The distance of `got` from `want`, in units in the last place of a float with `fraction`
    /// bits of fraction and the least exponent `least`. NaN for zeros of different signs.
    fn units(got: f64, want: f64, fraction: i32, least: i32) -> f64 {
        if got == want {
            return if got == 0.0 && got.is_sign_negative() != want.is_sign_negative() {
                f64::NAN
            } else {
                0.0
            };
        }
        let exponent = ((want.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least);
        // By two powers, for the smallest exponents of f64.
        let half = (fraction - exponent) / 2;
        ((got - want) * 2f64.powi(half)).abs() * 2f64.powi(fraction - exponent - half)
    }

    /// Numbers of all exponents and both signs, infinities and NaN.
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
            // A number, its type's fraction bits and least exponent, its rounding and its largest
            // number.
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
        // What the constant leaves of 1 / sqrt(2).
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
            // Where the reference's error function is subnormal it has few bits.
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
            assert!(units(got, want, 52, -1022) <= 12.0, "gelu({x}) = {got:e}, expected {want:e}");
            assert!(
                x < -13.0 || x == -0.001 || { units(narrow, want, 23, -126) <= 12.0 + 2.0 * x * x },
                "gelu({x}) = {narrow:e} in f32, expected {want:e}"
            );
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
            assert!(units(got, want, 52, -1022) <= 10.0, "silu({x}) = {got:e}, expected {want:e}");
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
            assert!(
                units(got, want, 52, -1022) <= 10.0 + 4.0 * t,
                "gelu_tanh({x}) = {got:e}, expected {want:e}"
            );
            let off = units(narrow, want, 23, -126);
            assert!(
                x < -10.6 || off <= 8.0 + 4.0 * t,
                "gelu_tanh({x}) = {narrow:e} in f32, expected {want:e}"
            );
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
}
