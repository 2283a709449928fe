//! Activations of values far from zero, infinities and NaN, with every kernel, with split-K, and
//! with `alpha`.

use crate::Setup;
use crate::asked;
use crate::case::Scaled;
use crate::common::devices;
use crate::common::product::Number;
use crate::each_kernel::orders;
use half::{bf16, f16};
use moye::kernels::mma::Activation;
use moye::number::{F8E4M3, F8E5M2, Scalar, Tf32};
use moye::{Device, Matmul, Matrix, MatrixMut, Output};

/// Two values of each power of two suffice for a formula: these are around the limits of its parts.
const VALUES: [f64; 32] = [
    f64::NEG_INFINITY,
    f64::INFINITY,
    f64::NAN,
    -1e300,
    -1.7e308,
    1e300,
    -3e38,
    3e38,
    -1e30,
    -60000.0,
    -800.0,
    -745.0,
    -720.0,
    -700.0,
    -144.0,
    -104.0,
    -100.0,
    -90.0,
    -88.0,
    -87.0,
    -44.0,
    -20.0,
    -17.0,
    -10.25,
    -10.0,
    -8.0,
    -1.0,
    -0.125,
    0.0,
    0.5,
    12.0,
    96.0,
];

/// An activation's value in float64, and the number of units that the exponential inside may add to
/// the error.
fn expected(activation: Activation, x: f64) -> (f64, f64) {
    let t = match activation {
        Activation::Gelu => {
            // `erfc` in f64 is subnormal when the result in f64 nearly is.
            let want = 0.5 * x.max(-1e9) * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
            // Below this range the result is 0.
            let below = x.clamp(-40.0, 0.0);
            return (want, 2.0 * below * below);
        }
        Activation::GeluTanh => 1.595_769_121_605_731 * (x + 0.044_715 * x.powi(3)),
        Activation::Silu => x,
        _ => return (if x < 0.0 { 0.0 } else { x }, 0.0),
    };
    if x.is_nan() || x >= 0.0 {
        return (x / (1.0 + (-t).exp()), 0.0);
    }
    // Computed from the root of the exponential, which becomes subnormal after the result does.
    let t = t.max(-1600.0);
    let root = (0.5 * t).exp();
    (x.max(f64::MIN) * root * root / (1.0 + t.exp()), 4.0 * t.abs())
}

/// The float's rounding error and its smallest value.
fn steps<U: moye::Element>() -> (f64, f64) {
    match U::NAME {
        "f16" => (2f64.powi(-11), 2f64.powi(-24)),
        "bf16" => (2f64.powi(-8), 2f64.powi(-133)),
        "f32" => (2f64.powi(-24), 2f64.powi(-149)),
        _ => (f64::EPSILON / 2.0, f64::from_bits(1)),
    }
}

/// Every column of C is `alpha` times one of [`VALUES`], in the type T: A has leading ones, and B
/// has the values there.
fn check<T: Scaled + Number + Scalar, U: Output<T> + Number + Scalar>(
    device: &Device,
    kernel: Option<&'static str>,
    splits: Option<u32>,
    alpha: f64,
    activation: Activation,
    setup: Setup<T, U>,
) {
    // Slices of 16 or more. The simulator takes longest for products of f32.
    let k = if size_of::<T>() == 4 && !device.is_gpu() { 72 } else { 264 };
    let (m, n) = (16, VALUES.len());
    let [of_a, of_b, of_c] =
        orders(kernel.unwrap_or("tn"), 0).map(|order| move |rows, cols| order.strides(rows, cols));
    let (strides_a, strides_b, strides_c) = (of_a(m, k), of_b(k, n), of_c(m, n));
    let (mut a, mut b) = (vec![T::nearest(0.0); m * k], vec![T::nearest(0.0); k * n]);
    (0..m).for_each(|row| a[row * strides_a.0] = T::nearest(1.0));
    // Values that tf32 also represents, so that tensor cores are exact.
    let values = VALUES.map(|value| {
        if <T as moye::Element>::NAME == "f32" {
            T::nearest(Tf32::nearest(value).to_f64())
        } else {
            T::nearest(value)
        }
    });
    (0..n).for_each(|column| b[column * strides_b.1] = values[column]);
    let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut c = device.alloc_uninit::<U>(m * n).unwrap();
    let mut product = setup(Matmul::new(
        Matrix::new(&a, m, k, strides_a).unwrap(),
        Matrix::new(&b, k, n, strides_b).unwrap(),
    ))
    .try_alpha(alpha)
    .unwrap()
    .activation(activation);
    if let Some(kernel) = kernel {
        product = product.kernel(kernel);
    }
    if let Some(splits) = splits {
        product = product.split_k(splits);
    }
    product.run(device, &mut MatrixMut::new(&mut c, m, n, strides_c).unwrap()).unwrap();
    let c = c.download().unwrap();
    let (rounding, smallest) = steps::<U>();
    let inner = if <T as moye::Element>::NAME == "f64" { f64::EPSILON } else { f64::from(f32::EPSILON) };
    for at in 0..m * n {
        let (row, column) = (at / n, at % n);
        let value = alpha * values[column].to_f64();
        // Accumulators are f32 except for f64, and overflow to infinity.
        let value = if <T as moye::Element>::NAME == "f64" { value } else { f64::from(value as f32) };
        let (want, units) = expected(activation, value);
        let got = c[row * strides_c.0 + column * strides_c.1].to_f64();
        let bound = want.abs() * (rounding + (12.0 + units) * inner) + smallest;
        let rounded = U::nearest(want).to_f64();
        let right = if rounded.is_finite() {
            (got - want).abs() <= bound
        } else {
            got == rounded || got.is_nan() && rounded.is_nan()
        };
        let sign = got != 0.0
            || value == 0.0
            || activation == Activation::Relu
            || got.is_sign_negative() == (value < 0.0);
        assert!(
            right && sign,
            "{activation:?} of {value:e} is {got:e}, expected {want:e}: {} to {} by {kernel:?} in {splits:?} parts, alpha {alpha}, on {}",
            <T as moye::Element>::NAME,
            <U as moye::Element>::NAME,
            device.name()
        );
    }
}

fn activations<T: Scaled + Number + Scalar, U: Output<T> + Number + Scalar>(setup: Setup<T, U>) {
    for device in devices() {
        let kernels = asked(setup, &device, |product, device| product.kernels(device));
        for (i, &kernel) in kernels.iter().enumerate() {
            // Each activation with each kernel in turn, and on a GPU all with all.
            let all = [Activation::Silu, Activation::GeluTanh, Activation::Gelu, Activation::Relu];
            for &activation in if device.is_gpu() { &all[..] } else { &all[i % 3..=i % 3] } {
                check(&device, Some(kernel), None, 1.0, activation, setup);
            }
        }
        if kernels.is_empty() {
            continue;
        }
        for (alpha, splits) in [
            (1.0, Some(3)),
            (-0.5, None),
            (2.0, Some(2)),
            (f64::INFINITY, Some(1)),
            (f64::NEG_INFINITY, Some(4)),
        ] {
            for activation in [Activation::Silu, Activation::GeluTanh, Activation::Gelu, Activation::Relu] {
                check(&device, None, splits, alpha, activation, setup);
            }
        }
    }
}

macro_rules! types {
    ($($name:ident: $t:ty => $u:ty, $setup:expr;)+) => { $(
        #[test]
        fn $name() {
            activations::<$t, $u>($setup);
        }
    )+ };
}
types! {
    of_f16_have_their_limits: f16 => f16, |product| product;
    of_f16_to_f32_have_their_limits: f16 => f32, |product| product;
    of_f16_summed_in_f16_have_their_limits: f16 => f16, |product| product.f16_accumulators();
    of_bf16_have_their_limits: bf16 => bf16, |product| product;
    of_bf16_to_f32_have_their_limits: bf16 => f32, |product| product;
    of_f32_have_their_limits: f32 => f32, |product| product;
    of_tf32_have_their_limits: f32 => f32, |product| product.tf32();
    of_f64_have_their_limits: f64 => f64, |product| product;
    of_e4m3_have_their_limits: F8E4M3 => bf16, |product| product;
    of_e4m3_to_f32_have_their_limits: F8E4M3 => f32, |product| product;
    of_e5m2_have_their_limits: F8E5M2 => bf16, |product| product;
    of_e5m2_to_f32_have_their_limits: F8E5M2 => f32, |product| product;
}
