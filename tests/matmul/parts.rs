//! Products of few rows or columns, whose clusters have a part of K in each block.
//!
//! Operands are small whole numbers, so that every sum is exact in f32.

use crate::common::devices;
use crate::shared_tiles::{ShapeAndTile, compare, has_wgmma, whole};
use moye::{Matmul, Matrix, MatrixMut};

/// Shapes with few rows or columns, and the tile that they take: less than a stage of K, as many stages as a cluster has blocks, one
/// more than that, a ragged end, and more tiles than one.
const SHAPES: [ShapeAndTile; 8] = [
    ((1, 128, 40), (64, 128)),
    ((16, 130, 256), (64, 128)),
    ((64, 100, 328), (64, 128)),
    ((70, 300, 1000), (64, 128)),
    ((128, 1, 40), (128, 64)),
    ((130, 16, 256), (128, 64)),
    ((100, 64, 328), (128, 64)),
    ((300, 70, 1000), (128, 64)),
];

#[test]
fn parts_of_k_are_added_up_within_a_cluster() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        for ((m, n, k), tile) in SHAPES {
            let (a, b) = (whole(m * k, 8), whole(n * k, 9));
            let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            // K contiguous in B, and N.
            let across: Vec<_> = (0..n * k).map(|i| b[i % n * k + i / n]).collect();
            let device_across = device.upload(&across).unwrap();
            let mut c = device.alloc_uninit::<f32>(m * n).unwrap();
            for b_of in [Matrix::col_major(&device_b, k, n), Matrix::row_major(&device_across, k, n)] {
                let product = Matmul::new(Matrix::row_major(&device_a, m, k).unwrap(), b_of.unwrap())
                    .tile(tile.0, tile.1);
                let plan =
                    product.explain(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
                let what = format!("{m} x {n} x {k} by {plan} on {}", device.name());
                assert_eq!(plan.splits, 4, "{what}: a cluster's blocks have a part each");
                c.fill_bytes(0xFF).unwrap();
                product.run(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
                compare(&what, (&a, &b), &c.download().unwrap(), (m, n, k), |sum, _| sum);
            }
        }
    }
}
