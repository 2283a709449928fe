//! The shipped kernels, each against a reference, on every device there is: shapes from one element up, ragged and
//! exact, every order in memory, poison around and between the elements.

mod common;

use common::devices;
use common::matrix::{Order, Shape, TestMatrix, norm, rng};
use moye::{Grid, kernels};
use rstest::rstest;

/// A tile's edge in `copy` and `transpose`.
const TILE: usize = 32;

#[rstest]
fn a_copy_through_shared_memory_is_exact(
    #[values((1, 1), (32, 32), (31, 33), (64, 96), (7, 131), (131, 7), (257, 129))] (m, n): (usize, usize),
    #[values(Order::ColMajor, Order::RowMajor, Order::Padded, Order::Strided)] from: Order,
    #[values(Order::ColMajor, Order::RowMajor)] to: Order,
    #[values(false, true)] with_cp_async: bool,
) {
    for device in devices() {
        let mut rng = rng(&[m, n, from as usize, to as usize]);
        let src = TestMatrix::random(&device, Shape::new(m, n, from), &mut rng);
        let mut dst = TestMatrix::poisoned(&device, Shape::new(m, n, to));
        let (s, d) = (src.shape, dst.shape);
        let kernel = if with_cp_async { kernels::copy_async } else { kernels::copy };
        let grid = Grid::new((m.div_ceil(TILE) as u32, n.div_ceil(TILE) as u32), 256);
        let strides = (s.row_stride as i64, s.col_stride as i64, d.row_stride as i64, d.col_stride as i64);
        // SAFETY: the matrices lie inside their buffers, which are two.
        unsafe {
            device.launch(
                &kernel,
                grid,
                (src.view(), dst.view_mut(), m as u32, n as u32, strides.0, strides.1, strides.2, strides.3),
            )
        }
        .unwrap();
        let result = dst.download();
        for col in 0..n {
            for row in 0..m {
                assert_eq!(result(row, col), src.at(row, col), "element ({row}, {col}) on {}", device.name());
            }
        }
    }
}

#[rstest]
fn a_transpose_is_exact(
    #[values((1, 1), (32, 32), (31, 33), (64, 96), (7, 131), (131, 7), (257, 129))] (m, n): (usize, usize),
    #[values(Order::ColMajor, Order::RowMajor, Order::Padded, Order::Strided)] from: Order,
    #[values(Order::ColMajor, Order::RowMajor, Order::Padded)] to: Order,
) {
    for device in devices() {
        let mut rng = rng(&[m, n, from as usize, to as usize]);
        let src = TestMatrix::random(&device, Shape::new(m, n, from), &mut rng);
        let mut dst = TestMatrix::poisoned(&device, Shape::new(n, m, to));
        let (s, d) = (src.shape, dst.shape);
        let grid = Grid::new((m.div_ceil(TILE) as u32, n.div_ceil(TILE) as u32), 256);
        let strides = (s.row_stride as i64, s.col_stride as i64, d.row_stride as i64, d.col_stride as i64);
        // SAFETY: the matrices lie inside their buffers, which are two.
        unsafe {
            device.launch(
                &kernels::transpose,
                grid,
                (src.view(), dst.view_mut(), m as u32, n as u32, strides.0, strides.1, strides.2, strides.3),
            )
        }
        .unwrap();
        let result = dst.download();
        for col in 0..n {
            for row in 0..m {
                assert_eq!(result(col, row), src.at(row, col), "element ({col}, {row}) on {}", device.name());
            }
        }
    }
}

/// The four kernels of the family, by the order of their operands that is fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Nt,
    Nn,
    Tt,
    Tn,
}

/// Runs `c = a * b` with `a` of (M, K), `b` of (N, K), `c` of (M, N), and gives the error against float64.
fn matmul_error(family: Family, (m, n, k): (usize, usize, usize), orders: [Order; 3]) {
    let kernel = match family {
        Family::Nt => kernels::matmul_f32_nt,
        Family::Nn => kernels::matmul_f32_nn,
        Family::Tt => kernels::matmul_f32_tt,
        Family::Tn => kernels::matmul_f32_tn,
    };
    for device in devices() {
        let mut rng = rng(&[m, n, k, family as usize]);
        let a = TestMatrix::random(&device, Shape::new(m, k, orders[0]), &mut rng);
        let b = TestMatrix::random(&device, Shape::new(n, k, orders[1]), &mut rng);
        let mut c = TestMatrix::poisoned(&device, Shape::new(m, n, orders[2]));
        let grid = Grid::new((m.div_ceil(128) as u32, n.div_ceil(128) as u32), 256);
        let (sa, sb, sc) = (a.shape, b.shape, c.shape);
        // SAFETY: the matrices lie inside their buffers, which are three.
        unsafe {
            device.launch(
                &kernel,
                grid,
                (
                    a.view(),
                    b.view(),
                    c.view_mut(),
                    m as u32,
                    n as u32,
                    k as u32,
                    sa.row_stride as i64,
                    sa.col_stride as i64,
                    sb.row_stride as i64,
                    sb.col_stride as i64,
                    sc.row_stride as i64,
                    sc.col_stride as i64,
                ),
            )
        }
        .unwrap();
        let result = c.download();
        let elements = || (0..n).flat_map(|j| (0..m).map(move |i| (i, j)));
        let products =
            |i, j| (0..k).map(move |l| (l, i, j)).map(|(l, i, j)| a.at(i, l) as f64 * b.at(j, l) as f64);
        let error = norm(elements().map(|(i, j)| f64::from(result(i, j)) - products(i, j).sum::<f64>()));
        // Each of k roundings errs by 2^-24 of a partial sum; partial sums of random signs stay far below the sum of
        // the magnitudes, so the error is about 2^-24 of that, whatever k is. NaN (poison) fails the comparison.
        let scale = norm(elements().map(|(i, j)| products(i, j).map(f64::abs).sum::<f64>()));
        let bound = 4.0 * f64::from(f32::EPSILON) / 2.0 * scale;
        assert!(error <= bound, "an error of {error:.2e} over {bound:.2e} on {}", device.name());
    }
}

#[rstest]
fn a_matmul_agrees_with_float64(
    #[values(Family::Nt, Family::Nn, Family::Tt, Family::Tn)] family: Family,
    #[values((1, 1, 1), (128, 128, 8), (129, 127, 9), (13, 200, 31), (200, 13, 64), (256, 128, 40), (1, 1, 500))]
    shape: (usize, usize, usize),
) {
    let (a, b) = match family {
        Family::Nt => (Order::ColMajor, Order::ColMajor),
        Family::Nn => (Order::ColMajor, Order::RowMajor),
        Family::Tt => (Order::RowMajor, Order::ColMajor),
        Family::Tn => (Order::RowMajor, Order::RowMajor),
    };
    matmul_error(family, shape, [a, b, Order::ColMajor]);
}

#[rstest]
fn a_matmul_takes_any_strides(
    #[values(Family::Nt, Family::Tn)] family: Family,
    #[values(Order::ColMajor, Order::RowMajor, Order::Padded, Order::Strided)] a: Order,
    #[values(Order::RowMajor, Order::Padded, Order::Strided)] b: Order,
    #[values(Order::RowMajor, Order::Padded, Order::Strided)] c: Order,
) {
    matmul_error(family, (140, 133, 17), [a, b, c]);
}
