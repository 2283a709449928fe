//! 8-bit floats with scales of every granularity, and the errors for scales that do not match.

use crate::case::{Case, Order, Scale, check};
use crate::common::{devices, in_turn};
use half::bf16;
use moye::kernels::mma::Activation;
use moye::number::{F8E4M3, F8E5M2};
use moye::{Arch, Buffer, Device, Matmul, Matrix, MatrixMut};

/// The devices that multiply these elements.
fn with_float8() -> impl Iterator<Item = Device> {
    devices().into_iter().filter(|device| device.arch() == Arch::new(9, 0))
}

#[test]
fn each_pair_of_scales_in_each_order_of_c_in_parts_and_batches() {
    for device in with_float8() {
        for (i, a) in Scale::ANY.into_iter().enumerate() {
            for (j, b) in Scale::ANY.into_iter().enumerate() {
                let number = 4 * i + j;
                // If C has M contiguous, the transposed product is computed and the scales are
                // swapped.
                let of_c = if number % 3 == 0 { Order::Columns(0) } else { Order::Rows(16) };
                let case = Case {
                    scales: [a, b],
                    batches: 1 + number % 3,
                    splits: Some([1, 3][number / 2 % 2]),
                    // Through the epilogue's rows, and with tensor maps.
                    bias: [None, Some(true), None, Some(false)][number % 4],
                    beta: [0.0, 0.0, 2.0][number % 3],
                    ..Case::new((133, 47, 400), [Order::Rows(0), Order::Columns(0), of_c])
                };
                // With tiles of one instruction for a warpgroup, and of two stacked along M.
                let kernels = [
                    ["wgmma_e4m3_tn", "wgmma_e5m2_tn"],
                    ["wgmma_e4m3_tn_128x128", "wgmma_e5m2_tn_128x128"],
                    ["wgmma_e4m3_tn_256x128_promoted", "wgmma_e5m2_tn_256x128_promoted"],
                    ["wgmma_e4m3_tn_128x128_promoted", "wgmma_e5m2_tn_128x128_promoted"],
                ];
                for (turn, [e4m3, e5m2]) in kernels.into_iter().enumerate() {
                    if !in_turn(&device, i + j + turn, 4) {
                        continue;
                    }
                    let of = |kernel| Case { kernel: Some(kernel), ..case.clone() };
                    check::<F8E4M3, bf16>(&device, &of(e4m3), 4e-3, number as u64, |product| product);
                    check::<F8E5M2, f32>(&device, &of(e5m2), 2e-6, number as u64, |product| product);
                }
            }
        }
    }
}

#[test]
fn products_over_a_long_k_are_added_in_f32() {
    for device in with_float8() {
        for (k, is_promoted) in [(512, false), (513, true)] {
            let data = device.upload(&[F8E4M3::from_f32(1.0); 1024]).unwrap();
            let mut c = device.alloc_uninit::<f32>(1).unwrap();
            let product = Matmul::<F8E4M3, f32>::new(
                Matrix::row_major(&data, 1, k).unwrap(),
                Matrix::col_major(&data, k, 1).unwrap(),
            );
            let mut c_1 = MatrixMut::row_major(&mut c, 1, 1).unwrap();
            let kernel = product.explain(&device, &mut c_1).unwrap().kernel.unwrap();
            assert!(kernel.ends_with("_promoted") || !is_promoted, "{kernel} for a K of {k}");
            product.run(&device, &mut c_1).unwrap();
            assert_eq!(c.download().unwrap(), [k as f32]);
        }
    }
}

#[test]
fn extents_around_tiles_and_prime_ones() {
    for device in with_float8() {
        for (i, shape) in
            [(127, 257, 255), (129, 255, 129), (131, 263, 127), (1, 1, 257), (1, 300, 31), (300, 1, 33)]
                .into_iter()
                .enumerate()
        {
            let case = Case {
                scales: [Scale::Each; 2],
                activation: [Activation::None, Activation::Silu][i % 2],
                // Rows that a tensor map supports, and rows that must be rearranged.
                ..Case::new(shape, [Order::Rows([0, 1][i % 2]), Order::Columns(0), Order::Rows(0)])
            };
            check::<F8E4M3, f32>(&device, &case, 2e-6, i as u64, |product| product);
        }
    }
}

#[test]
fn scales_of_nothing_to_add_up_are_not_asked_for() {
    for device in with_float8() {
        let case = Case {
            scales: [Scale::Each; 2],
            bias: Some(true),
            ..Case::new((5, 7, 0), [Order::Rows(0), Order::Columns(0), Order::Rows(0)])
        };
        check::<F8E4M3, bf16>(&device, &case, 4e-3, 0, |product| product);
    }
}

/// The message of the error of a product of a 3 x 4 `a` and a 4 x 5 `b` in 2 batches, modified by
/// `change`.
fn error_of(
    change: impl for<'a> Fn(Matmul<'a, F8E4M3, f32>, &'a Buffer<f32>) -> Matmul<'a, F8E4M3, f32>,
    scale: &Buffer<f32>,
    device: &Device,
) -> String {
    let data = device.upload(&[F8E4M3::from_f32(1.0); 64]).unwrap();
    let (a, b) = (Matrix::row_major(&data, 3, 4).unwrap(), Matrix::row_major(&data, 4, 5).unwrap());
    let mut c = device.alloc_zeroed::<f32>(64).unwrap();
    let mut c = MatrixMut::row_major(&mut c, 3, 5).unwrap();
    change(Matmul::new(a, b), scale).run(device, &mut c).unwrap_err().to_string()
}

#[test]
fn scales_of_another_length() {
    let device = Device::sim();
    let scale = device.upload(&[1.0f32; 4]).unwrap();
    let error = error_of(|product, scale| product.scale_a(scale), &scale, &device);
    let expected =
        "the scale of a has 4 elements, and a has 3 rows; give one element for all, or one for each row";
    assert!(error.contains(expected), "{error}");
    let error = error_of(|product, scale| product.scale_b(scale).batch(2, [12, 20, 15]), &scale, &device);
    let expected = "the scale of b has 4 elements, and b has 5 columns; give one element for all, or one for each column, or one \
                    for each column of each of 2 batches";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_scale_of_another_device() {
    let (device, other) = (Device::sim(), Device::sim());
    let scale = other.upload(&[1.0f32]).unwrap();
    let error = error_of(|product, scale| product.scale_a(scale), &scale, &device);
    assert!(error.contains("argument 4 is a buffer of"), "{error}");
    let error = error_of(|product, scale| product.scale_b(scale), &scale, &device);
    assert!(error.contains("argument 5 is a buffer of"), "{error}");
}

#[test]
fn a_scale_of_one_for_an_operand_of_one_row_in_batches_is_for_all() {
    let device = Device::sim();
    let a = device.upload(&[F8E4M3::from_f32(2.0); 32]).unwrap();
    let scale = device.upload(&[0.5f32, 4.0]).unwrap();
    let mut c = device.alloc_uninit::<f32>(2).unwrap();
    for (count, expected) in [(1, [32.0, 32.0]), (2, [32.0, 256.0])] {
        let (left, right) = (Matrix::row_major(&a, 1, 16).unwrap(), Matrix::col_major(&a, 16, 1).unwrap());
        Matmul::new(left, right)
            .batch(2, [16, 0, 1])
            .scale_a(scale.slice(..count).unwrap())
            .run(&device, &mut MatrixMut::row_major(&mut c, 1, 1).unwrap())
            .unwrap();
        assert_eq!(c.download().unwrap(), expected, "{count}");
    }
}
