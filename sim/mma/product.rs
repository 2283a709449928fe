//! The arithmetic of `mma.sync`: one element of D from a row of A, a column of B and an element of C.

/// How products are summed.
///
/// The model of the floating-point forms with 16- and 32-bit accumulators: products are exact (they fit in an f64), they
/// are added to C in the order of k in f64, and the sum is rounded once, to nearest even. A tensor core adds several
/// products at a time, aligned to the largest of them, and drops what falls below its last bit; NVIDIA documents neither
/// order nor width. So hardware and model differ by about one unit in the last place of the largest partial sum for each
/// addend: see [`MmaSum::bound`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmaSum {
    /// The model above.
    Float,
    /// A fused multiply-add for each k, in order: the f64 form.
    Fused,
    /// Exact integers, of which the low 32 bits are kept.
    Wrap,
    /// Exact integers, of which the nearest 32-bit one is kept: `.satfinite`.
    Saturate,
    /// The number of k at which the bits of A and B differ, added to C.
    XorPopc,
    /// The number of k at which the bits of A and B are both set, added to C.
    AndPopc,
}

impl MmaSum {
    /// One element of the result, as a value: products of `row` and `column`, and `c`. Integers come out within 32 bits.
    pub fn element(self, row: &[f64], column: &[f64], c: f64) -> f64 {
        let pairs = || row.iter().zip(column);
        // Integers are exact: the largest sum is below 2^33, far from 2^53.
        match self {
            Self::Float => pairs().fold(c, |sum, (a, b)| sum + a * b),
            Self::Fused => pairs().fold(c, |sum, (a, b)| a.mul_add(*b, sum)),
            Self::Wrap => wrap(pairs().fold(c, |sum, (a, b)| sum + a * b)),
            Self::Saturate => {
                let sum = pairs().fold(c, |sum, (a, b)| sum + a * b);
                sum.clamp(f64::from(i32::MIN), f64::from(i32::MAX))
            }
            Self::XorPopc => wrap(c + pairs().filter(|(a, b)| a != b).count() as f64),
            Self::AndPopc => wrap(c + pairs().filter(|&(&a, &b)| a != 0.0 && b != 0.0).count() as f64),
        }
    }

    /// How far two correct results may lie apart: `addends` (the products and C) of a sum whose magnitudes add up to
    /// `magnitude`, where an accumulator keeps `precision` bits. 0 for exact forms.
    ///
    /// Each addend loses less than a unit in the last place of the largest one when it is aligned, and so does each of the
    /// sums when it is rounded; no sum exceeds the magnitudes' sum.
    pub fn bound(self, addends: usize, magnitude: f64, precision: i32) -> f64 {
        match self {
            Self::Float | Self::Fused => (addends + 1) as f64 * 2_f64.powi(1 - precision) * magnitude,
            Self::Wrap | Self::Saturate | Self::XorPopc | Self::AndPopc => 0.0,
        }
    }
}

/// The low 32 bits of a whole number, as a signed integer.
fn wrap(sum: f64) -> f64 {
    f64::from(sum as i64 as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_or_saturate_at_32_bits() {
        let (row, column) = ([127.0; 4], [127.0; 4]);
        let top = f64::from(i32::MAX);
        assert_eq!(MmaSum::Saturate.element(&row, &column, top), top);
        assert_eq!(MmaSum::Wrap.element(&row, &column, top), f64::from(i32::MAX.wrapping_add(4 * 127 * 127)));
        assert_eq!(MmaSum::Saturate.element(&row, &[-128.0; 4], f64::from(i32::MIN)), f64::from(i32::MIN));
        assert_eq!(MmaSum::Wrap.element(&row, &column, 1.0), f64::from(4 * 127 * 127 + 1));
    }

    #[test]
    fn bits_are_counted() {
        let (row, column) = ([1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]);
        assert_eq!(MmaSum::XorPopc.element(&row, &column, 10.0), 12.0);
        assert_eq!(MmaSum::AndPopc.element(&row, &column, 10.0), 11.0);
    }

    #[test]
    fn a_fused_product_is_rounded_once() {
        let a = 1.0 + f64::EPSILON;
        assert_eq!(MmaSum::Fused.element(&[a], &[a], -a * a), a.mul_add(a, -a * a));
        assert_ne!(MmaSum::Fused.element(&[a], &[a], -a * a), 0.0);
    }
}
