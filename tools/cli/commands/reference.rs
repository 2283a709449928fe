//! A float64 reference of a product.

use crate::commands::dtype::Tolerance;
use moye_device::number::Scalar;
use ndarray::ArrayView2;
use rayon::prelude::*;

/// Multiply-adds of the reference: about a second on one core, optimised or not.
const BUDGET: u64 = if cfg!(debug_assertions) { 1 << 25 } else { 1 << 30 };

/// The distance between a product and the float64 one rounded to the result's type.
pub struct Comparison {
    /// The Frobenius norm of the difference over that of the reference (over 1 if the reference is
    /// 0), for the elements that are finite in both.
    pub relative_error: f64,
    /// The bound on [`Comparison::relative_error`] that rounding explains.
    pub allowed: f64,
    /// The number of elements that are infinite or NaN on one side only.
    pub apart: u64,
    /// The number of compared rows.
    pub rows: usize,
    /// The number of rows.
    pub of: usize,
}

impl Comparison {
    /// Whether rounding explains all differences.
    pub fn is_right(&self) -> bool {
        self.apart == 0 && self.relative_error <= self.allowed
    }
}

/// A sum of products.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    /// The largest magnitude of the intermediate values, which determines the sum's accuracy.
    largest: f64,
}

/// Compares `c` with `a * b` after `finish`, which computes an element of C from its row, its
/// column and the sum: all rows if that is fast, otherwise evenly spaced ones. Rounding of the
/// accumulators and of the result may change a value by `tolerance`, also across the limit of the
/// type's range, and between neighbours among the smallest values.
pub fn compare<T: Scalar, U: Scalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    c: ArrayView2<'_, U>,
    tolerance: Tolerance,
    finish: impl Fn(usize, usize, f64) -> f64 + Sync,
) -> Comparison {
    let (of, row_work) = (c.nrows(), (b.len() as u64).max(1));
    let rows = of.min(usize::try_from((BUDGET / row_work).max(1)).unwrap_or(usize::MAX));
    // Row i of `rows` represents `of / rows` rows; the middle one is compared.
    let sampled: Vec<usize> =
        (0..rows).map(|i| ((2 * i + 1) as u128 * of as u128 / (2 * rows) as u128) as usize).collect();
    let least = least::<U>();
    let total = sampled
        .par_iter()
        .map(|&i| {
            let mut sums = vec![Sum::default(); c.ncols()];
            for (&x, row) in a.row(i).iter().zip(b.rows()) {
                for (sum, &y) in sums.iter_mut().zip(row) {
                    sum.value += x.to_f64() * y.to_f64();
                    sum.largest = sum.largest.max(sum.value.abs());
                }
            }
            let mut part = Part::default();
            for (j, (sum, &actual)) in sums.iter().zip(c.row(i)).enumerate() {
                let exact = finish(i, j, sum.value);
                let mut expected = Expected { rounded: U::nearest(exact).to_f64(), low: exact, high: exact };
                if tolerance.sums > 0.0 {
                    let step = tolerance.sums * sum.largest;
                    expected.reach(finish(i, j, sum.value - step));
                    expected.reach(finish(i, j, sum.value + step));
                }
                part.add(expected.beside::<U>(actual.to_f64(), tolerance.result, least));
            }
            part
        })
        .reduce(Part::default, Part::merged);
    let relative = |norm: &Norm| match total.reference.scale {
        0.0 => norm.scale * norm.squares.sqrt(),
        _ => norm.over(&total.reference),
    };
    let (relative_error, allowed) = (relative(&total.difference), relative(&total.allowed));
    Comparison { relative_error, allowed, apart: total.apart, rows, of }
}

/// The smallest positive value of a type; 0 for integers, which are exact.
fn least<U: Scalar>() -> f64 {
    if U::nearest(f64::INFINITY).to_f64().is_finite() { 0.0 } else { U::from_low_bits(1).to_f64() }
}

/// The comparison of an element with the reference.
enum Difference {
    /// Both are finite.
    Finite { difference: f64, reference: f64, allowed: f64 },
    /// The same infinity, or NaN, in both.
    Alike,
    /// One is infinite or NaN, the other is not.
    Apart,
}

/// An element of the reference, rounded to the type, and the range of values that rounding of its
/// sum allows.
struct Expected {
    rounded: f64,
    low: f64,
    high: f64,
}

impl Expected {
    fn reach(&mut self, value: f64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }

    /// Compares it with an element of type `U`, whose rounding may be off by a relative
    /// `tolerance`.
    fn beside<U: Scalar>(&self, actual: f64, tolerance: f64, least: f64) -> Difference {
        let &Self { rounded, low, high } = self;
        if actual.is_finite() && rounded.is_finite() {
            // The difference of two f64 numbers may overflow.
            let difference = (actual - rounded).abs().min(f64::MAX);
            return Difference::Finite {
                difference: if difference <= least { 0.0 } else { difference },
                reference: rounded,
                allowed: (tolerance * rounded.abs()).max((0.5 * high - 0.5 * low).min(f64::MAX)),
            };
        }
        if actual == rounded || (actual.is_nan() && rounded.is_nan()) {
            return Difference::Alike;
        }
        let moved = |value: f64, by: f64| {
            let moved = if value.is_finite() { value + by * value.abs() } else { value };
            U::nearest(moved).to_f64()
        };
        if (moved(low, -tolerance)..=moved(high, tolerance)).contains(&actual) {
            Difference::Alike
        } else {
            Difference::Apart
        }
    }
}

/// The contribution of some rows to the comparison.
#[derive(Default)]
struct Part {
    difference: Norm,
    reference: Norm,
    allowed: Norm,
    apart: u64,
}

impl Part {
    fn add(&mut self, difference: Difference) {
        match difference {
            Difference::Finite { difference, reference, allowed } => {
                self.difference.add(difference);
                self.reference.add(reference);
                self.allowed.add(allowed);
            }
            Difference::Alike => {}
            Difference::Apart => self.apart += 1,
        }
    }

    fn merged(self, other: Self) -> Self {
        Self {
            difference: self.difference.merged(other.difference),
            reference: self.reference.merged(other.reference),
            allowed: self.allowed.merged(other.allowed),
            apart: self.apart + other.apart,
        }
    }
}

/// A sum of squares, scaled by the largest magnitude, so that no square overflows or underflows.
#[derive(Default)]
struct Norm {
    scale: f64,
    squares: f64,
}

impl Norm {
    fn add(&mut self, value: f64) {
        let value = value.abs();
        if value > self.scale {
            self.squares = self.squares * (self.scale / value).powi(2) + 1.0;
            self.scale = value;
        } else if value > 0.0 {
            self.squares += (value / self.scale).powi(2);
        }
    }

    fn merged(self, other: Self) -> Self {
        let (large, small) = if self.scale < other.scale { (other, self) } else { (self, other) };
        if small.scale == 0.0 {
            return large;
        }
        let squares = large.squares + small.squares * (small.scale / large.scale).powi(2);
        Self { scale: large.scale, squares }
    }

    /// The ratio of this norm to another one, which is not 0.
    fn over(&self, other: &Self) -> f64 {
        self.scale / other.scale * (self.squares / other.squares).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;
    use ndarray::{Array2, array};

    /// The same tolerance for results and accumulators.
    fn alike(tolerance: f64) -> Tolerance {
        Tolerance { result: tolerance, sums: tolerance }
    }

    fn plain(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>, c: ArrayView2<'_, f32>) -> Comparison {
        compare(a, b, c, alike(1e-5), |_, _, sum| sum)
    }

    #[test]
    fn the_error_is_that_of_the_frobenius_norm() {
        let a = array![[1f32, 2.0], [3.0, 4.0]];
        let b = array![[1f32, 0.0], [0.0, 1.0]];
        let mut c = a.clone();
        assert_eq!(plain(a.view(), b.view(), c.view()).relative_error, 0.0);
        c[(1, 1)] += 3.0;
        let comparison = plain(a.view(), b.view(), c.view());
        assert!(
            (comparison.relative_error - 3.0 / 30f64.sqrt()).abs() < 1e-12,
            "{}",
            comparison.relative_error
        );
        assert_eq!((comparison.rows, comparison.of), (2, 2));
    }

    /// The comparison of an element with a reference.
    fn element<U: Scalar>(actual: U, reference: f64) -> Comparison {
        let one = array![[1f64]];
        compare(one.view(), one.view(), array![[actual]].view(), alike(1e-3), |_, _, _| reference)
    }

    #[test]
    fn not_a_number_and_infinities_are_right_where_the_reference_has_them() {
        for (actual, reference, is_right) in [
            (f32::NAN, 1.0, false),
            (1.0, f64::NAN, false),
            (f32::NAN, f64::NAN, true),
            (f32::INFINITY, f64::INFINITY, true),
            (f32::INFINITY, 1e39, true),
            (f32::INFINITY, -1e39, false),
            (f32::NEG_INFINITY, f64::INFINITY, false),
            (f32::INFINITY, 1e38, false),
            (f32::MAX, 1e39, false),
            // On either side of the range's limit.
            (f32::MAX, 3.403e38, true),
            (f32::INFINITY, 3.4028e38, true),
            (f32::NEG_INFINITY, 3.4028e38, false),
        ] {
            let comparison = element(actual, reference);
            assert_eq!(comparison.apart == 0, is_right, "{actual} beside {reference}");
            assert_eq!(comparison.is_right(), is_right, "{actual} beside {reference}");
        }
    }

    #[test]
    fn the_reference_is_rounded_to_the_type() {
        assert_eq!(element(f16::from_f32(0.333_25), 1.0 / 3.0).relative_error, 0.0);
        assert_eq!(element(f16::INFINITY, 7e4).apart, 0, "beyond 65504");
        assert_eq!(element(f16::ZERO, 2e-8).relative_error, 0.0, "below the smallest");
        assert_eq!(element(f32::from_bits(7), 1.001e-44).relative_error, 0.0);
        assert_eq!(
            element(f32::from_bits(8), 1.001e-44).relative_error,
            0.0,
            "a neighbour of the smallest numbers"
        );
        assert!(element(f32::from_bits(9), 1.001e-44).relative_error > 0.2);
        assert_eq!(element(i32::MIN, f64::from(i32::MIN)).relative_error, 0.0);
        assert!(element(1, 2.0).relative_error > 0.4);
    }

    #[test]
    fn what_the_rounding_of_sums_makes_is_allowed() {
        // The sum is 2e-5 with terms of 1, so f32 computes it to a relative 1e-3 or so; in f16 both
        // round to the same result.
        let (a, b) = (array![[1f32, 2e-5, -1.0]], array![[1f32], [1.0], [1.0]]);
        let compared = |c: f16, factor: f64, sums: f64| {
            let tolerance = Tolerance { result: 1e-3, sums };
            compare(a.view(), b.view(), array![[c]].view(), tolerance, |_, _, sum| factor * sum)
        };
        let near = f16::from_f32(2.05e4);
        assert!(compared(near, 1e9, 1e-5).is_right());
        assert!(!compared(near, 1e9, 0.0).is_right(), "sums that are exact");
        assert!(!compared(f16::from_f32(3.5e4), 1e9, 1e-5).is_right(), "beyond what rounding makes");
        // At 6e4 the sum may be on either side of the largest f16 value; at 2e5 only above it.
        for (c, factor, is_right) in [
            (f16::INFINITY, 3e9, true),
            (f16::NEG_INFINITY, 3e9, false),
            (f16::NAN, 3e9, false),
            (f16::MAX, 4e9, true),
            (f16::MAX, 1e10, false),
            (f16::INFINITY, 1e9, false),
        ] {
            assert_eq!(compared(c, factor, 1e-5).is_right(), is_right, "{c} with the factor {factor:e}");
        }
    }

    #[test]
    fn norms_neither_overflow_nor_underflow() {
        for scale in [1e180, 1e-180, 1e307, 5e-324 * 8.0] {
            let a = array![[scale, 0.0], [0.0, scale]];
            let b = array![[1f64, 0.0], [0.0, 1.0]];
            let compared =
                |c: &Array2<f64>| compare(a.view(), b.view(), c.view(), alike(1e-13), |_, _, sum| sum);
            assert_eq!(compared(&a).relative_error, 0.0, "{scale}");
            let error = compared(&a.mapv(|x| 1.5 * x)).relative_error;
            assert!((error - 0.5).abs() < 1e-9, "{scale}: {error}");
            let error = compared(&a.mapv(|x| -x)).relative_error;
            assert!(error > 1.0, "{scale}: {error}");
        }
        let (mut left, mut right) = (Norm::default(), Norm::default());
        left.add(3e200);
        right.add(4e200);
        let both = left.merged(right).merged(Norm::default());
        assert!((both.scale * both.squares.sqrt() - 5e200).abs() < 1e187);
    }

    #[test]
    fn empty_products_are_compared() {
        let (a, b) = (Array2::<f32>::zeros((3, 0)), Array2::<f32>::zeros((0, 2)));
        assert_eq!(plain(a.view(), b.view(), Array2::zeros((3, 2)).view()).relative_error, 0.0);
        assert_eq!(plain(a.view(), b.view(), Array2::ones((3, 2)).view()).relative_error, 6f64.sqrt());
        assert_eq!(plain(b.t(), a.t(), Array2::zeros((2, 3)).view()).rows, 2);
    }

    #[test]
    fn large_products_are_sampled_evenly() {
        // One row takes 2^16 multiply-adds, and there are twice as many rows as the budget allows.
        let rows = usize::try_from(BUDGET >> 16).unwrap();
        let a = Array2::<f32>::zeros((2 * rows, 1 << 8));
        let b = Array2::<f32>::zeros((1 << 8, 1 << 8));
        let mut c = Array2::<f32>::zeros((2 * rows, 1 << 8));
        c.row_mut(1).fill(1.0);
        let comparison = plain(a.view(), b.view(), c.view());
        assert_eq!((comparison.rows, comparison.of), (rows, 2 * rows));
        assert!(comparison.relative_error > 0.0, "of every two rows the second is taken");
    }
}
