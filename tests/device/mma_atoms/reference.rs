//! The plain triple loop, and the error bounds of the simulator against it, and of a GPU against
//! the simulator.

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

/// `A B + C`, element by element, column-major.
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
        sum.magnitude += C::ADDENDS * a.magnitude() * b.magnitude();
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

/// The bound on the difference between the simulator's result and the triple loop's.
///
/// Integers are exact, and so are sums of small integers, which every accumulator represents. For
/// floats both sides add exact products in f64, the triple loop without a fused step; the simulator
/// rounds the sum once, to the nearest value of the result's type.
pub fn simulator_bound<M: MmaAtom>(inputs: Inputs, expected: &Expected) -> f64 {
    if inputs == Inputs::Small || !is_float::<M>() {
        return 0.0;
    }
    // Each product and sum of the triple loop is rounded, and each sum of the simulator.
    let sums = gamma(3 * products::<M>(), 53) * expected.magnitude;
    let value = expected.value.re.abs().max(expected.value.im.abs()) + sums;
    sums + nearest::<M>(value)
}

/// The bound on the difference between a GPU's result and the simulator's: [`MmaSum::bound`], which
/// assumes accumulators of 24 bits for f32, 14 for 8-bit floats and 53 for f64; plus the
/// simulator's error.
pub fn gpu_bound<M: MmaAtom>(inputs: Inputs, expected: &Expected) -> f64 {
    if inputs == Inputs::Small || !is_float::<M>() {
        return 0.0;
    }
    let Expected { magnitude, .. } = *expected;
    let (products, (result, smallest)) = (products::<M>(), format::<M>());
    let kept = match (M::A::WIDTH, result) {
        (8, _) => 14,
        (_, 53) => 53,
        _ => 24,
    };
    let hardware = MmaSum::Float.bound(products, magnitude, kept, result);
    // Each block may end below the normal range.
    let below = products.div_ceil(4) as f64 * 2_f64.powi(smallest);
    let sums = gamma(products, 53) * magnitude;
    hardware + below + sums + nearest::<M>(magnitude + sums)
}

/// `n u / (1 - n u)` with `u = 2^-p`: the bound on `n` successive roundings to `p` bits.
fn gamma(n: usize, p: i32) -> f64 {
    let loss = n as f64 * 2_f64.powi(-p);
    loss / (1.0 - loss)
}

/// The number of real products of a sum: k, times the atom's number of instructions for complex
/// values.
fn products<M: MmaAtom>() -> usize {
    M::SHAPE_MNK[2] as usize * M::INSTRUCTION_COUNT
}

/// The bits of the result's significand, and the exponent of its smallest positive value.
fn format<M: MmaAtom>() -> (i32, i32) {
    match M::D::NAME {
        "f16" => (11, -24),
        "f32" => (24, -149),
        _ => (53, -1074),
    }
}

/// The error of rounding a value to the nearest of the result's type.
fn nearest<M: MmaAtom>(value: f64) -> f64 {
    let (result, smallest) = format::<M>();
    2_f64.powi(-result) * value + 2_f64.powi(smallest - 1)
}
