//! The product in float64, to compare with.

use clap::ValueEnum;
use moye::kernels::mma::Activation;
use moye_device::number::Scalar;
use ndarray::ArrayView2;
use rayon::prelude::*;

/// Multiply-adds that the reference may take: about a second on one core, optimised or not.
const BUDGET: u64 = if cfg!(debug_assertions) { 1 << 25 } else { 1 << 30 };

/// How far a product is from the one computed in float64.
pub struct Comparison {
    /// The Frobenius norm of the difference over that of the reference; over 1 where the reference is 0.
    pub relative_error: f64,
    /// How many rows of the product were compared.
    pub rows: usize,
    /// How many there are.
    pub of: usize,
}

/// Compares `c` with `a * b` after `finish`, which makes an element of C from its row, its column and the sum: all rows where
/// that is quick, otherwise as many as are, evenly spread.
pub fn compare<T: Scalar, U: Scalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    c: ArrayView2<'_, U>,
    finish: impl Fn(usize, usize, f64) -> f64 + Sync,
) -> Comparison {
    let (of, row_work) = (c.nrows(), (b.len() as u64).max(1));
    let rows = of.min(usize::try_from((BUDGET / row_work).max(1)).unwrap_or(usize::MAX));
    // Row i of `rows` stands for a range of `of / rows` rows; the middle of it is taken.
    let sampled: Vec<usize> =
        (0..rows).map(|i| ((2 * i + 1) as u128 * of as u128 / (2 * rows) as u128) as usize).collect();
    let (difference, norm) = sampled
        .par_iter()
        .map(|&i| {
            let mut expected = vec![0f64; c.ncols()];
            for (&x, row) in a.row(i).iter().zip(b.rows()) {
                for (sum, &y) in expected.iter_mut().zip(row) {
                    *sum += x.to_f64() * y.to_f64();
                }
            }
            expected.iter().zip(c.row(i)).enumerate().fold(
                (0.0, 0.0),
                |(difference, norm), (j, (&sum, &actual))| {
                    let e = finish(i, j, sum);
                    (difference + (actual.to_f64() - e).powi(2), norm + e * e)
                },
            )
        })
        .reduce(|| (0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    let scale = if norm == 0.0 { 1.0 } else { norm.sqrt() };
    Comparison { relative_error: difference.sqrt() / scale, rows, of }
}

/// What a result may go through, as the user names it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Function {
    /// max(x, 0)
    Relu,
    /// 0.5 x (1 + tanh(0.7979 (x + 0.044715 x^3)))
    Gelu,
    /// x / (1 + exp(-x))
    Silu,
}

impl From<Function> for Activation {
    fn from(function: Function) -> Self {
        match function {
            Function::Relu => Self::Relu,
            Function::Gelu => Self::Gelu,
            Function::Silu => Self::Silu,
        }
    }
}

/// An activation in float64.
pub fn activated(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu if x < 0.0 => 0.0,
        Activation::Relu => x,
        Activation::Gelu => {
            let y = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + y.tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, array};

    fn plain(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>, c: ArrayView2<'_, f32>) -> Comparison {
        compare(a, b, c, |_, _, sum| sum)
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

    #[test]
    fn not_a_number_is_not_taken_for_right() {
        let one = array![[1f32]];
        assert!(plain(one.view(), one.view(), array![[f32::NAN]].view()).relative_error.is_nan());
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
        // One row takes 2^16 multiply-adds, and there are twice the rows that the budget has.
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
