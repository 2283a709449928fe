//! The arithmetic of tensor cores: a row of D from a row of A, all of B and a row of C.

/// The arithmetic of a sum of products.
///
/// The model of the floating-point forms with 16- and 32-bit accumulators: products are exact (they
/// fit in an f64), they are added to C in the order of k in f64, and the sum is rounded once, to
/// nearest even. A tensor core adds several products at a time, aligned to the largest of them, and
/// drops what is below its last bit; NVIDIA documents neither order nor width. So hardware and
/// model differ by up to a unit in the last place of the largest partial sum for each addend, and
/// another for each block of them: see [`MmaSum::bound`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmaSum {
    /// The model above.
    Float,
    /// A fused multiply-add for each k, in order: the f64 form.
    Fused,
    /// Exact integers; the low 32 bits are kept.
    Wrap,
    /// Exact integers, saturated to 32 bits: `.satfinite`.
    Saturate,
    /// The number of k at which the bits of A and B differ, added to C.
    XorPopc,
    /// The number of k at which the bits of A and B are both set, added to C.
    AndPopc,
}

impl MmaSum {
    /// Adds the products of a row of A to `sums`, the accumulators of a row of C. For each element
    /// of A, `b` holds a row with one element for each accumulator. Integer results fit in 32 bits.
    ///
    /// Each accumulator adds its products in the order of k. The loop over the row is the inner
    /// one, so that a processor overlaps the additions of adjacent accumulators.
    pub(crate) fn row(self, a: &[f64], b: &[f64], sums: &mut [f64]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has these instructions.
            return unsafe { self.row_by_vectors(a, b, sums) };
        }
        self.row_of_any(a, b, sums)
    }

    /// Same as [`row`](Self::row), with the same results: four accumulators at a time, and without
    /// a call for each fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn row_by_vectors(self, a: &[f64], b: &[f64], sums: &mut [f64]) {
        self.row_of_any(a, b, sums)
    }

    #[inline(always)]
    fn row_of_any(self, a: &[f64], b: &[f64], sums: &mut [f64]) {
        // Integers are exact: the largest sum is below 2^33, far from 2^53.
        match self {
            Self::Float | Self::Wrap | Self::Saturate => add(a, b, sums, |sum, a, b| sum + a * b),
            Self::Fused => add(a, b, sums, |sum, a, b| a.mul_add(b, sum)),
            Self::XorPopc => add(a, b, sums, |sum, a, b| sum + f64::from(a != b)),
            Self::AndPopc => add(a, b, sums, |sum, a, b| sum + f64::from(a != 0.0 && b != 0.0)),
        }
        let within: fn(f64) -> f64 = match self {
            Self::Float | Self::Fused => return,
            Self::Saturate => |sum| sum.clamp(f64::from(i32::MIN), f64::from(i32::MAX)),
            Self::Wrap | Self::XorPopc | Self::AndPopc => wrap,
        };
        for sum in sums {
            *sum = within(*sum);
        }
    }

    /// The distance of a GPU's result from the exact sum: `products` of them and C, whose
    /// magnitudes sum to `magnitude`, with accumulators of `kept` bits and a result of `result`
    /// bits. To first order `((q + t) 2^(1 - kept) + t 2^(1 - result)) magnitude` for `q` products
    /// in `t = q / 4` blocks, rounded up; 0 for exact forms.
    ///
    /// NVIDIA does not document how tensor cores add. The bound assumes the worst of what
    /// measurements found (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor
    /// cores", 2021, for V100, T4 and A100; later work finds the same for Hopper, with wider
    /// blocks):
    ///
    /// - Products are exact.
    /// - They are added in blocks, of 4 on the oldest chips and of up to 16 since. A block takes
    ///   the sum so far as one more addend, shifts all of them to the exponent of the largest, and
    ///   drops what falls below the last of `kept` bits. So each of the `q + t` addends loses less
    ///   than a unit there, `2^(1 - kept)` of the largest one, which is at most the sum of all
    ///   magnitudes. `kept` is 24 for f32 accumulators, the fewest found (V100; newer chips keep
    ///   one or two more); 14 for 8-bit floats on Hopper, the leading bit and 13 fraction bits,
    ///   which the result also keeps; 53 for f64, a chain of fused multiply-adds.
    /// - At the end of each block the sum is brought into the type of the result, by truncation to
    ///   f32 and to the nearest f16: it loses less than a unit, `2^(1 - result)` of itself. What an
    ///   f16 loses below its normal range is not in the bound: half of its least number for each
    ///   block.
    ///
    /// The sums so far carry these losses themselves, which is why they are not just added: see the
    /// source.
    pub fn bound(self, products: usize, magnitude: f64, kept: i32, result: i32) -> f64 {
        // `n` factors of at most `1 + u` are at most `1 + n u / (1 - n u)`.
        let all = |n: usize, precision: i32| {
            let loss = n as f64 * 2_f64.powi(1 - precision);
            loss / (1.0 - loss)
        };
        let blocks = products.div_ceil(4);
        match self {
            Self::Float | Self::Fused => {
                let (aligned, converted) = (all(products + blocks, kept), all(blocks, result.min(kept)));
                (aligned + converted + aligned * converted) * magnitude
            }
            Self::Wrap | Self::Saturate | Self::XorPopc | Self::AndPopc => 0.0,
        }
    }
}

/// Adds the product of each element of A and its row of B to all sums, some of which stay in
/// registers from product to product.
#[inline(always)]
fn add(a: &[f64], b: &[f64], sums: &mut [f64], step: impl Fn(f64, f64, f64) -> f64) {
    let row = sums.len();
    let (blocks, rest) = sums.as_chunks_mut::<BLOCK>();
    for (block, sums) in blocks.iter_mut().enumerate() {
        let mut kept = *sums;
        for (&a, b) in a.iter().zip(b.chunks_exact(row)) {
            let b: &[f64; BLOCK] = b[block * BLOCK..][..BLOCK].try_into().expect("as many");
            for (sum, &b) in kept.iter_mut().zip(b) {
                *sum = step(*sum, a, b);
            }
        }
        *sums = kept;
    }
    let first = row - rest.len();
    for (&a, b) in a.iter().zip(b.chunks_exact(row)) {
        for (sum, &b) in rest.iter_mut().zip(&b[first..]) {
            *sum = step(*sum, a, b);
        }
    }
}

/// Accumulators held in registers. The narrowest instructions have as many columns.
const BLOCK: usize = 8;

/// The low 32 bits of an integer, as a signed integer.
fn wrap(sum: f64) -> f64 {
    f64::from(sum as i64 as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl MmaSum {
        /// A row of one element.
        fn element(self, a: &[f64], b: &[f64], c: f64) -> f64 {
            let mut sum = [c];
            self.row(a, b, &mut sum);
            sum[0]
        }
    }

    #[test]
    fn each_sum_of_a_row_takes_its_products_in_the_order_of_k() {
        // 2^53 plus 1 is 2^53 again, 1 and -2^53 are exact: so the order is observable.
        let (large, a) = (2_f64.powi(53), [1.0; 3]);
        // (3 products, 4 results)
        let b = [large, 1.0, 0.0, 1.0, 1.0, 1.0, large, -large, -large, -large, -large, large];
        let mut sums = [0.0, 0.0, 1.0, 0.0];
        MmaSum::Float.row(&a, &b, &mut sums);
        assert_eq!(sums, [0.0, 2.0 - large, 0.0, 1.0]);
    }

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

    /// A block of a tensor core that keeps `kept` bits of the largest addend, including the leading
    /// bit.
    fn truncated(addends: &[f64], kept: i32) -> f64 {
        let largest = addends.iter().fold(0_f64, |most, addend| most.max(addend.abs()));
        let unit = 2_f64.powi(largest.log2().floor() as i32 + 1 - kept);
        addends.iter().map(|addend| (addend / unit).trunc() * unit).sum()
    }

    #[test]
    fn the_bound_holds_for_what_alignment_drops_and_is_no_wider_than_a_few_units() {
        // One large addend, and fifteen that lose almost a unit each, all downwards.
        let kept = 14;
        let small = 2_f64.powi(1 - kept) * (1.0 - 2_f64.powi(-20));
        let products: Vec<f64> = std::iter::once(1.0).chain([small; 15]).collect();
        let (exact, magnitude) = (products.iter().sum::<f64>(), products.iter().sum::<f64>());
        let error = exact - truncated(&products, kept);
        let bound = MmaSum::Float.bound(16, magnitude, kept, 24);
        assert!(error > 14.9 * 2_f64.powi(1 - kept), "what is lost: {error:e}");
        assert!(error <= bound, "{error:e} is above the bound {bound:e}");
        assert!(bound < 2.0 * error, "{bound:e} is far above {error:e}");
        assert_eq!(MmaSum::Wrap.bound(16, magnitude, kept, 24), 0.0);
    }

    #[test]
    fn a_fused_product_is_rounded_once() {
        let a = 1.0 + f64::EPSILON;
        assert_eq!(MmaSum::Fused.element(&[a], &[a], -a * a), a.mul_add(a, -a * a));
        assert_ne!(MmaSum::Fused.element(&[a], &[a], -a * a), 0.0);
    }
}
