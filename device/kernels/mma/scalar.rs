//! What is computed behind a product: in f32 for half precision and tf32, in f64 for f64, in i32 for integers.

use super::arguments::{Activation, Arguments};
use half::{bf16, f16};
use moye_device::algorithm::transform;
use moye_device::arch::{self, Fma};
use moye_device::kernel::KernelParam;
use moye_device::memory::Element;
use moye_device::tensor::{Access, Engine, Fragment, StaticLayout, Tensor};

/// A type that `alpha`, `beta`, the bias and the activation are computed in.
pub trait Scalar: Fma + KernelParam + PartialEq {
    /// The value 1.
    const ONE: Self;

    /// [`Activation::Relu`].
    #[must_use]
    fn relu(self) -> Self;

    /// [`Activation::Gelu`]. Integers have no fractions to be smooth in, and stay as they are: the host refuses it.
    #[must_use]
    fn gelu(self) -> Self;

    /// [`Activation::Silu`]; as for [`Scalar::gelu`].
    #[must_use]
    fn silu(self) -> Self;

    /// [`Scalar::gelu`] of two, where that takes fewer instructions.
    #[inline(always)]
    #[must_use]
    fn gelu_of_two(pair: [Self; 2]) -> [Self; 2] {
        pair.map(Self::gelu)
    }

    /// [`Scalar::silu`] of two, likewise.
    #[inline(always)]
    #[must_use]
    fn silu_of_two(pair: [Self; 2]) -> [Self; 2] {
        pair.map(Self::silu)
    }
}

/// An element that is read or written where `S` is computed in.
pub trait Convertible<S>: Element {
    /// The value in `S`.
    fn widen(self) -> S;

    /// The element nearest to a value, ties to even.
    fn narrow(value: S) -> Self;
}

/// Replaces `results`, which hold what was in C where `beta` is not 0, by `activation(alpha * sums + beta * c + bias)`.
///
/// Each question is asked once for all elements, so that the code has a branch for each and not for each of an element.
///
/// # Safety
/// `sums` may be read, and `bias` where there is one.
#[inline(always)]
pub(super) unsafe fn finish<T, O, S, A, LA, B, LB, LR>(
    arguments: &Arguments<T, O, S>,
    sums: &Tensor<A, LA>,
    bias: &Tensor<B, LB>,
    results: &mut Fragment<B::Element, LR>,
) where
    T: Element,
    O: Element,
    S: Scalar,
    A: Access + Engine<Element: Convertible<S>>,
    B: Access + Engine<Element: Convertible<S>>,
    LA: StaticLayout,
    LB: StaticLayout,
    LR: StaticLayout,
{
    let count = const { LR::LAYOUT.size() as usize };
    // SAFETY: the caller's contract; every value is written before it is read.
    unsafe {
        let mut values = Fragment::<S, LR>::uninit();
        transform(sums, &mut values, |sum| arguments.alpha.fma(sum.widen(), S::ZERO));
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
        // One loop for each, so that the question is not asked for each element.
        match arguments.activation {
            RELU => {
                for e in 0..count {
                    values.set(e, values.get(e).relu());
                }
            }
            GELU => {
                for e in 0..count {
                    values.set(e, values.get(e).gelu());
                }
            }
            SILU => {
                for e in 0..count {
                    values.set(e, values.get(e).silu());
                }
            }
            _ => {}
        }
        transform(&values, results, B::Element::narrow);
    }
}

const RELU: u32 = Activation::Relu as u32;
const GELU: u32 = Activation::Gelu as u32;
const SILU: u32 = Activation::Silu as u32;

/// `2 * sqrt(2 / pi)` and the factor of the cube in GELU's form by a hyperbolic tangent: `1 + tanh(y)` is `2 sigmoid(2 y)`.
const GELU_FACTOR: f64 = 1.595_769_121_605_731;
const GELU_CUBE: f64 = 0.044_715;

macro_rules! float {
    ($t:ident, $sigmoid:path $(, $of_two:item)*) => {
        impl Scalar for $t {
            const ONE: Self = 1.0;
            $($of_two)*

            #[inline(always)]
            fn relu(self) -> Self {
                // What is not a number stays so.
                if self < 0.0 { 0.0 } else { self }
            }
            #[inline(always)]
            fn gelu(self) -> Self {
                let y = (GELU_FACTOR * GELU_CUBE) as $t * self * self * self + GELU_FACTOR as $t * self;
                self * $sigmoid(y)
            }
            #[inline(always)]
            fn silu(self) -> Self {
                self * $sigmoid(self)
            }
        }
    };
}
float! {
    f32, sigmoid_f32,
    #[inline(always)]
    fn gelu_of_two([x, y]: [Self; 2]) -> [Self; 2] {
        let inner = |x: f32| x * ((GELU_FACTOR * GELU_CUBE) as f32 * (x * x) + GELU_FACTOR as f32);
        let [a, b] = sigmoids([inner(x), inner(y)]);
        [x * a, y * b]
    },
    #[inline(always)]
    fn silu_of_two([x, y]: [Self; 2]) -> [Self; 2] {
        let [a, b] = sigmoids([x, y]);
        [x * a, y * b]
    }
}
float!(f64, sigmoid_f64);

/// `1 / (1 + e^-x)`, by the approximate instructions: a few units in the last place of f32.
#[inline(always)]
fn sigmoid_f32(x: f32) -> f32 {
    arch::rcp_approx_f32(1.0 + arch::ex2_approx_f32(-core::f32::consts::LOG2_E * x))
}

/// [`sigmoid_f32`] of two numbers by one reciprocal: `1 / p = q / (p q)`. The unit for reciprocals and powers takes eight times as long for
/// each as that for products, and is what activations wait for. The product of both is to be in range: what is below 2^-63 becomes 0.
#[inline(always)]
fn sigmoids(pair: [f32; 2]) -> [f32; 2] {
    const MOST: f32 = 63.0;
    let powers = pair.map(|x| -core::f32::consts::LOG2_E * x);
    let [p, q] = powers.map(|power| 1.0 + arch::ex2_approx_f32(power.min(MOST)));
    let reciprocal = arch::rcp_approx_f32(p * q);
    // What is not a number is not more either, and stays so by the number that it is multiplied with.
    let of = |power: f32, sigmoid: f32| if power > MOST { 0.0 } else { sigmoid };
    [of(powers[0], q * reciprocal), of(powers[1], p * reciprocal)]
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
fn sigmoid_f64(x: f64) -> f64 {
    1.0 / (1.0 + exp_f64(-x))
}

/// `e^x` within a few units in the last place: `2^n * e^r` with `|r| <= ln(2) / 2`, and e^r by its series to the 13th power.
#[inline(always)]
fn exp_f64(x: f64) -> f64 {
    /// `ln(2)` in two parts, the first with so few bits that its product with `n` is exact.
    const LN2: (f64, f64) = (f64::from_bits(0x3fe6_2e42_fee0_0000), 1.908_214_929_270_587_7e-10);
    // Beyond these the result is 0 or infinite to the sigmoid. What is not a number stays so.
    let x = if x > 709.0 { 709.0 } else { x };
    let x = if x < -709.0 { -709.0 } else { x };
    // Adding and taking away 1.5 * 2^52 rounds to the nearest whole number.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let n = x.fma(core::f64::consts::LOG2_E, ROUND) - ROUND;
    let r = n.fma(-LN2.1, n.fma(-LN2.0, x));
    let mut sum = 1.0;
    let mut term = 13;
    while term > 0 {
        sum = (r / f64::from(term)).fma(sum, 1.0);
        term -= 1;
    }
    sum * f64::from_bits(((n as i64 + 1023) as u64) << 52)
}

impl Scalar for i32 {
    const ONE: Self = 1;

    #[inline(always)]
    fn relu(self) -> Self {
        if self < 0 { 0 } else { self }
    }
    #[inline(always)]
    fn gelu(self) -> Self {
        self
    }
    #[inline(always)]
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
            #[inline(always)]
            fn narrow(value: $t) -> $t {
                value
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
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        arch::f32_to_f16(value)
    }
}

impl Convertible<f32> for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        arch::bf16_to_f32(self)
    }
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        arch::f32_to_bf16(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_of_f64_is_within_four_units_in_the_last_place() {
        for i in -70_000..=70_000 {
            let x = f64::from(i) * 0.01;
            let (got, want) = (exp_f64(x), x.exp());
            assert!(((got - want) / want).abs() < 4.0 * f64::EPSILON, "e^{x}: {got:e}, expected {want:e}");
        }
        assert!(exp_f64(f64::NAN).is_nan());
    }

    #[test]
    fn activations_are_what_their_formulas_say() {
        for i in -200..=200 {
            let x = f64::from(i) * 0.1;
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            let gelu =
                0.5 * x * (1.0 + ((2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
            let y = x as f32;
            let all = [
                ("relu", x.relu(), y.relu(), x.max(0.0)),
                ("gelu", x.gelu(), y.gelu(), gelu),
                ("silu", x.silu(), y.silu(), x * sigmoid(x)),
                // Beside a number whose sigmoid is as small as can be.
                ("gelu", x.gelu(), f32::gelu_of_two([y, -100.0])[0], gelu),
                ("gelu", x.gelu(), f32::gelu_of_two([-100.0, y])[1], gelu),
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
        // Far out, beside each other.
        let far = [-1e5, -1e20, -1e30, f32::MIN, 1e5, 1e20, f32::MAX, -44.0, -43.0, 0.0, 1.0];
        for x in far {
            for y in far {
                for (which, of_two, of_one) in [
                    ("gelu", f32::gelu_of_two([x, y])[0], x.gelu()),
                    ("gelu", f32::gelu_of_two([y, x])[1], x.gelu()),
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
            f32::silu_of_two([f32::NAN, 0.0])[0].is_nan() && f32::gelu_of_two([0.0, f32::NAN])[1].is_nan()
        );
        assert_eq!((-5).relu(), 0);
    }
}
