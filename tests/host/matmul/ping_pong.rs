//! Ping-pong kernels, whose warpgroups compute whole tiles alternately: any number of tiles for
//! each, any number of stages, and every option of a product.

use crate::case::{Case, Order, Scale, check};
use crate::common::devices;
use crate::shared_tiles::has_wgmma;
use half::bf16;
use moye::kernels::hopper::{wgmma_e4m3_tn_128x128, wgmma_e5m2_tn_128x128, wgmma_s8_tn_128x128};
use moye::kernels::mma::Activation;
use moye::number::{F8E4M3, F8E5M2};
use moye::{Matmul, Matrix, MatrixMut};

/// Blocks of a cluster, whose tiles are stacked along M.
const CLUSTER: u32 = 2;

/// Tiles of 128 x 128 of 8-bit elements, two instructions stacked along M: a cluster computes 256
/// x 128, with K in stages of 128, of which six are in shared memory at a time.
fn cases_of_8_bits(kernel: &'static str) -> Vec<Case> {
    let rows = [Order::Rows(0), Order::Columns(0), Order::Rows(0)];
    let of = |shape, orders| Case { kernel: Some(kernel), ..Case::new(shape, orders) };
    let all = |shape, bias, between| Case {
        alpha: 2.0,
        beta: -1.0,
        bias: Some(bias),
        activation: Activation::Relu,
        ..of(shape, [rows[0], rows[1], Order::Rows(between)])
    };
    vec![
        // Exactly a cluster's tile, and only the first of its rows; the minimum; a row and a column
        // more than that.
        of((256, 128, 128), rows),
        of((64, 128, 896), rows),
        of((1, 1, 1), rows),
        of((257, 129, 1), rows),
        // A column-major C; unaligned rows, of both instructions; operands that are rearranged.
        of((257, 129, 129), [Order::Rows(16), Order::Columns(16), Order::Columns(16)]),
        of((400, 150, 272), [Order::Rows(0), Order::Columns(0), Order::Rows(3)]),
        of((200, 300, 130), [Order::Columns(1), Order::Rows(3), Order::Rows(1)]),
        // More stages than the ring.
        of((330, 260, 1000), rows),
        of((70, 90, 0), rows),
        // The previous C, a bias of rows and of columns; in registers if C is not read.
        all((190, 260, 100), true, 0),
        all((520, 130, 200), false, 1),
        Case { beta: 0.0, ..all((190, 260, 100), false, 0) },
        Case { beta: 0.0, ..all((330, 130, 100), true, 5) },
        // Batches, and split-K.
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

/// More tiles than run concurrently, on the grid of a product that runs alone: clusters compute two
/// or three tiles each. The ring has six stages: tiles with as many, with fewer and with more.
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
                ..Case::new(shape, [Order::Rows(0), Order::Columns(0), Order::Rows(0)])
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
fn no_tile_is_shared_between_clusters() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        // One tile more than run concurrently, with a long K: other kernels share it.
        let tiles = (device.properties().multiprocessors / CLUSTER).max(1) as usize + 1;
        let (m, n, k) = (256 * tiles, 40, 8192);
        let a = device.alloc_zeroed::<i8>(m * k).unwrap();
        let b = device.alloc_zeroed::<i8>(k * n).unwrap();
        let mut c = device.alloc_zeroed::<i32>(m * n).unwrap();
        let product = Matmul::new(Matrix::row_major(&a, m, k).unwrap(), Matrix::col_major(&b, k, n).unwrap());
        let plan = product
            .kernel(wgmma_s8_tn_128x128.name())
            .split_k(1)
            .explain(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap())
            .unwrap();
        assert_eq!((plan.shared_tiles, plan.pieces), (0, 0), "{plan:?} on {}", device.name());
    }
}
