//! Functions of f32 beyond the basic arithmetic.
//!
//! The functions of this module use only instructions that round by IEEE 754, so that a GPU and the
//! simulator return the same bits. The functions of [`fast`] are one or a few approximate
//! instructions: there the simulator rounds the exact value, and a GPU is within the documented
//! error.
//!
//! ```
//! use moye_device::math;
//! assert_eq!(math::exp2(-3.0), 0.125);
//! assert_eq!(math::log2(8.0), 3.0);
//! assert!((math::erf(0.5) - 0.5204999).abs() < 1e-7);
//! ```

#![allow(
    clippy::approx_constant,
    clippy::excessive_precision,
    reason = "coefficients of polynomials, and constants in two parts"
)]

use crate::arch::{Fma, abs_f32, max_nan_f32, sqrt_rn_f32};

/// The polynomial with the given coefficients, constant first, by Horner's rule.
macro_rules! polynomial {
    ($x:expr; $first:expr) => {{
        let last: f32 = $first;
        last
    }};
    ($x:expr; $first:expr, $($rest:expr),+) => { polynomial!($x; $($rest),+).fma($x, $first) };
}

/// 1.5 times 2^23: added to a value below 2^22, it leaves the nearest integer in the low bits.
const ROUND: f32 = 12_582_912.0;

/// The nearest integer of a value below 2^22 in magnitude, as an integer and as a float.
#[inline(always)]
fn split(x: f32) -> (i32, f32) {
    let shifted = x + ROUND;
    ((shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32), shifted - ROUND)
}

/// `value * 2^n` for `n` from -254 to 254, rounded once.
#[inline(always)]
fn scaled(value: f32, n: i32) -> f32 {
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    value * power(half) * power(n.wrapping_sub(half))
}

/// `2^x`, within 2 units in the last place.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn exp2(x: f32) -> f32 {
    // Outside this range the result is infinite or zero.
    let within = x.clamp(-160.0, 160.0);
    let (n, whole) = split(within);
    let f = within - whole;
    let p = polynomial!(f; 1.0, 6.931_471_8e-1, 2.402_265_1e-1, 5.550_411e-2, 9.618_129e-3, 1.333_355_8e-3,
        1.540_353e-4, 1.525_273_4e-5);
    if x.is_nan() { x } else { scaled(p, n) }
}

/// `e^x`, within 2 units in the last place.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    let within = x.clamp(-110.0, 110.0);
    let (n, whole) = split(within * core::f32::consts::LOG2_E);
    // ln 2 in two parts; the first has few bits.
    let r = (-whole).fma(1.428_606_8e-6, (-whole).fma(0.693_145_75, within));
    let p = polynomial!(r; 1.0, 1.0, 0.5, 1.666_666_7e-1, 4.166_666_8e-2, 8.333_334e-3, 1.388_888_9e-3,
        1.984_127e-4);
    if x.is_nan() { x } else { scaled(p, n) }
}

/// The logarithm to base 2, within 3 units in the last place; -infinity for 0 and NaN below.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn log2(x: f32) -> f32 {
    let subnormal = x < f32::MIN_POSITIVE;
    let (bits, less) = if subnormal { ((x * 8_388_608.0).to_bits(), 23) } else { (x.to_bits(), 0) };
    // The mantissa, between the square roots of 1/2 and 2.
    let exponent = (bits as i32).wrapping_sub(0x3f35_04f3) >> 23;
    let m = f32::from_bits((bits as i32).wrapping_sub(exponent << 23) as u32);
    // ln m = 2 artanh s
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let p = polynomial!(z; 3.333_333_4e-1, 2e-1, 1.428_571_5e-1, 1.111_111_1e-1, 9.090_909e-2);
    let t = 2.0 * s;
    let ln = t.fma(z * p, t);
    let result = ln.fma(core::f32::consts::LOG2_E, (exponent - less) as f32);
    if x == 0.0 {
        f32::NEG_INFINITY
    } else if x.is_nan() || x < 0.0 {
        f32::NAN
    } else if x == f32::INFINITY {
        x
    } else {
        result
    }
}

/// The square root, to the nearest (`sqrt.rn.f32`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn sqrt(x: f32) -> f32 {
    sqrt_rn_f32(x)
}

/// `1 / sqrt(x)`, with both operations rounded to the nearest: within 1 unit in the last place.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn rsqrt(x: f32) -> f32 {
    1.0 / sqrt_rn_f32(x)
}

/// The hyperbolic tangent, within 4 units in the last place.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let z = x * x;
    let small = polynomial!(z; -3.333_333_4e-1, 1.333_333_3e-1, -5.396_825_4e-2, 2.186_949e-2, -8.863_236e-3,
        3.592_128e-3, -1.455_834_4e-3, 5.900_274_4e-4, -2.391_291_1e-4);
    let small = (x * z).fma(small, x);
    // 1 - 2 / (e^(2 x) + 1)
    let large = 1.0 - 2.0 / (exp(2.0 * magnitude.min(10.0)) + 1.0);
    if x.is_nan() {
        x
    } else if magnitude < 0.5 {
        small
    } else {
        large.copysign(x)
    }
}

/// The error function, within 2^-22 absolutely, and below 1 within 4 units in the last place.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn erf(x: f32) -> f32 {
    let magnitude = x.abs();
    let z = x * x;
    let small = x
        * polynomial!(z; 1.128_379_2, -3.761_263_8e-1, 1.128_379_2e-1, -2.686_617e-2, 5.223_977_6e-3,
        -8.548_327e-4, 1.205_533_3e-4, -1.492_565e-5, 1.646_211_4e-6, -1.636_584_5e-7, 1.480_719_3e-8,
        -1.229_055_5e-9);
    // A fit by Chebyshev polynomials between 1 and 4, above which it is 1.
    let u = (magnitude.min(4.0) - 2.5) * (2.0 / 3.0);
    let large = polynomial!(u; 9.995_930_5e-1, 3.267_426_4e-3, -1.225_284_7e-2, 2.818_155e-2, -4.365_081_9e-2,
        4.645_365_1e-2, -3.187_596_6e-2, 9.267_199_4e-3, 6.676_857_3e-3, -9.619_655e-3, 4.558_520_8e-3,
        4.370_145_4e-4, -1.860_013_6e-3, 9.287_603_7e-4, 1.003_063_9e-4, -3.028_595_5e-4, 7.670_258_7e-5,
        3.746_062e-5, -1.539_970_3e-5, -9.524_975_5e-7);
    if x.is_nan() {
        x
    } else if magnitude < 1.0 {
        small
    } else {
        large.min(1.0).copysign(x)
    }
}

/// The rectifier, `max(x, 0)`; NaN stays NaN.
#[inline(always)]
#[must_use]
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

// SiLU and the tanh form of GELU are `x * sigmoid(t)`, where t has the sign of x. That formula
// fails far below zero: the sigmoid underflows where the product is a normal number, and `-inf * 0`
// is NaN. With `e = exp(-|t|)`, which is at most 1,
//
//     x * sigmoid(t) = max(x, -0) - |x| * e / (1 + e)
//
// holds for both signs without overflow or cancellation, and is correct for -0, infinities and NaN.
// `e` is kept as two factors, each about its square root, so that neither underflows before the
// result.

/// `2 * sqrt(2 / pi)` and the factor of the cube in the tanh form of GELU: `1 + tanh(y)` is
/// `2 sigmoid(2 y)`.
const GELU_FACTOR: f64 = 1.595_769_121_605_731;
const GELU_CUBE: f64 = 0.044_715;

/// The intermediate values of an activation: `-|x|`, and two factors of `e`.
#[derive(Clone, Copy)]
struct Gate {
    below: f32,
    factors: [f32; 2],
}

impl Gate {
    /// `-|x|`, clamped to -128 (NaN too): `e` is 0 there, and must not be multiplied by an
    /// infinity.
    #[inline(always)]
    fn below(x: f32) -> f32 {
        (-abs_f32(x)).max(-128.0)
    }

    /// `1 + e`, from 1 to 2.
    #[inline(always)]
    fn denominator(self) -> f32 {
        let [root, other] = self.factors;
        root.fma(other, 1.0)
    }

    /// The activation of `x`, with the reciprocal of the denominator as a product.
    #[inline(always)]
    fn of(self, x: f32, reciprocal: [f32; 2]) -> f32 {
        let [root, other] = self.factors;
        (self.below * root).fma(other * (reciprocal[0] * reciprocal[1]), max_nan_f32(x, -0.0))
    }

    /// The activation of `x` for `e` as the square of `root`.
    #[inline(always)]
    fn exact(x: f32, below: f32, root: f32) -> f32 {
        let gate = Self { below, factors: [root, root] };
        gate.of(x, [1.0 / gate.denominator(), 1.0])
    }
}

/// GELU of `x`, from `below`, a root of `e^(-x^2 / 2)` and the reciprocal of `4 + |x|`.
///
/// As above, `x * Phi(x) = max(x, -0) - |x| * Phi(-|x|)` for the normal distribution `Phi`. With
/// `a = |x|`, `(4 + a) * Phi(-a) * e^(a^2 / 2)` is smooth in `t = (a - 4) / (a + 4)`. The
/// polynomial is a fit by Chebyshev polynomials for `a` up to 15, within 2^-25 relatively.
#[inline(always)]
fn gaussian(x: f32, below: f32, root: f32, reciprocal: f32) -> f32 {
    let t = reciprocal.fma(-8.0, 1.0);
    let p = polynomial!(t; 7.552_851_392e-1, -6.078_966_056e-1, 3.871_366_39e-1, -1.865_230_688e-1,
        6.040_679_542e-2, -7.526_513_397e-3, -3.523_891_205e-3, 1.567_632_955e-3, 1.934_822_044e-4,
        -1.232_906_28e-4);
    (below * root).fma(root * (reciprocal * p), max_nan_f32(x, -0.0))
}

/// GELU, `x / 2 * (1 + erf(x / sqrt(2)))`: within `12 + 2 x^2` units in the last place. PyTorch's
/// `gelu` is this form by default.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn gelu(x: f32) -> f32 {
    let below = Gate::below(x);
    gaussian(x, below, exp(-0.25 * (below * below)), 1.0 / (4.0 - below))
}

/// The tanh form of GELU, `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`: within
/// `12 + 4 y` units in the last place, where `y` is twice the magnitude of the tangent's argument.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn gelu_tanh(x: f32) -> f32 {
    const HALF: f64 = 0.5 * GELU_FACTOR;
    let below = Gate::below(x);
    Gate::exact(x, below, exp(below * (below * below).fma((HALF * GELU_CUBE) as f32, HALF as f32)))
}

/// SiLU, `x / (1 + e^-x)`, within 12 units in the last place.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn silu(x: f32) -> f32 {
    let below = Gate::below(x);
    Gate::exact(x, below, exp(0.5 * below))
}

/// Approximations by the special function unit. The error bounds are from NVIDIA's "PTX ISA".
pub mod fast {
    use super::{GELU_CUBE, GELU_FACTOR, Gate, gaussian};
    use crate::arch::{Fma, ex2_approx_f32, rcp_approx_f32};
    pub use crate::arch::{
        ex2_approx_f32 as exp2, lg2_approx_f32 as log2, rcp_approx_f32 as rcp, rsqrt_approx_f32 as rsqrt,
        sqrt_approx_f32 as sqrt, tanh_approx_f32 as tanh,
    };

    /// `e^x`, by one product and one instruction.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn exp(x: f32) -> f32 {
        ex2_approx_f32(x * core::f32::consts::LOG2_E)
    }

    /// The error function, within 1e-6 absolutely: formula 7.1.26 of Abramowitz and Stegun,
    /// "Handbook of Mathematical Functions", plus the errors of the two instructions.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn erf(x: f32) -> f32 {
        let magnitude = x.abs();
        let t = rcp_approx_f32(magnitude.fma(0.327_591_1, 1.0));
        let p = t * polynomial!(t; 0.254_829_6, -0.284_496_72, 1.421_413_8, -1.453_152, 1.061_405_4);
        let tail = ex2_approx_f32(-x * x * core::f32::consts::LOG2_E);
        (-p).fma(tail, 1.0).copysign(x)
    }

    impl Gate {
        /// `t = x`. The rounding of the exponent, up to 2^-18, is 44 units in the last place of
        /// `e`. The second factor corrects it.
        #[inline(always)]
        fn silu(x: f32) -> Self {
            use core::f32::consts::{LN_2, LOG2_E};
            let below = Self::below(x);
            let exponent = below * (0.5 * LOG2_E);
            let root = ex2_approx_f32(exponent);
            Self { below, factors: [root, root.fma(exponent.fma(-2.0 * LN_2, below), root)] }
        }

        /// `t = 1.5957691 * (x + 0.044715 * x^3)`.
        #[inline(always)]
        fn gelu_tanh(x: f32) -> Self {
            const HALF: f64 = 0.5 * core::f64::consts::LOG2_E * GELU_FACTOR;
            let below = Self::below(x);
            let exponent = below * (below * below).fma((HALF * GELU_CUBE) as f32, HALF as f32);
            let root = ex2_approx_f32(exponent);
            Self { below, factors: [root, root] }
        }

        /// The activation of `x`.
        #[inline(always)]
        fn one(self, x: f32) -> f32 {
            self.of(x, [rcp_approx_f32(self.denominator()), 1.0])
        }

        /// The activations of two values with one reciprocal: `1 / p = q / (p q)`. A reciprocal
        /// takes the special function unit eight times as long as an FMA, and is the bottleneck.
        #[inline(always)]
        fn two(gates: [Self; 2], [x, y]: [f32; 2]) -> [f32; 2] {
            let [p, q] = gates.map(Self::denominator);
            let reciprocal = rcp_approx_f32(p * q);
            [gates[0].of(x, [q, reciprocal]), gates[1].of(y, [p, reciprocal])]
        }
    }

    /// The root of `e^(-x^2 / 2)`, from `-|x|`.
    #[inline(always)]
    fn gaussian_root(below: f32) -> f32 {
        ex2_approx_f32(below * below * (-0.25 * core::f32::consts::LOG2_E))
    }

    /// GELU by two instructions of the special function unit: the formula and the error of
    /// [`math::gelu`](super::gelu).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn gelu(x: f32) -> f32 {
        let below = Gate::below(x);
        gaussian(x, below, gaussian_root(below), rcp_approx_f32(4.0 - below))
    }

    /// The tanh form of GELU, by two instructions of the special function unit: the formula and the
    /// error of [`math::gelu_tanh`](super::gelu_tanh).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn gelu_tanh(x: f32) -> f32 {
        Gate::gelu_tanh(x).one(x)
    }

    /// SiLU by two instructions of the special function unit: the formula and the error of
    /// [`math::silu`](super::silu).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn silu(x: f32) -> f32 {
        Gate::silu(x).one(x)
    }

    /// [`gelu`] of two values, by three instructions of the special function unit.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn gelu_of_two(pair: [f32; 2]) -> [f32; 2] {
        let below = pair.map(Gate::below);
        let [p, q] = below.map(|below| 4.0 - below);
        let reciprocal = rcp_approx_f32(p * q);
        let [root, other] = below.map(gaussian_root);
        [
            gaussian(pair[0], below[0], root, q * reciprocal),
            gaussian(pair[1], below[1], other, p * reciprocal),
        ]
    }

    /// [`gelu_tanh`] of two values, by three instructions of the special function unit.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn gelu_tanh_of_two(pair: [f32; 2]) -> [f32; 2] {
        Gate::two(pair.map(Gate::gelu_tanh), pair)
    }

    /// [`silu`] of two values, by three instructions of the special function unit.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn silu_of_two(pair: [f32; 2]) -> [f32; 2] {
        Gate::two(pair.map(Gate::silu), pair)
    }
}
