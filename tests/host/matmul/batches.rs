//! Batches of C that follow each other, and batches interleaved with rows and columns.

use crate::common::matrix::dot;
use crate::common::{devices, in_turn};
use crate::shared_tiles::{has_wgmma, whole};
use half::f16;
use moye::{Device, Matmul, Matrix, MatrixMut, Output};
use rstest::rstest;

/// The strides of C between rows, columns and batches, in elements.
type Strides = (usize, usize, usize);

/// A product of integers with such a C, with poison between its elements, with and without split-K,
/// and with kernels of large and of small tiles, if the device has them.
fn check<U: Output<f16> + Copy + Into<f64>>(
    device: &Device,
    (m, n, k): (usize, usize, usize),
    count: usize,
    (row, column, batch): Strides,
    more: fn(Matmul<'_, f16, U>) -> Matmul<'_, f16, U>,
    expected: fn(f64) -> f64,
) {
    let (a, b) = (whole(count * m * k, 1), whole(count * n * k, 2));
    let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let [values_a, values_b] = [&a, &b].map(|values| values.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
    let sums: Vec<f64> = (0..count * m * n)
        .map(|i| {
            let (batch_of, row_of, column_of) = (i / (m * n), i / n % m, i % n);
            dot(
                &values_a[(batch_of * m + row_of) * k..][..k],
                &values_b[(batch_of * n + column_of) * k..][..k],
            )
        })
        .collect();
    let len = (m - 1) * row + (n - 1) * column + (count - 1) * batch + 1;
    let mut c = device.alloc_uninit::<U>(len + 7).unwrap();
    let named =
        ["wgmma_f16_tn", "wgmma_f16_tn_64x64", "wgmma_f16_tn_64x64_k2"].map(|kernel| (None, Some(kernel)));
    let named = named.into_iter().filter(|_| has_wgmma(device));
    for (splits, kernel) in [(Some(1), None), (Some(3), None)].into_iter().chain(named) {
        c.fill_bytes(0xFF).unwrap();
        let product = Matmul::new(
            Matrix::row_major(&device_a, m, k).unwrap(),
            Matrix::col_major(&device_b, k, n).unwrap(),
        );
        let mut product = more(product).batch(count, [m * k, n * k, batch]);
        if let Some(splits) = splits {
            product = product.split_k(splits);
        }
        if let Some(kernel) = kernel {
            product = product.kernel(kernel);
        }
        product.run(device, &mut MatrixMut::new(&mut c, m, n, (row, column)).unwrap()).unwrap();
        let what = format!(
            "{count} of {m} x {n} x {k}, {row}, {column} and {batch} apart, in {splits:?} parts by {kernel:?}, on {}",
            device.name()
        );
        let mut wanted = vec![None; len + 7];
        for (i, &sum) in sums.iter().enumerate() {
            let (batch_of, row_of, column_of) = (i / (m * n), i / n % m, i % n);
            wanted[batch_of * batch + row_of * row + column_of * column] = Some(expected(sum));
        }
        for (at, (got, want)) in c.download().unwrap().into_iter().zip(wanted).enumerate() {
            let got: f64 = got.into();
            match want {
                Some(want) => assert_eq!(got, want, "element {at} of {what}"),
                None => assert!(got.is_nan(), "{what}: {got} was written at {at}, between the elements of C"),
            }
        }
    }
}

#[test]
fn batches_of_c_may_be_between_its_rows() {
    for device in devices() {
        for (shape, count) in [((70, 64, 136), 3), ((130, 264, 136), 2), ((33, 20, 200), 5), ((9, 7, 192), 4)]
        {
            let (m, n, _) = shape;
            // The simulator takes long for more than one large tile, and two shapes are ragged
            // alike.
            if !device.is_gpu() && (m > 128 || m == 33) {
                continue;
            }
            // (M, B, N) without a gap and with one, and with M contiguous.
            let all = [(count * n, 1, n), (count * n + 8, 1, n), (count * (n + 3), 1, n + 3)];
            for (turn, strides) in all.into_iter().enumerate() {
                check::<f32>(&device, shape, count, strides, |product| product, |sum| sum);
                // On the simulator, one of them.
                if !in_turn(&device, turn + m % 3, 3) {
                    continue;
                }
                check::<f16>(&device, shape, count, strides, |product| product, |sum| sum);
                check::<f32>(
                    &device,
                    shape,
                    count,
                    strides,
                    |product| product.alpha(2.0).relu(),
                    |sum| (2.0 * sum).max(0.0),
                );
            }
            check::<f32>(&device, shape, count, (1, count * m, m), |product| product, |sum| sum);
            // Adjacent elements of a row belong to different batches.
            check::<f32>(&device, shape, count, (count * n, count, 1), |product| product, |sum| sum);
        }
    }
}

#[test]
fn no_element_of_nothing_is_far_away() {
    let device = Device::sim();
    let nothing = device.upload(&[0f32; 1]).unwrap();
    let mut c = device.upload(&[f32::NAN; 12]).unwrap();
    let (a, b) = (Matrix::row_major(&nothing, 2, 0).unwrap(), Matrix::row_major(&nothing, 0, 2).unwrap());
    let product = Matmul::new(a, b).batch(3, [usize::MAX / 2, usize::MAX, 4]);
    product.run(&device, &mut MatrixMut::row_major(&mut c, 2, 2).unwrap()).unwrap();
    assert_eq!(c.download().unwrap(), [0.0; 12], "sums of no products");
}

#[test]
fn k_has_no_more_parts_than_a_grid_has_blocks_along_y() {
    let device = Device::sim();
    // Stages of 16, each a separate slice if that were possible.
    let k = 16 * 70_000;
    let data = device.upload(&vec![1f32; k]).unwrap();
    let mut c = device.alloc_zeroed::<f32>(1).unwrap();
    let (a, b) = (Matrix::row_major(&data, 1, k).unwrap(), Matrix::col_major(&data, k, 1).unwrap());
    let product = Matmul::new(a, b).split_k(70_000);
    let plan = product.explain(&device, &mut MatrixMut::row_major(&mut c, 1, 1).unwrap()).unwrap();
    assert!((2..=65_535).contains(&plan.splits), "{} parts", plan.splits);
}

#[rstest]
fn more_batches_than_a_grid_has_blocks_along_y_on_a_gpu(
    #[values("f32", "f16", "f64")] elements: &str,
    #[values(1, 2)] splits: u32,
) {
    let Some(device) = crate::common::gpu() else { return };
    // K has two slices of one stage each.
    let (count, k) = (65_600, if elements == "f16" { 128 } else { 32 });
    let numbers: Vec<f32> = (0..count * k).map(|i| (i % 7) as f32).collect();
    let sum = |batch: usize| -> f64 {
        numbers[batch * k..(batch + 1) * k].iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() + 3.0
    };
    macro_rules! of {
        ($t:ty, $u:ty, $number:expr) => {{
            let data = device.upload(&numbers.iter().map(|&x| $number(x)).collect::<Vec<$t>>()).unwrap();
            let bias = device.upload(&[<$u>::from(3u8)]).unwrap();
            let mut c = device.alloc_uninit::<$u>(count).unwrap();
            c.fill_bytes(0xFF).unwrap();
            let (a, b) = (Matrix::row_major(&data, 1, k).unwrap(), Matrix::col_major(&data, k, 1).unwrap());
            let product = Matmul::new(a, b).batch(count, [k, k, 1]).bias(&bias).split_k(splits);
            let plan = product.explain(&device, &mut MatrixMut::row_major(&mut c, 1, 1).unwrap()).unwrap();
            assert_eq!(plan.splits, splits, "parts of K");
            product.run(&device, &mut MatrixMut::row_major(&mut c, 1, 1).unwrap()).unwrap();
            for (batch, got) in c.download().unwrap().into_iter().enumerate() {
                assert_eq!(f64::from(got), sum(batch), "batch {batch} of {elements}, {splits} parts");
            }
        }};
    }
    match elements {
        "f32" => of!(f32, f32, |x| x),
        "f16" => of!(f16, f32, f16::from_f32),
        "f64" => of!(f64, f64, f64::from),
        other => unreachable!("{other} is not a case"),
    }
}
