//! Arithmetic of 16-bit floats, alone and in pairs, against exact integers.

use crate::support::{Bits, binary, random, ternary};
use half::{bf16, f16};
use moye_device::arch::{Bf16x2, F16x2};
use moye_kernels_copy as kernels;

/// The properties of a 16-bit float format that the tests use.
trait Half: Bits {
    const MANTISSA: u32;
    /// The exponent of the format's smallest positive value, `2^LEAST`.
    const LEAST: i32;
    fn of_bits(bits: u16) -> Self;
    fn to_f64(self) -> f64;
}

impl Half for f16 {
    const MANTISSA: u32 = 10;
    const LEAST: i32 = -24;
    fn of_bits(bits: u16) -> Self {
        Self::from_bits(bits)
    }
    fn to_f64(self) -> f64 {
        self.to_f64()
    }
}

impl Half for bf16 {
    const MANTISSA: u32 = 7;
    const LEAST: i32 = -133;
    fn of_bits(bits: u16) -> Self {
        Self::from_bits(bits)
    }
    fn to_f64(self) -> f64 {
        self.to_f64()
    }
}

/// A finite value as `mantissa * 2^exponent`.
fn parts<T: Half>(value: T) -> Option<(i128, i32)> {
    let value = value.to_f64();
    if !value.is_finite() {
        return None;
    }
    let (bits, sign) = (value.abs().to_bits(), if value < 0.0 { -1 } else { 1 });
    if bits == 0 {
        return Some((0, T::LEAST));
    }
    // Every finite value of these formats is a normal f64.
    let (mantissa, exponent) = (bits & ((1 << 52) - 1) | 1 << 52, (bits >> 52) as i32 - 1075);
    let zeros = mantissa.trailing_zeros();
    Some((sign * i128::from(mantissa >> zeros), exponent + zeros as i32))
}

/// The value of the format nearest to `sum * 2^exponent`, ties to even. `sum` is not 0.
fn nearest<T: Half>(sum: i128, exponent: i32) -> T {
    let (sign, magnitude) = (if sum < 0 { 0x8000 } else { 0 }, sum.unsigned_abs());
    let length = 128 - magnitude.leading_zeros() as i32;
    // The bits below the format's last one for a value of this size.
    let drop = (length - 1 - T::MANTISSA as i32).max(T::LEAST - exponent);
    let kept = if drop <= 0 {
        magnitude << -drop
    } else if drop > 127 {
        0
    } else {
        let (kept, rest) = (magnitude >> drop, magnitude & ((1 << drop) - 1));
        let half = 1u128 << (drop - 1);
        kept + u128::from(rest > half || rest == half && kept & 1 == 1)
    };
    // The leading bit, if there is one, carries into the exponent field.
    let field = (exponent + drop - T::LEAST) as u128;
    let bits = (field << T::MANTISSA) + kept;
    let infinity = (0x7FFF >> T::MANTISSA) << T::MANTISSA;
    T::of_bits(sign | bits.min(infinity) as u16)
}

/// `a * b + c` rounded once, if the integers here are wide enough; IEEE's results for zeros,
/// infinities and NaNs.
fn fused<T: Half>(a: T, b: T, c: T) -> Option<T> {
    let special = a.to_f64() * b.to_f64() + c.to_f64();
    let (Some(a), Some(b), Some(c)) = (parts(a), parts(b), parts(c)) else {
        // With an infinity or a NaN among the three, f64 does not round.
        return Some(special_value(special));
    };
    let (product, product_exponent) = (a.0 * b.0, a.1 + b.1);
    if product == 0 && c.0 == 0 {
        return Some(special_value(special));
    }
    let exponent = match (product, c.0) {
        (0, _) => c.1,
        (_, 0) => product_exponent,
        _ => product_exponent.min(c.1),
    };
    let shifted = |value: i128, from: i32| {
        let shift = if value == 0 { 0 } else { from - exponent };
        (shift < 90).then(|| value << shift)
    };
    let sum = shifted(product, product_exponent)? + shifted(c.0, c.1)?;
    // A sum that cancels is +0 when rounding to nearest.
    Some(if sum == 0 { T::of_bits(0) } else { nearest(sum, exponent) })
}

/// Zero, infinity or NaN.
fn special_value<T: Half>(value: f64) -> T {
    let infinity = (0x7FFF >> T::MANTISSA) << T::MANTISSA;
    let magnitude = if value.is_nan() {
        0x7FFF
    } else if value == 0.0 {
        0
    } else {
        infinity
    };
    T::of_bits(magnitude | if value.is_sign_negative() && !value.is_nan() { 0x8000 } else { 0 })
}

/// 0 for negative values and -0; NaN is kept.
fn relu<T: Half>(value: T) -> T {
    if value.to_f64() <= 0.0 { T::of_bits(0) } else { value }
}

/// Triples of bits: every pattern as each operand, with others of similar size, so that sums need
/// rounding.
fn triples() -> Vec<[u16; 3]> {
    let random = random(11, 3 << 16);
    (0..3 << 16)
        .map(|i| {
            let r = random[i];
            let any = (i & 0xFFFF) as u16;
            let (b, c) = (r as u16, (r >> 16) as u16);
            // Half of them near 1 in size, so that a product and a sum overlap.
            let near = |bits: u16| bits & 0x83FF | (0x3800 + (bits & 0x0C00));
            let (b, c) = if r >> 40 & 1 == 0 { (near(b), c) } else { (b, near(c)) };
            match i >> 16 {
                0 => [any, b, c],
                1 => [b, any, c],
                _ => [b, c, any],
            }
        })
        .collect()
}

#[test]
fn a_fused_product_and_sum_is_rounded_once() {
    let of = |bits: [u16; 3]| bits.map(f16::from_bits);
    ternary(&kernels::fma_f16, &triples().into_iter().map(of).collect::<Vec<_>>(), fused);
    let of = |bits: [u16; 3]| bits.map(bf16::from_bits);
    ternary(&kernels::fma_bf16, &triples().into_iter().map(of).collect::<Vec<_>>(), fused);
}

macro_rules! pairs {
    ($name:ident $pair:ident $half:ident: $fma:ident $fma_relu:ident $add:ident $sub:ident $mul:ident $min:ident $max:ident) => {
        #[test]
        fn $name() {
            let all = triples();
            let half = |bits: u16| $half::from_bits(bits);
            let pair = |i: usize, operand: usize| {
                let other = (i * 31 + 5) % all.len();
                $pair::new(half(all[i][operand]), half(all[other][operand]))
            };
            let threes: Vec<_> = (0..all.len()).map(|i| [pair(i, 0), pair(i, 1), pair(i, 2)]).collect();
            let twos: Vec<_> = threes.iter().map(|&[a, b, _]| [a, b]).collect();
            let each3 = |f: fn($half, $half, $half) -> Option<$half>| {
                move |a: $pair, b: $pair, c: $pair| {
                    Some($pair::new(f(a.low(), b.low(), c.low())?, f(a.high(), b.high(), c.high())?))
                }
            };
            ternary(&kernels::$fma, &threes, each3(fused));
            ternary(&kernels::$fma_relu, &threes, each3(|a, b, c| fused(a, b, c).map(relu)));

            let one = $half::ONE;
            let each2 = |f: fn($half, $half) -> $half| {
                move |a: $pair, b: $pair| $pair::new(f(a.low(), b.low()), f(a.high(), b.high()))
            };
            // A sum of values that are too far apart for the integers is the larger one.
            fn sum(a: $half, b: $half) -> $half {
                let larger = if a.to_f64().abs() > b.to_f64().abs() { a } else { b };
                fused(a, $half::ONE, b).unwrap_or(larger)
            }
            assert_eq!(sum(one, one).to_f64(), 2.0);
            binary(&kernels::$add, &twos, each2(sum));
            binary(&kernels::$sub, &twos, each2(|a, b| sum(a, -b)));
            binary(
                &kernels::$mul,
                &twos,
                each2(|a, b| fused(a, b, $half::NEG_ZERO).expect("a product fits")),
            );

            // A value precedes NaN; -0 precedes +0.
            fn order(a: $half, b: $half, first: fn(f64, f64) -> bool) -> $half {
                match (a.is_nan(), b.is_nan()) {
                    (true, _) => b,
                    (_, true) => a,
                    _ if a == b => {
                        if first(a.is_sign_negative() as u8 as f64, 0.5) {
                            b
                        } else {
                            a
                        }
                    }
                    _ => {
                        if first(a.to_f64(), b.to_f64()) {
                            a
                        } else {
                            b
                        }
                    }
                }
            }
            binary(&kernels::$min, &twos, each2(|a, b| order(a, b, |x, y| x < y)));
            binary(&kernels::$max, &twos, each2(|a, b| order(a, b, |x, y| x > y)));
        }
    };
}
pairs!(pairs_of_f16_are_computed_each_for_itself F16x2 f16:
    fma_f16x2 fma_f16x2_relu add_f16x2 sub_f16x2 mul_f16x2 min_f16x2 max_f16x2);
pairs!(pairs_of_bf16_are_computed_each_for_itself Bf16x2 bf16:
    fma_bf16x2 fma_bf16x2_relu add_bf16x2 sub_bf16x2 mul_bf16x2 min_bf16x2 max_bf16x2);
