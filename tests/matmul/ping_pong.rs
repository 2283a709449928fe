//! Kernels whose warpgroups have whole tiles in turn: any number of tiles for each, of any number
//! of stages, and all that can be asked of a product.

use crate::case::{Case, Lie, Scale, check};
use crate::common::devices;
use crate::shared_tiles::{Written, has_wgmma, launch};
use half::{bf16, f16};
use moye::kernels::hopper::{
    Cut, wgmma_bf16_tn_64x256, wgmma_e4m3_tn_128x128, wgmma_e5m2_tn_128x128, wgmma_f16_tn_64x256,
    wgmma_s8_tn_128x128,
};
use moye::kernels::mma::Activation;
use moye::number::{F8E4M3, F8E5M2};
use moye::{Matmul, Matrix, MatrixMut};
use rstest::rstest;

/// A warpgroup's tile, and blocks of a cluster, whose tiles are one below the other.
const TILE: (u32, u32) = (64, 256);
const CLUSTER: u32 = 2;

/// The kernel alone, with any number of clusters: rows and columns of C by tiles of 128 x 256 of a
/// cluster, and K by stages of 64, of which four are in shared memory at a time.
#[rstest]
// One tile for the first warpgroup, and none for the second.
#[case::one_tile_of_one_stage((128, 256, 64), 1)]
#[case::one_tile((128, 256, 456), 1)]
// One each.
#[case::two_tiles((128, 512, 200), 1)]
#[case::two_ragged_tiles_of_one_stage((130, 9, 8), 1)]
// More for the first than for the second: whole rings, and parts of one.
#[case::three_tiles((300, 200, 512), 1)]
#[case::five_ragged_tiles((530, 40, 328), 1)]
#[case::seven_tiles_of_one_stage((100, 1700, 24), 1)]
// Clusters with three and with two; with two and with one; with one and with none.
#[case::odd_and_even((640, 100, 330 / 8 * 8), 2)]
#[case::two_and_one((300, 300, 72), 3)]
#[case::more_clusters_than_tiles((130, 256, 136), 3)]
fn any_number_of_tiles_for_each_warpgroup(#[case] shape: (u32, u32, u32), #[case] clusters: u32) {
    for device in devices() {
        if has_wgmma(&device) {
            let (tile_m, tile_n) = TILE;
            launch(
                &device,
                &wgmma_f16_tn_64x256,
                (tile_m, tile_n, CLUSTER),
                shape,
                (clusters, Cut::NONE),
                Written::Words,
            );
        }
    }
}

/// The products of the test, with the tile that only these kernels have.
fn cases() -> Vec<Case> {
    let rows = [Lie::Rows(0), Lie::Columns(0), Lie::Rows(0)];
    let of = |shape, lies| Case { tile: Some(TILE), ..Case::new(shape, lies) };
    // Exactly a tile of a cluster; as little as there is; a row and a column more than a tile; C by
    // columns; rows that begin anywhere.
    let plain = [
        of((128, 256, 64), rows),
        of((1, 1, 1), rows),
        of((129, 257, 1), rows),
        of((129, 257, 65), [Lie::Rows(16), Lie::Columns(16), Lie::Columns(16)]),
        of((200, 300, 130), [Lie::Rows(1), Lie::Columns(3), Lie::Rows(1)]),
        // Nothing to accumulate.
        of((70, 90, 0), rows),
    ];
    let all = |shape, bias, activation| Case {
        alpha: 2.0,
        beta: -1.0,
        bias: Some(bias),
        activation,
        ..of(shape, rows)
    };
    let asked = [
        all((190, 260, 100), true, Activation::Relu),
        all((130, 520, 70), false, Activation::Gelu),
        // Batches, whose tiles follow each other, with an operand of their own and with the same.
        Case { batches: 3, ..of((130, 40, 136), rows) },
        Case { batches: 5, same_b: true, ..all((60, 70, 65), false, Activation::Silu) },
        // Parts of K: of three stages and of one; of one each.
        Case { splits: Some(2), ..of((130, 270, 200), rows) },
        Case { splits: Some(7), ..of((20, 30, 448), rows) },
        Case { splits: Some(3), batches: 2, ..all((70, 260, 400), true, Activation::None) },
    ];
    plain.into_iter().chain(asked).collect()
}

#[test]
fn whatever_is_asked_of_the_product() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        for (seed, case) in cases().into_iter().enumerate() {
            check::<f16, f16>(&device, &case, 5e-4, seed as u64, |product| product);
            check::<bf16, f32>(&device, &case, 2e-6, seed as u64, |product| product);
        }
    }
}

/// Tiles of 128 x 128 of 8-bit elements, two instructions below each other: of a cluster 256 x 128,
/// K by stages of 128, of which six are in shared memory at a time.
fn cases_of_8_bits(kernel: &'static str) -> Vec<Case> {
    let rows = [Lie::Rows(0), Lie::Columns(0), Lie::Rows(0)];
    let of = |shape, lies| Case { kernel: Some(kernel), ..Case::new(shape, lies) };
    let all = |shape, bias, between| Case {
        alpha: 2.0,
        beta: -1.0,
        bias: Some(bias),
        activation: Activation::Relu,
        ..of(shape, [rows[0], rows[1], Lie::Rows(between)])
    };
    vec![
        // Exactly a tile of a cluster, and the first one of its rows alone; as little as there is;
        // a row and a column more than that.
        of((256, 128, 128), rows),
        of((64, 128, 896), rows),
        of((1, 1, 1), rows),
        of((257, 129, 1), rows),
        // C by columns; rows that begin anywhere, of both instructions; operands that are
        // rearranged.
        of((257, 129, 129), [Lie::Rows(16), Lie::Columns(16), Lie::Columns(16)]),
        of((400, 150, 272), [Lie::Rows(0), Lie::Columns(0), Lie::Rows(3)]),
        of((200, 300, 130), [Lie::Columns(1), Lie::Rows(3), Lie::Rows(1)]),
        // More stages than a ring has.
        of((330, 260, 1000), rows),
        of((70, 90, 0), rows),
        // What C was, a bias of rows and of columns; in registers, where C is not read.
        all((190, 260, 100), true, 0),
        all((520, 130, 200), false, 1),
        Case { beta: 0.0, ..all((190, 260, 100), false, 0) },
        Case { beta: 0.0, ..all((330, 130, 100), true, 5) },
        // Batches, and parts of K.
        Case { batches: 3, same_b: true, ..of((130, 40, 136), rows) },
        Case { splits: Some(3), batches: 2, ..all((270, 160, 800), true, 0) },
    ]
}

#[test]
fn whatever_is_asked_of_8_bit_elements() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        for (seed, case) in cases_of_8_bits(wgmma_s8_tn_128x128.name()).into_iter().enumerate() {
            check::<i8, i32>(&device, &case, 0.0, seed as u64, |product| product);
        }
        let scales = [Scale::Each, Scale::All, Scale::None];
        for (seed, case) in cases_of_8_bits(wgmma_e4m3_tn_128x128.name()).into_iter().enumerate() {
            let case = Case { scales: [scales[seed % 3], scales[seed / 3 % 3]], ..case };
            check::<F8E4M3, bf16>(&device, &case, 4e-3, seed as u64, |product| product);
            check::<F8E4M3, f32>(&device, &case, 2e-6, seed as u64, |product| product);
        }
        for (seed, case) in cases_of_8_bits(wgmma_e5m2_tn_128x128.name()).into_iter().enumerate() {
            check::<F8E5M2, bf16>(&device, &case, 4e-3, seed as u64, |product| product);
        }
    }
}

/// More tiles than run at the same time, on the grid that a product chooses: each cluster has two
/// and three.
#[test]
fn more_tiles_than_clusters() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        let clusters = (device.properties().multiprocessors / CLUSTER).max(1) as usize;
        let tiles = 2 * clusters + 1;
        for (shape, batches) in
            [((128 * tiles - 5, 33, 104), 1), ((60, 256 * tiles, 40), 1), ((70, 50, 65), tiles)]
        {
            let case = Case {
                tile: Some(TILE),
                splits: Some(1),
                batches,
                ..Case::new(shape, [Lie::Rows(0), Lie::Columns(0), Lie::Rows(0)])
            };
            check::<f16, f32>(&device, &case, 2e-6, 1, |product| product);
            check::<bf16, bf16>(&device, &case, 4e-3, 1, |product| product);
        }
    }
}

/// The same of 8-bit elements, whose ring has six stages: tiles of as many, of fewer and of more.
#[test]
fn more_tiles_of_8_bit_elements_than_clusters() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        let clusters = (device.properties().multiprocessors / CLUSTER).max(1) as usize;
        let tiles = 2 * clusters + 1;
        for (shape, batches) in [
            ((256 * tiles - 5, 33, 1), 1),
            ((60, 128 * tiles, 128 * 5 + 16), 1),
            ((70, 50, 128 * 7), tiles),
            ((256 * tiles - 140, 20, 128 * 13), 1),
        ] {
            let case = Case {
                splits: Some(1),
                batches,
                ..Case::new(shape, [Lie::Rows(0), Lie::Columns(0), Lie::Rows(0)])
            };
            let of = |kernel, scales| Case { kernel: Some(kernel), scales, ..case.clone() };
            check::<i8, i32>(&device, &of(wgmma_s8_tn_128x128.name(), [Scale::None; 2]), 0.0, 1, |product| {
                product
            });
            let e4m3 = of(wgmma_e4m3_tn_128x128.name(), [Scale::Each, Scale::EachOfBatch]);
            check::<F8E4M3, bf16>(&device, &e4m3, 4e-3, 1, |product| product);
            check::<F8E4M3, f32>(&device, &e4m3, 2e-6, 1, |product| product);
        }
    }
}

#[test]
fn the_tile_is_theirs_and_none_is_shared() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        // A tile more than run at the same time, of a long K: other kernels share it.
        let tiles = (device.properties().multiprocessors / CLUSTER).max(1) as usize + 1;
        let (m, n, k) = (128 * tiles, 40, 8192);
        let a = device.alloc_zeroed::<bf16>(m * k).unwrap();
        let b = device.alloc_zeroed::<bf16>(k * n).unwrap();
        let mut c = device.alloc_zeroed::<bf16>(m * n).unwrap();
        let product = Matmul::new(Matrix::row_major(&a, m, k).unwrap(), Matrix::col_major(&b, k, n).unwrap());
        let plan = product
            .tile(TILE.0, TILE.1)
            .split_k(1)
            .explain(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap())
            .unwrap();
        assert_eq!(plan.kernel, Some(wgmma_bf16_tn_64x256.name()), "{plan:?} on {}", device.name());
        assert_eq!((plan.shared_tiles, plan.pieces), (0, 0), "{plan:?} on {}", device.name());
    }
}
