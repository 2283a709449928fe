//! The plain triple loop, and how far a result may be from it.

use crate::numbers::{Inputs, TestNumber};
use moye_device::atom::mma::MmaAtom;
use moye_device::number::{Complex64, Number};
use moye_sim::intrinsics::MmaSum;

/// An element of the result.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    pub value: Complex64,
    /// The sum of the magnitudes of all addends.
    pub magnitude: f64,
}

/// `A B + C`, element by element along the columns.
pub fn product<M: MmaAtom<A: TestNumber, B: TestNumber, C: TestNumber>>(
    a: &[M::A],
    b: &[M::B],
    c: &[M::C],
) -> Vec<Expected> {
    let [m, n, k] = M::SHAPE_MNK.map(|extent| extent as usize);
    let mut result = Vec::with_capacity(m * n);
    for col in 0..n {
        for row in 0..m {
            let c = c[row + m * col];
            let pairs = (0..k).map(|i| (a[row + m * i], b[col + n * i]));
            result.push(if is_float::<M>() { float_sum(pairs, c) } else { integer_sum::<M>(pairs, c) });
        }
    }
    result
}

pub fn is_float<M: MmaAtom>() -> bool {
    M::D::NAME != "s32"
}

fn float_sum<A: TestNumber, B: TestNumber, C: TestNumber>(
    pairs: impl Iterator<Item = (A, B)>,
    c: C,
) -> Expected {
    let mut sum = Expected { value: c.value(), magnitude: c.magnitude() };
    for (a, b) in pairs {
        sum.value = sum.value + a.value() * b.value();
        sum.magnitude += 2.0 * a.magnitude() * b.magnitude();
    }
    sum
}

fn integer_sum<M: MmaAtom<A: TestNumber, B: TestNumber, C: TestNumber>>(
    pairs: impl Iterator<Item = (M::A, M::B)>,
    c: M::C,
) -> Expected {
    let whole = |value: Complex64| value.re as i64;
    let mut sum = whole(c.value());
    for (a, b) in pairs {
        let (a, b) = (whole(a.value()), whole(b.value()));
        sum += match M::INSTRUCTION {
            name if name.contains("xor.popc") => a ^ b,
            name if name.contains("and.popc") => a & b,
            _ => a * b,
        };
    }
    let sum = if M::INSTRUCTION.contains("satfinite") {
        sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
    } else {
        i64::from(sum as i32)
    };
    Expected { value: Complex64::new(sum as f64, 0.0), magnitude: 0.0 }
}

/// How far a result of `M` may be from the exact sum.
///
/// Integers are exact; so are sums of small whole numbers, which every accumulator holds.
///
/// The simulator sums in f64 and rounds once. Of the hardware only this is assumed: the products are exact; they are
/// added in blocks of at least 4, each block together with what came before it, aligned to the largest addend; an addend
/// loses less than a unit in the last place there, where the sum has 24 bits (14 for 8-bit floats, as has been observed of
/// Hopper; 53 for f64); an f16 accumulator is rounded to f16 after each 8 products.
pub fn bound<M: MmaAtom>(inputs: Inputs, on_gpu: bool, expected: &Expected) -> f64 {
    if inputs == Inputs::Small || !is_float::<M>() {
        return 0.0;
    }
    let k = M::SHAPE_MNK[2] as usize;
    let Expected { value, magnitude } = *expected;
    let (precision, smallest) = match M::D::NAME {
        "f16" => (11, -24),
        "f32" => (24, -149),
        _ => (53, -1074),
    };
    // The reference itself adds in f64.
    let reference = MmaSum::Float.bound(k + 1, magnitude, 53);
    let largest_result = value.re.abs().max(value.im.abs()) + reference;
    let rounding = 2_f64.powi(-precision) * largest_result + 2_f64.powi(smallest - 1);
    if !on_gpu {
        return reference + rounding;
    }
    let kept = match (M::A::WIDTH, precision) {
        (8, _) => 14,
        (_, 53) => 53,
        _ => 24,
    };
    let aligned = MmaSum::Float.bound(k + 1 + k.div_ceil(4), magnitude, kept);
    let blocks = k.div_ceil(8) as f64;
    let accumulated = if precision == 11 { blocks * 2_f64.powi(-precision) * magnitude } else { 0.0 };
    // The hardware may truncate the result instead of rounding it.
    reference + 2.0 * rounding + aligned + accumulated
}
