//! With an `alpha` or K of 0 the product is dropped: nothing of A, B and their scales reaches C,
//! for every kernel, with split-K, batches, a bias and an activation. `beta * c` keeps its bits.

use crate::Setup;
use crate::asked;
use crate::case::{Order, Scaled};
use crate::common::devices;
use crate::common::product::Number;
use crate::each_kernel::orders;
use half::{bf16, f16};
use moye::kernels::mma::Activation;
use moye::number::{F8E4M3, F8E5M2, Scalar};
use moye::{Device, Matmul, Matrix, MatrixMut, Output};

/// M and N: more than a block of the epilogue kernel in both modes, and multiples of 16 bytes,
/// which TMA requires of contiguous modes.
const EXTENTS: (usize, usize) = (24, 144);
const BATCHES: usize = 2;

/// A product whose A and B consist of one repeated byte, and its expected result.
#[derive(Clone, Copy, Debug)]
struct Case {
    k: usize,
    /// The byte of A, B and the scales.
    byte: u8,
    alpha: f64,
    beta: f64,
    bias: bool,
    relu: bool,
    splits: Option<u32>,
    kernel: Option<&'static str>,
    orders: [Order; 3],
}

/// Runs the case; every element of C must have the value and the sign of `relu(beta * c + bias)`.
fn check<T: Scaled + Number, U: Output<T> + Number + Scalar>(
    device: &Device,
    case: Case,
    setup: Setup<T, U>,
) {
    let Case { k, byte, alpha, beta, .. } = case;
    let (m, n) = EXTENTS;
    let extents = [(m, k), (k, n), (m, n)];
    let strides: [_; 3] = std::array::from_fn(|i| case.orders[i].strides(extents[i].0, extents[i].1));
    let spans: [_; 3] = std::array::from_fn(|i| match (extents[i], strides[i]) {
        ((0, _) | (_, 0), _) => 0,
        ((rows, cols), (row, col)) => (rows - 1) * row + (cols - 1) * col + 1,
    });
    // All kinds of values, -0 first; integers have no infinity.
    let special = if T::SMOOTH { [f64::NAN, f64::INFINITY] } else { [9.0, -9.0] };
    let number = |i: usize| U::nearest([-0.0, 0.0, 5.0, -3.0, 0.5, special[0], special[1], 1.0][i % 8]);
    let finite = |i: usize| U::nearest([2.0, -4.0, 0.0][i % 3]);
    let before: Vec<U> = (0..BATCHES * spans[2]).map(number).collect();
    let of_bias: Vec<U> = (0..n).map(finite).collect();

    let filled = |len: usize| {
        let mut buffer = device.alloc_uninit::<T>(len).unwrap();
        buffer.fill_bytes(byte).unwrap();
        buffer
    };
    let (a, b) = (filled(BATCHES * spans[0]), filled(BATCHES * spans[1]));
    let mut scale = device.alloc_uninit::<f32>(1).unwrap();
    scale.fill_bytes(byte).unwrap();
    let bias = device.upload(&of_bias).unwrap();
    let mut c = device.upload(&before).unwrap();
    let what = || {
        format!(
            "{case:?} of {} to {} on {}",
            <T as moye::Element>::NAME,
            <U as moye::Element>::NAME,
            device.name()
        )
    };

    let mut product = setup(Matmul::new(
        Matrix::new(&a, m, k, strides[0]).unwrap(),
        Matrix::new(&b, k, n, strides[1]).unwrap(),
    ));
    product = T::scaled(product, [Some(&scale), Some(&scale)]);
    product = product.batch(BATCHES, spans).try_alpha(alpha).unwrap().try_beta(beta).unwrap();
    if case.bias {
        product = product.bias(&bias);
    }
    if case.relu {
        product = product.activation(Activation::Relu);
    }
    if let Some(splits) = case.splits {
        product = product.split_k(splits);
    }
    if let Some(kernel) = case.kernel {
        product = product.kernel(kernel);
    }
    {
        let mut c = MatrixMut::new(&mut c, m, n, strides[2]).unwrap();
        let plan = product.explain(device, &mut c).unwrap_or_else(|error| panic!("{}: {error}", what()));
        assert_eq!((plan.kernel, plan.rearranged), (None, [false; 2]), "{}: nothing is multiplied", what());
        product.run(device, &mut c).unwrap();
    }
    let c = c.download().unwrap();
    for at in 0..BATCHES * m * n {
        let (batch, row, col) = (at / (m * n), at / n % m, at % n);
        let place = batch * spans[2] + row * strides[2].0 + col * strides[2].1;
        let mut want = if beta == 0.0 { 0.0 } else { beta * before[place].to_f64() };
        if case.bias {
            want += of_bias[col].to_f64();
        }
        if case.relu && want < 0.0 {
            want = 0.0;
        }
        let got = c[place].to_f64();
        // Integers have no -0, and values that they cannot represent were drawn as 0.
        let same = got == want && (got.is_sign_negative() == want.is_sign_negative() || !T::SMOOTH);
        assert!(
            same || got.is_nan() && want.is_nan(),
            "{}: ({row}, {col}) of batch {batch} is {got}, expected {want}",
            what()
        );
    }
}

/// Bytes whose repetition is NaN in all floats (-1 in i8), and one that is near the limit of the
/// range of most.
const BYTES: [u8; 2] = [0xFF, 0x7F];

fn alpha_of_zero<T: Scaled + Number, U: Output<T> + Number + Scalar>(setup: Setup<T, U>) {
    for device in devices() {
        let kernels = asked(setup, &device, |product, device| product.kernels(device));
        let case = Case {
            k: 200,
            byte: 0xFF,
            alpha: 0.0,
            beta: 1.0,
            bias: false,
            relu: false,
            splits: None,
            kernel: None,
            orders: [Order::Rows(0), Order::Columns(0), Order::Rows(0)],
        };
        for (i, &kernel) in kernels.iter().enumerate() {
            // The epilogue in registers, by rows, with and without vectors, and in a separate
            // kernel.
            for (bias, relu, beta, between) in
                [(false, false, 1.0, 0), (true, false, 0.0, 16), (true, true, -2.0, 3), (false, true, 1.0, 5)]
            {
                let alpha = [0.0, -0.0][(i + between) % 2];
                let of_kernel = Case {
                    alpha,
                    beta,
                    bias,
                    relu,
                    kernel: Some(kernel),
                    byte: BYTES[i % 2],
                    orders: orders(kernel, between),
                    ..case
                };
                check(&device, of_kernel, setup);
            }
        }
        if kernels.is_empty() {
            continue;
        }
        // Split-K, operands that would be rearranged first, a C that is written through a
        // workspace.
        for (i, splits) in [None, Some(1), Some(3)].into_iter().enumerate() {
            for orders in [
                [Order::Rows(1), Order::Columns(3), Order::Columns(0)],
                [Order::Columns(1), Order::Rows(1), Order::Scattered],
                [Order::Scattered, Order::Scattered, Order::Rows(2)],
            ] {
                for beta in [0.0, 1.0, -2.0] {
                    let alpha = [0.0, -0.0][i % 2];
                    check(
                        &device,
                        Case {
                            k: 900,
                            alpha,
                            beta,
                            splits,
                            orders,
                            bias: beta != 1.0,
                            byte: BYTES[i % 2],
                            ..case
                        },
                        setup,
                    );
                }
            }
        }
    }
}

fn k_of_zero<T: Scaled + Number, U: Output<T> + Number + Scalar>(alphas: &[f64], setup: Setup<T, U>) {
    for device in devices() {
        if asked(setup, &device, |product, device| product.kernels(device)).is_empty() {
            continue;
        }
        for &alpha in alphas {
            for (i, of_c) in [Order::Rows(0), Order::Columns(1), Order::Scattered].into_iter().enumerate() {
                for beta in [0.0, 1.0, -2.0] {
                    let case = Case {
                        k: 0,
                        byte: 0xFF,
                        alpha,
                        beta,
                        bias: i == 1,
                        relu: i == 2,
                        splits: [None, Some(3)][i % 2],
                        kernel: None,
                        orders: [Order::Rows(0), Order::Columns(0), of_c],
                    };
                    check(&device, case, setup);
                }
            }
        }
    }
}

macro_rules! types {
    ($($name:ident: $t:ty => $u:ty, $alphas:expr, $setup:expr;)+) => { $(
        mod $name {
            use super::*;

            #[test]
            fn has_no_product_where_alpha_is_zero() {
                alpha_of_zero::<$t, $u>($setup);
            }

            #[test]
            fn has_no_product_where_k_is_zero_whatever_alpha_is() {
                k_of_zero::<$t, $u>(&$alphas, $setup);
            }
        }
    )+ };
}
const ANY: [f64; 5] = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1.0, 0.0];
types! {
    half_f16: f16 => f16, ANY, |product| product;
    half_f16_to_f32: f16 => f32, ANY, |product| product;
    half_f16_accumulators: f16 => f16, ANY, |product| product.f16_accumulators();
    half_bf16: bf16 => bf16, ANY, |product| product;
    half_bf16_to_f32: bf16 => f32, ANY, |product| product;
    single: f32 => f32, ANY, |product| product;
    single_tf32: f32 => f32, ANY, |product| product.tf32();
    double: f64 => f64, ANY, |product| product;
    bytes: i8 => i32, [3.0, -1.0, 0.0], |product| product;
    float8_e4m3: F8E4M3 => bf16, ANY, |product| product;
    float8_e4m3_to_f32: F8E4M3 => f32, ANY, |product| product;
    float8_e5m2: F8E5M2 => bf16, ANY, |product| product;
    float8_e5m2_to_f32: F8E5M2 => f32, ANY, |product| product;
}

#[test]
fn sums_that_overflow_count_for_nothing_times_zero() {
    for device in devices() {
        let large = device.upload(&[3e38f32; 64]).unwrap();
        for (alpha, beta, want) in [(0.0, 1.0, 5.0), (-0.0, 2.0, 10.0), (0.0, 0.0, 0.0)] {
            let mut c = device.upload(&[5.0f32]).unwrap();
            let (a, b) =
                (Matrix::row_major(&large, 1, 64).unwrap(), Matrix::row_major(&large, 64, 1).unwrap());
            let product = Matmul::new(a, b).alpha(alpha).beta(beta);
            product.run(&device, &mut MatrixMut::row_major(&mut c, 1, 1).unwrap()).unwrap();
            assert_eq!(c.download().unwrap(), [want], "alpha {alpha}, beta {beta} on {}", device.name());
        }
    }
}

#[test]
fn an_alpha_that_is_not_a_number_makes_all_of_c_so() {
    for device in devices() {
        let ones = device.upload(&[1f32; 16]).unwrap();
        let mut c = device.alloc_zeroed::<f32>(16).unwrap();
        let matrix = || Matrix::row_major(&ones, 4, 4).unwrap();
        let product = Matmul::new(matrix(), matrix()).alpha(f32::NAN);
        product.run(&device, &mut MatrixMut::row_major(&mut c, 4, 4).unwrap()).unwrap();
        assert!(c.download().unwrap().iter().all(|x| x.is_nan()), "on {}", device.name());
    }
}

#[test]
fn what_is_wrong_with_the_operands_is_said_though_alpha_is_zero() {
    let device = Device::sim();
    let data = device.upload(&[1f32; 16]).unwrap();
    let mut c = device.alloc_zeroed::<f32>(16).unwrap();
    let (a, b) = (Matrix::row_major(&data, 4, 3).unwrap(), Matrix::row_major(&data, 4, 4).unwrap());
    let error = Matmul::new(a, b)
        .alpha(0.0)
        .run(&device, &mut MatrixMut::row_major(&mut c, 4, 4).unwrap())
        .unwrap_err();
    assert!(error.to_string().contains("a is 4x3 and b is 4x4"), "{error}");
}
