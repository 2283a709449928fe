//! Requests that cannot be computed are refused before any launch, with the values.

use moye::{Device, Matmul, Matrix, MatrixMut};
use rstest::rstest;

/// The message of the error of a product of a 3 x 4 `a` and a 4 x 5 `b`, modified by `change`.
fn error_of(change: impl for<'a> Fn(Matmul<'a, f32>, &'a moye::Buffer<f32>) -> Matmul<'a, f32>) -> String {
    let device = Device::sim();
    let data = device.upload(&[1.0f32; 64]).unwrap();
    let (a, b) = (Matrix::row_major(&data, 3, 4).unwrap(), Matrix::row_major(&data, 4, 5).unwrap());
    let mut c = device.alloc_zeroed::<f32>(64).unwrap();
    let mut c = MatrixMut::row_major(&mut c, 3, 5).unwrap();
    change(Matmul::new(a, b), &data).run(&device, &mut c).unwrap_err().to_string()
}

#[test]
fn shapes_that_do_not_fit() {
    let error = error_of(|product, _| product.transpose_a());
    assert!(error.contains("a is 4x3 and b is 4x5"), "{error}");
}

#[test]
fn a_bias_of_another_length() {
    let error = error_of(|product, data| product.bias(data.slice(..4).unwrap()));
    assert!(error.contains("the bias has 4 elements, and c has 5 columns"), "{error}");
    let error = error_of(|product, data| product.bias_rows(data));
    assert!(error.contains("the bias has 64 elements, and c has 3 rows"), "{error}");
}

#[rstest]
#[case([60, 0, 15], "2 batches of a, 60 elements apart, need 72 elements, but it has 64")]
#[case([12, 50, 15], "2 batches of b, 50 elements apart, need 70 elements, but it has 64")]
#[case([12, 20, 50], "2 batches of c, 50 elements apart, need 65 elements, but it has 64")]
#[case([12, 20, 14], "batches of c are 14 elements apart, its rows 5 and its columns 1, and each batch reaches over 15: they may not overlap")]
fn batches_that_do_not_fit(#[case] strides: [usize; 3], #[case] want: &str) {
    let error = error_of(|product, _| product.batch(2, strides));
    assert!(error.contains(want), "{error}");
}

#[test]
fn a_tile_that_no_kernel_has() {
    let error = error_of(|product, _| product.tile(7, 9));
    let expected = "no kernel for f32 in Full precision has a tile of 7 x 9 and fits into the ";
    assert!(
        error.contains(expected) && error.ends_with("; there are 128 x 128, 128 x 256, 256 x 128"),
        "{error}"
    );
}

#[test]
fn a_tile_whose_kernels_have_k_in_two_parts_at_most_takes_no_more_of_them() {
    let device = Device::sim();
    let data = device.upload(&[half::f16::ONE; 128 * 512]).unwrap();
    let mut c = device.alloc_zeroed::<half::f16>(128 * 128).unwrap();
    let mut c = MatrixMut::row_major(&mut c, 128, 128).unwrap();
    for (k, splits, kernel, parts) in [
        (512, 1, "wgmma_f16_tn_64x128", 1),
        (512, 2, "wgmma_f16_tn_64x128_k2", 2),
        (512, 3, "wgmma_f16_tn_64x128_k2", 2),
        // One stage of K cannot be split.
        (64, 2, "wgmma_f16_tn_64x128", 1),
    ] {
        let (a, b) = (Matrix::row_major(&data, 128, k).unwrap(), Matrix::col_major(&data, k, 128).unwrap());
        let plan = Matmul::new(a, b).tile(64, 128).split_k(splits).explain(&device, &mut c).unwrap();
        assert_eq!((plan.kernel, plan.splits), (Some(kernel), parts), "{k} in {splits}");
    }
}

#[test]
fn a_tile_and_parts_of_k_that_no_kernel_has_are_both_in_the_error() {
    let error = error_of(|product, _| product.tile(7, 9).split_k(3));
    let expected =
        "no kernel for f32 in Full precision has a tile of 7 x 9, has 3 split-K slices and fits into the ";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn an_exponential_of_integers() {
    let device = Device::sim();
    let data = device.upload(&[1i8; 4]).unwrap();
    let matrix = || Matrix::row_major(&data, 2, 2).unwrap();
    let mut c = device.alloc_zeroed::<i32>(4).unwrap();
    let mut c = MatrixMut::row_major(&mut c, 2, 2).unwrap();
    let error = Matmul::new(matrix(), matrix()).gelu().run(&device, &mut c).unwrap_err().to_string();
    assert!(error.contains("Gelu is not defined for integers; use `relu`"), "{error}");
}

#[rstest]
#[case(1e39)]
#[case(-3.5e38)]
#[case(1e-50)]
#[case(-5e-324)]
fn factors_that_f32_has_as_infinity_or_zero(#[case] value: f64) {
    fn refused<T: moye::Operand, U: moye::Output<T>>(value: f64) {
        let device = Device::sim();
        let data = device.alloc_zeroed::<T>(4).unwrap();
        let product = || {
            Matmul::<T, U>::new(
                Matrix::row_major(&data, 2, 2).unwrap(),
                Matrix::row_major(&data, 2, 2).unwrap(),
            )
        };
        let takes = format!(
            "{value:?}, and products of {} take a float of 32 bits, which is 0 or from 1.4e-45 to 3.4e38 in magnitude; scale the \
             matrices instead, or convert them to floats of 64 bits",
            T::NAME
        );
        assert_eq!(
            product().try_alpha(value).map(|_| ()).unwrap_err().to_string(),
            format!("alpha is {takes}")
        );
        assert_eq!(
            product().try_beta(value).map(|_| ()).unwrap_err().to_string(),
            format!("beta is {takes}")
        );
    }
    refused::<f32, f32>(value);
    refused::<half::f16, half::f16>(value);
    refused::<half::bf16, f32>(value);
    refused::<moye::number::F8E4M3, f32>(value);
    refused::<moye::number::F8E5M2, half::bf16>(value);
}

#[test]
fn factors_that_integers_do_not_have() {
    let device = Device::sim();
    let data = device.upload(&[1i8; 4]).unwrap();
    let product = || {
        Matmul::<i8, i32>::new(
            Matrix::row_major(&data, 2, 2).unwrap(),
            Matrix::row_major(&data, 2, 2).unwrap(),
        )
    };
    for value in [0.5, 2147483648.0, f64::NAN, f64::NEG_INFINITY] {
        let error = product().try_beta(value).map(|_| ()).unwrap_err().to_string();
        let expected = format!(
            "beta is {value:?}, and products of i8 take a whole number of 32 bits, from -2147483648 to 2147483647; convert the"
        );
        assert!(error.starts_with(&expected), "{error}");
    }
    assert!(product().try_alpha(-2147483648.0).is_ok());
}

#[test]
fn a_bias_of_another_device() {
    let (device, other) = (Device::sim(), Device::sim());
    let data = device.upload(&[1.0f32; 4]).unwrap();
    let bias = other.upload(&[1.0f32; 2]).unwrap();
    let matrix = || Matrix::row_major(&data, 2, 2).unwrap();
    let mut c = device.alloc_zeroed::<f32>(4).unwrap();
    let mut c = MatrixMut::row_major(&mut c, 2, 2).unwrap();
    let error = Matmul::new(matrix(), matrix()).bias(&bias).run(&device, &mut c).unwrap_err().to_string();
    assert!(error.contains("argument 3 is a buffer of"), "{error}");
}

#[test]
fn the_plan_can_be_asked_for() {
    let device = Device::sim();
    let data = device.upload(&[half::f16::ONE; 64 * 64]).unwrap();
    let (a, b) = (Matrix::row_major(&data, 64, 64).unwrap(), Matrix::row_major(&data, 64, 64).unwrap());
    let mut c = device.alloc_zeroed::<half::f16>(64 * 64).unwrap();
    let mut c = MatrixMut::row_major(&mut c, 64, 64).unwrap();
    let plan = Matmul::new(a, b.t()).tile(64, 64).split_k(1).explain(&device, &mut c).unwrap();
    assert_eq!((plan.kernel, plan.tile, plan.splits), (Some("wgmma_f16_tn_64x64"), (64, 64), 1));
    assert_eq!((plan.rearranged, plan.workspace_bytes), ([false; 2], 0));
}
