//! The shipped kernels, each compared with a reference, on every available device: shapes from one
//! element up, ragged and exact, every memory order, poison around and between the elements.

#[path = "../../fixtures/common/mod.rs"]
mod common;
mod far;
mod ladder;
mod matrices;
#[cfg(all(feature = "matmul", feature = "movement"))]
mod orders;

use common::matrix::{Order, Shape, TestMatrix, norm, rng};
use common::{devices, gpu, in_turn};
use moye::{Device, Global, GlobalMut, Grid, Kernel, kernels};
use rstest::rstest;
use std::time::{Duration, Instant};

/// A tile's edge in `copy` and `transpose`.
const TILE: usize = 32;

/// The extents of a copy, and whether it transposes.
#[derive(Clone, Copy)]
struct Move {
    kernel: Kernel<MoveParams>,
    extents: (usize, usize),
    transposes: bool,
}

type MoveParams = (Global<f32>, GlobalMut<f32>, u32, u32, i64, i64, i64, i64);

impl Move {
    /// Copies a random matrix between these orders, and compares every element.
    fn check(self, device: &Device, from: Order, to: Order) {
        let (m, n) = self.extents;
        let mut rng = rng(&[m, n, from as usize, to as usize]);
        let src = TestMatrix::random(device, Shape::new(m, n, from), &mut rng);
        let (rows, cols) = if self.transposes { (n, m) } else { (m, n) };
        let mut dst = TestMatrix::poisoned(device, Shape::new(rows, cols, to));
        let (s, d) = (src.shape, dst.shape);
        let grid = Grid::new((m.div_ceil(TILE) as u32, n.div_ceil(TILE) as u32), 256);
        let strides = (s.row_stride as i64, s.col_stride as i64, d.row_stride as i64, d.col_stride as i64);
        let (src_view, dst_view) = (src.view(), dst.view_mut());
        // SAFETY: the matrices are inside their two buffers.
        unsafe {
            device.launch(
                &self.kernel,
                grid,
                (src_view, dst_view, m as u32, n as u32, strides.0, strides.1, strides.2, strides.3),
            )
        }
        .unwrap();
        let result = dst.download();
        for col in 0..n {
            for row in 0..m {
                let moved = if self.transposes { result(col, row) } else { result(row, col) };
                assert_eq!(moved, src.at(row, col), "element ({row}, {col}) on {}", device.name());
            }
        }
    }
}

const ORDERS: [Order; 4] = [Order::ColMajor, Order::RowMajor, Order::Padded, Order::Strided];

/// Moves matrices of some extents from each order into the first of them.
fn moves(kernel: Kernel<MoveParams>, transposes: bool, to: &[Order]) {
    for device in devices() {
        for extents in [(1, 1), (32, 32), (31, 33), (64, 96), (7, 131), (131, 7), (257, 129)] {
            for (&to, from) in to.iter().flat_map(|to| ORDERS.map(|from| (to, from))) {
                Move { kernel, extents, transposes }.check(&device, from, to);
            }
        }
    }
}

#[rstest]
fn a_copy_through_shared_memory_is_exact(
    #[values(kernels::copy, kernels::copy_async)] kernel: Kernel<MoveParams>,
) {
    moves(kernel, false, &ORDERS[..2]);
}

#[test]
fn a_transpose_is_exact() {
    moves(kernels::transpose, true, &ORDERS[..3]);
}

#[rstest]
fn large_matrices_are_moved_exactly_on_a_gpu(
    #[values(kernels::copy, kernels::copy_async, kernels::transpose)] kernel: Kernel<MoveParams>,
    #[values(Order::ColMajor, Order::RowMajor)] from: Order,
) {
    // Many seconds on the simulator, so only on a GPU.
    let Some(device) = gpu() else { return };
    let transposes = kernel.name() == kernels::transpose.name();
    Move { kernel, extents: (4099, 2053), transposes }.check(&device, from, Order::ColMajor);
}

/// The four kernels of the family, by their fast operand order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Nt,
    Nn,
    Tt,
    Tn,
}

/// Launches `c = a * b` with `a` of (M, K), `b` of (N, K), `c` of (M, N).
fn run(device: &Device, family: Family, a: &TestMatrix, b: &TestMatrix, c: &mut TestMatrix) {
    let kernel = match family {
        Family::Nt => kernels::matmul_f32_nt,
        Family::Nn => kernels::matmul_f32_nn,
        Family::Tt => kernels::matmul_f32_tt,
        Family::Tn => kernels::matmul_f32_tn,
    };
    let (sa, sb, sc) = (a.shape, b.shape, c.shape);
    let (m, n, k) = (sa.rows, sb.rows, sa.cols);
    let grid = Grid::new((m.div_ceil(128) as u32, n.div_ceil(128) as u32), 256);
    let strides = |shape: Shape| (shape.row_stride as i64, shape.col_stride as i64);
    let ((a_m, a_k), (b_n, b_k), (c_m, c_n)) = (strides(sa), strides(sb), strides(sc));
    let extents = (m as u32, n as u32, k as u32);
    // SAFETY: the matrices are inside their three buffers.
    unsafe {
        device.launch(
            &kernel,
            grid,
            (a.view(), b.view(), c.view_mut(), extents.0, extents.1, extents.2, a_m, a_k, b_n, b_k, c_m, c_n),
        )
    }
    .unwrap();
}

/// Runs `c = a * b` with `a` of (M, K), `b` of (N, K), `c` of (M, N), and checks the error against
/// float64.
fn check_matmul(device: &Device, family: Family, (m, n, k): (usize, usize, usize), orders: [Order; 3]) {
    let mut rng = rng(&[m, n, k, family as usize]);
    let a = TestMatrix::random(device, Shape::new(m, k, orders[0]), &mut rng);
    let b = TestMatrix::random(device, Shape::new(n, k, orders[1]), &mut rng);
    let mut c = TestMatrix::poisoned(device, Shape::new(m, n, orders[2]));
    run(device, family, &a, &b, &mut c);
    let result = c.download();
    let elements = || (0..n).flat_map(|j| (0..m).map(move |i| (i, j)));
    let products =
        |i, j| (0..k).map(move |l| (l, i, j)).map(|(l, i, j)| a.at(i, l) as f64 * b.at(j, l) as f64);
    let error = norm(elements().map(|(i, j)| f64::from(result(i, j)) - products(i, j).sum::<f64>()));
    // Each of k roundings errs by 2^-24 of a partial sum. Partial sums with random signs stay far
    // below the sum of the magnitudes, so the error is about 2^-24 of that for every k. NaN
    // (poison) fails the comparison.
    let scale = norm(elements().map(|(i, j)| products(i, j).map(f64::abs).sum::<f64>()));
    let bound = 4.0 * f64::from(f32::EPSILON) / 2.0 * scale;
    assert!(error <= bound, "an error of {error:.2e} over {bound:.2e} on {}", device.name());
}

#[rstest]
fn a_matmul_agrees_with_float64(#[values(Family::Nt, Family::Nn, Family::Tt, Family::Tn)] family: Family) {
    let (a, b) = match family {
        Family::Nt => (Order::ColMajor, Order::ColMajor),
        Family::Nn => (Order::ColMajor, Order::RowMajor),
        Family::Tt => (Order::RowMajor, Order::ColMajor),
        Family::Tn => (Order::RowMajor, Order::RowMajor),
    };
    for device in devices() {
        for shape in [
            (1, 1, 1),
            (128, 128, 8),
            (129, 127, 9),
            (13, 200, 31),
            (200, 13, 64),
            (256, 128, 40),
            (1, 1, 500),
        ] {
            check_matmul(&device, family, shape, [a, b, Order::ColMajor]);
        }
    }
}

#[rstest]
fn a_matmul_takes_any_strides(#[values(Family::Nt, Family::Tn)] family: Family) {
    for device in devices() {
        let all = ORDERS.into_iter().flat_map(|a| (0..9).map(move |i| (a, (1 + i % 3, 1 + i / 3))));
        for (a, (b, c)) in all {
            // On the simulator, each pair of two orders.
            if !in_turn(&device, a as usize + b + c, 3) {
                continue;
            }
            check_matmul(&device, family, (140, 133, 17), [a, ORDERS[b], ORDERS[c]]);
        }
    }
}

#[test]
fn a_product_of_a_timed_size_is_right_within_ten_seconds() {
    for device in devices() {
        // 512 x 512 x 256 is the size that the simulator has a time limit for, on two cores and
        // optimised: see docs/builds.md.
        let begun = Instant::now();
        check_matmul(&device, Family::Nt, (512, 512, 256), [Order::ColMajor; 3]);
        let time = begun.elapsed();
        assert!(cfg!(debug_assertions) || time < Duration::from_secs(10), "{time:?} with the reference");
    }
}

#[rstest]
fn a_large_product_is_right(
    #[values((4099, 2053, 1031), (300, 70_000, 40), (100_003, 130, 24))] shape: (usize, usize, usize),
) {
    // Thousands of blocks and a long K: minutes on the simulator, so only on a GPU.
    let Some(device) = gpu() else { return };
    let (m, n, k) = shape;
    let mut rng = rng(&[m, n, k]);
    let a = TestMatrix::random(&device, Shape::new(m, k, Order::Padded), &mut rng);
    let b = TestMatrix::random(&device, Shape::new(n, k, Order::RowMajor), &mut rng);
    let mut c = TestMatrix::poisoned(&device, Shape::new(m, n, Order::ColMajor));
    run(&device, Family::Nn, &a, &b, &mut c);
    // Compare every element in a sample of rows with float64; check that every element outside the
    // sample was written.
    let result = c.download();
    let rows: Vec<usize> = (0..m).step_by(m / 29 + 1).chain([m - 1]).collect();
    let (mut error, mut scale) = (0.0, 0.0);
    for j in 0..n {
        for &i in &rows {
            let products = || (0..k).map(|l| f64::from(a.at(i, l)) * f64::from(b.at(j, l)));
            error += (f64::from(result(i, j)) - products().sum::<f64>()).powi(2);
            scale += products().map(f64::abs).sum::<f64>().powi(2);
        }
        for i in 0..m {
            assert!(result(i, j).is_finite(), "element ({i}, {j}) was not written");
        }
    }
    let (error, bound) = (error.sqrt(), 4.0 * f64::from(f32::EPSILON) / 2.0 * scale.sqrt());
    assert!(error <= bound, "an error of {error:.2e} over {bound:.2e}");
}
