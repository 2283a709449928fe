//! The arithmetic of f64: activations that are rounded once.

use super::scalar::Scalar;
use moye_device::arch::Fma;

/// `2 * sqrt(2 / pi)` and its product with 0.044715, each with its rounding error, for the tanh
/// form of GELU: `1 + tanh(y)` is `2 sigmoid(2 y)`.
pub(super) const GELU_FACTOR: [f64; 2] = [1.595_769_121_605_730_8, -9.969_308_809_110_92e-17];
const GELU_CUBE: [f64; 2] = [0.071_354_816_272_600_25, -6.175_149_918_155_315e-19];

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
        let (power, scale) = exp_f64([-0.5 * square, -0.5 * below.fma(below, -square)]);
        let tail = normal_tail(-below);
        let product = power[0] * tail[0];
        let rest = power[0].fma(tail[0], -product) + power[1].fma(tail[0], power[0] * tail[1]);
        gated_f64(self, below, [product, rest], scale)
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn gelu_tanh(self) -> Self {
        let below = (-self.abs()).max(LEAST_F64);
        let square = below * below;
        let cube = square * GELU_CUBE[0];
        let of_square = below.fma(below, -square) * GELU_CUBE[0];
        let of_cube = square.fma(GELU_CUBE[0], -cube) + square.fma(GELU_CUBE[1], of_square);
        let [factor, of_factor] = two_sum(GELU_FACTOR[0], cube);
        let exponent = below * factor;
        let rest = below.fma(of_factor + (of_cube + GELU_FACTOR[1]), below.fma(factor, -exponent));
        sigmoid_gated(self, below, [exponent.max(LEAST_F64), rest])
    }
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    fn silu(self) -> Self {
        let below = (-self.abs()).max(LEAST_F64);
        sigmoid_gated(self, below, [below, 0.0])
    }
}

// The activations of f64 are rounded once: each factor is a pair, a value and its rounding error
// (the rest). A result is within 0.61 units in the last place, near the smallest normal numbers
// within 0.8, and a subnormal result within one.

/// The sum of two values and its rounding error.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> [f64; 2] {
    let sum = a + b;
    let of_b = sum - a;
    [sum, (a - (sum - of_b)) + (b - of_b)]
}

/// `max(x, -0) + below * part * scale`, where `below` is `-|x|`, `part` a value and its rest, and
/// `scale` the product of two powers of two: rounded once, a subnormal result twice.
#[inline(always)]
fn gated_f64(x: f64, below: f64, [part, rest]: [f64; 2], [scale, second]: [f64; 2]) -> f64 {
    let product = below * part;
    let low = below.fma(rest, below.fma(part, -product));
    let (high, low) = (product * scale * second, low * scale * second);
    let top = if x < 0.0 {
        -0.0
    } else if x > -below {
        -below
    } else {
        x
    };
    let sum = top + high;
    let gated = sum - (((sum - top) - high) - low);
    if x > -below || x.is_nan() { x } else { gated }
}

/// `a / b` of values with their rests, given the reciprocal of `b`.
#[inline(always)]
fn ratio([a, a_rest]: [f64; 2], [b, b_rest]: [f64; 2], reciprocal: f64) -> [f64; 2] {
    let ratio = a * reciprocal;
    let left = (-ratio).fma(b, a) + (-ratio).fma(b_rest, a_rest);
    [ratio, left * reciprocal]
}

/// `x * sigmoid(t)` from `below = -|x|` and the exponent `-|t|`, a value and its rest.
#[inline(always)]
fn sigmoid_gated(x: f64, below: f64, exponent: [f64; 2]) -> f64 {
    let (power, [scale, second]) = exp_f64(exponent);
    let all = power[0] * scale * second;
    let sum = 1.0 + all;
    let rest = power[1].fma(scale * second, all - (sum - 1.0));
    gated_f64(x, below, ratio(power, [sum, rest], 1.0 / sum), [scale, second])
}

/// `Phi(-a) * e^(a^2 / 2)` of the normal distribution `Phi`, for `a` from 0 to 40, with its rest.
/// Times `a + 4.5` it is a polynomial of `t = (a - 4.5) / (a + 4.5)`: a fit by Chebyshev
/// polynomials within 2^-59 relatively, evaluated by Horner's scheme with the rounding errors of
/// its steps.
#[inline(always)]
fn normal_tail(a: f64) -> [f64; 2] {
    #[allow(clippy::excessive_precision, reason = "coefficients as they were computed")]
    const COEFFICIENTS: [f64; 24] = [
        0.763_230_528_970_203_2,
        -0.640_257_760_252_617,
        0.446_452_517_055_679_9,
        -0.253_141_799_950_967_4,
        0.111_382_596_570_115_5,
        -0.033_871_326_177_162_77,
        0.004_223_613_382_726_11,
        0.001_748_830_567_616_810_2,
        -0.000_917_746_534_495_087_1,
        6.381_155_718_115_132e-06,
        0.000_112_042_930_968_693_79,
        -1.593_311_105_024_307_2e-05,
        -1.423_686_581_635_758_5e-05,
        3.190_270_870_057_568_4e-06,
        2.145_342_729_163_982_5e-06,
        -5.002_500_955_799_096e-07,
        -3.832_695_198_273_323e-07,
        6.147_291_048_713_664e-08,
        7.439_487_247_598_032e-08,
        -2.274_437_908_068_923_5e-09,
        -1.330_889_368_251_534_2e-08,
        -1.691_913_907_329_417_5e-09,
        1.533_498_808_123_099_3e-09,
        4.431_982_904_669_447e-10,
    ];
    /// The rests of the first coefficients.
    const RESTS: [f64; 6] = [
        -3.082_066_711_891_967e-17,
        -5.289_168_530_948_78e-17,
        -8.131_848_810_062_912e-18,
        -2.447_870_584_793_347_6e-17,
        -5.248_983_379_938_458e-18,
        -2.456_371_188_462_791_2e-18,
    ];
    let (above, under) = (two_sum(a, 4.5), two_sum(a, -4.5));
    let reciprocal = 1.0 / above[0];
    let [t, t_rest] = ratio(under, above, reciprocal);
    let (mut sum, mut rest, mut slope) = (COEFFICIENTS[23], 0.0, 0.0);
    let mut at = 23;
    while at > 0 {
        at -= 1;
        slope = t.fma(slope, sum);
        let product = sum * t;
        let of_product = sum.fma(t, -product);
        let of_sum;
        [sum, of_sum] = two_sum(product, COEFFICIENTS[at]);
        rest = rest.fma(t, of_product + of_sum);
        if at < RESTS.len() {
            rest += RESTS[at];
        }
    }
    ratio([sum, t_rest.fma(slope, rest)], above, reciprocal)
}

/// `e^(x + rest)` for x from -800 to 0: a value with its rest, and two powers of two that multiply
/// it. It is `2^n * e^r` with `|r| <= ln(2) / 2`, and e^r by its series to the 13th power.
#[inline(always)]
pub(super) fn exp_f64([x, rest]: [f64; 2]) -> ([f64; 2], [f64; 2]) {
    /// `ln(2)` in two parts. The first has few enough bits that its product with `n` is exact.
    const LN2: (f64, f64) = (f64::from_bits(0x3fe6_2e42_fee0_0000), 1.908_214_929_270_587_7e-10);
    // Adding and subtracting 1.5 * 2^52 rounds to the nearest integer.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let n = x.fma(core::f64::consts::LOG2_E, ROUND) - ROUND;
    let first = n.fma(-LN2.0, x);
    let r = n.fma(-LN2.1, first);
    let rest = n.fma(-LN2.1, first - r) + rest;
    // 1 / 2 + r / 6 + ...
    let mut sum = 1.0;
    let mut term = 13;
    while term > 2 {
        sum = (r * (1.0 / f64::from(term))).fma(sum, 1.0);
        term -= 1;
    }
    let above = 1.0 + r;
    let below = (0.5 * r * r).fma(sum, r - (above - 1.0));
    let power = above + below;
    let two = |n: i64| f64::from_bits(((n + 1023) as u64) << 52);
    let (n, half) = (n as i64, n as i64 / 2);
    ([power, rest.fma(power, below - (power - above))], [two(half), two(n - half)])
}
