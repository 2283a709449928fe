//! Products of few rows or columns: small tiles, with all of K or a slice of it in each block of a
//! cluster.
//!
//! Operands are small integers, so every sum is exact in f32.

use crate::common::{devices, in_turn};
use crate::shared_tiles::{compare, has_wgmma, whole};
use moye::{Matmul, Matrix, MatrixMut};

/// Shapes with few rows or columns: less than a stage of K, one stage more than there are slices,
/// more than a ring of stages for each slice, ragged ends, and more than one tile. K ends within a
/// row of a stage, within a stage after its first row, and with a stage.
const SHAPES: [(usize, usize, usize); 11] = [
    (1, 128, 40),
    (9, 24, 1928),
    (16, 136, 192),
    (64, 100, 328),
    (70, 296, 1928),
    (128, 1, 40),
    (130, 16, 192),
    (100, 64, 328),
    (300, 70, 1928),
    (65, 130, 320),
    (192, 64, 2048),
];

#[test]
fn small_tiles_have_all_of_k_or_add_up_its_parts_within_a_cluster() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        for (number, (m, n, k)) in SHAPES.into_iter().enumerate() {
            let (a, b) = (whole(m * k, 8), whole(n * k, 9));
            let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            // K contiguous in B, and N.
            let across: Vec<_> = (0..n * k).map(|i| b[i % n * k + i / n]).collect();
            let device_across = device.upload(&across).unwrap();
            let mut c = device.alloc_uninit::<f32>(m * n).unwrap();
            let b_of = |across| {
                if across {
                    Matrix::row_major(&device_across, k, n)
                } else {
                    Matrix::col_major(&device_b, k, n)
                }
            };
            for (across, parts) in [(false, 1), (false, 2), (true, 1), (true, 2)] {
                // One stage of K cannot be split.
                if k <= 128 && parts > 1 {
                    continue;
                }
                let product = Matmul::new(Matrix::row_major(&device_a, m, k).unwrap(), b_of(across).unwrap())
                    .tile(64, 64)
                    .split_k(parts);
                let plan =
                    product.explain(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
                let what = format!("{m} x {n} x {k} by {plan} on {}", device.name());
                let kernel = match parts {
                    1 => ["wgmma_f16_tn_64x64", "wgmma_f16_tt_64x64"],
                    _ => ["wgmma_f16_tn_64x64_k2", "wgmma_f16_tt_64x64_k2"],
                };
                // Rows of N that do not start at multiples of 16 bytes are rearranged, so that K is
                // contiguous.
                let kernel = kernel[usize::from(across && n % 8 == 0)];
                assert_eq!((plan.kernel, plan.splits), (Some(kernel), parts), "{what}");
                c.fill_bytes(0xFF).unwrap();
                product.run(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
                compare(&what, (&a, &b), &c.download().unwrap(), (m, n, k), |sum, _| sum);
            }
            // Tiles of two and three warpgroups, and stages of 64.
            if k <= 64 {
                continue;
            }
            for (turn, kernel) in [
                "wgmma_f16_tn_128x128_k2",
                "wgmma_f16_tn_128x192_k2",
                "wgmma_f16_tn_64x128",
                "wgmma_f16_tn_64x128_k2",
                "wgmma_f16_tn_128x128_once",
                "wgmma_f16_tn_128x192_once",
                "wgmma_f16_tn_192x192_once",
            ]
            .into_iter()
            .enumerate()
            {
                // On the simulator a shape gets every second kernel, and the next shape the others.
                if !in_turn(&device, number + turn, 2) {
                    continue;
                }
                let a_of = Matrix::row_major(&device_a, m, k).unwrap();
                let product = Matmul::new(a_of, b_of(false).unwrap()).kernel(kernel);
                let what = format!("{m} x {n} x {k} by {kernel} on {}", device.name());
                c.fill_bytes(0xFF).unwrap();
                product.run(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
                compare(&what, (&a, &b), &c.download().unwrap(), (m, n, k), |sum, _| sum);
            }
        }
    }
}

/// A tile at the edge that is moved inside writes elements that its neighbour also writes. If C is
/// accumulated, each element must be read before it is written, and added once.
#[test]
fn what_c_had_is_added_once_also_where_tiles_hang_over_the_edge() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        // Rows and columns after whole tiles: fewer than half of one, more, and a number that is
        // not a multiple of a word.
        let shapes = [(72, 136, 320), (136, 264, 136), (130, 77, 200), (140, 400, 330)];
        for (number, (m, n, k)) in shapes.into_iter().enumerate() {
            let (a, b) = (whole(m * k, 3), whole(n * k, 4));
            let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let of_column = |j: usize| (j % 23) as f32 - 11.0;
            let had: Vec<f32> = (0..m * n).map(|i| of_column(i % n)).collect();
            for kernel in [
                "wgmma_f16_tn_64x64",
                "wgmma_f16_tn_64x64_k2",
                "wgmma_f16_tn_64x128",
                "wgmma_f16_tn_64x128_k2",
                "wgmma_f16_tn_128x128_k2",
                "wgmma_f16_tn_128x192_k2",
            ] {
                for (turn, beta) in [0.0, 2.0].into_iter().enumerate() {
                    if !in_turn(&device, number + turn, 2) {
                        continue;
                    }
                    let mut c = device.upload(&had).unwrap();
                    let a_of = Matrix::row_major(&device_a, m, k).unwrap();
                    let b_of = Matrix::col_major(&device_b, k, n).unwrap();
                    let product = Matmul::new(a_of, b_of).beta(beta).kernel(kernel);
                    product.run(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
                    let what = format!("{m} x {n} x {k}, {beta} of C, by {kernel} on {}", device.name());
                    compare(&what, (&a, &b), &c.download().unwrap(), (m, n, k), |sum, j| {
                        sum + f64::from(beta * of_column(j))
                    });
                }
            }
        }
    }
}

/// Blocks of K that arrive together, in each batch; B is shared by all batches, or differs between
/// them.
#[test]
fn small_tiles_of_batches_have_their_own_rows() {
    const M: usize = 70;
    const N: usize = 130;
    const BATCHES: usize = 3;
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        for k in [128, 192, 512] {
            let (a, b) = (whole(BATCHES * M * k, 5), whole(BATCHES * N * k, 6));
            let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let mut c = device.alloc_uninit::<f32>(BATCHES * M * N).unwrap();
            for kernel in [
                "wgmma_f16_tn_64x64",
                "wgmma_f16_tn_64x64_k2",
                "wgmma_f16_tn_128x128_k2",
                "wgmma_f16_tn_128x192_k2",
                "wgmma_f16_tn_64x128_k2",
            ] {
                if k <= 128 && kernel.ends_with("64x64_k2") {
                    continue;
                }
                for distance in [0, N * k] {
                    let a_of = Matrix::row_major(&device_a, M, k).unwrap();
                    let b_of = Matrix::col_major(&device_b, k, N).unwrap();
                    let product =
                        Matmul::new(a_of, b_of).batch(BATCHES, [M * k, distance, M * N]).kernel(kernel);
                    c.fill_bytes(0xFF).unwrap();
                    product.run(&device, &mut MatrixMut::row_major(&mut c, M, N).unwrap()).unwrap();
                    let all = c.download().unwrap();
                    for batch in 0..BATCHES {
                        let what = format!("batch {batch}, {k} of K by {kernel} on {}", device.name());
                        let (a, b) = (&a[batch * M * k..], &b[batch * distance..]);
                        let c = &all[batch * M * N..][..M * N];
                        compare(&what, (a, b), c, (M, N, k), |sum, _| sum);
                    }
                }
            }
        }
    }
}
