//! Every operation against its float64 reference: all cases, element types and memory layouts.

use moye::operation::harness;

macro_rules! that_of_float64 {
    ($($test:ident: $name:literal of $feature:literal;)+) => { $(
        #[cfg(feature = $feature)]
        #[test]
        fn $test() {
            let declaration = moye_rows::OPERATIONS.iter().find(|declaration| declaration.name == $name);
            harness::check(declaration.unwrap());
        }
    )+ };
}
that_of_float64! {
    softmax_is_that_of_float64: "softmax" of "softmax";
    log_softmax_is_that_of_float64: "log_softmax" of "softmax";
    rms_norm_is_that_of_float64: "rms_norm" of "norm";
    sum_is_that_of_float64: "sum" of "reduce";
    mean_is_that_of_float64: "mean" of "reduce";
    norm_is_that_of_float64: "norm" of "reduce";
    max_is_that_of_float64: "max" of "reduce";
    min_is_that_of_float64: "min" of "reduce";
    logsumexp_is_that_of_float64: "logsumexp" of "reduce";
    var_is_that_of_float64: "var" of "reduce";
    argmax_is_that_of_float64: "argmax" of "reduce";
    argmin_is_that_of_float64: "argmin" of "reduce";
    topk_is_that_of_a_sort: "topk" of "topk";
    sample_draws_what_the_reference_draws_with_the_same_random_bits: "sample" of "sample";
    quantised_elements_and_scales_are_those_of_the_reference: "quantize" of "quantize";
    dequantize_is_that_of_float64: "dequantize" of "quantize";
    cumsum_is_that_of_float64: "cumsum" of "cumsum";
}

#[cfg(feature = "softmax")]
#[test]
fn integers_are_refused_with_the_operand_and_what_it_takes() {
    use moye::operation::{Array, ArrayType, Call, Dtype, Options};
    let x = |dtype| Some(Array::row_major(&ArrayType { dtype, shape: vec![2, 8] }, 4096));
    for declaration in [&moye_rows::softmax::SOFTMAX, &moye_rows::softmax::LOG_SOFTMAX] {
        let options = Options::of(declaration);
        let operands = [x(Dtype::I64), x(Dtype::I64)];
        let refused =
            declaration.check(&Call { operands: &operands, options: &options }).unwrap_err().to_string();
        let wanted = "x has elements of int64, and must have float32, float16 or bfloat16; convert it";
        assert!(refused.contains(wanted), "{refused}");
    }
}

/// The result of each of `rows` rows of f32.
#[cfg(feature = "reduce")]
fn reduced<U: moye::Element>(
    declaration: &'static moye::operation::Declaration,
    rows: usize,
    x: &[f32],
) -> moye::Result<Vec<U>> {
    use moye::{Device, Matrix, MatrixMut};
    let device = Device::sim();
    let x = device.upload(x)?;
    let mut y = device.alloc_uninit::<U>(rows)?;
    let of =
        moye_rows::reduce::Reduce::new(declaration, Matrix::row_major(&x, rows, x.len() / rows)?).axis(1);
    of.run(&device, &mut MatrixMut::row_major(&mut y, rows, 1)?)?;
    y.download()
}

#[cfg(feature = "reduce")]
#[test]
fn nan_is_the_extreme_and_argmax_finds_the_first_of_equal_elements() {
    use moye_rows::reduce::{ARG_MAX, ARG_MIN, MAX, MIN};
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let mut rows = [[0.0f32; 9000]; 5];
    (rows[0][700], rows[0][8100], rows[0][3]) = (nan, nan, inf);
    (rows[1][8999], rows[1][17], rows[1][18]) = (1.0, -1.0, 1.0);
    (rows[2][4000], rows[2][4001]) = (-0.0, 0.0);
    rows[3] = [-inf; 9000];
    rows[4] = [inf; 9000];
    let x = rows.as_flattened();
    assert_eq!(reduced::<i64>(&ARG_MAX, 5, x).unwrap(), [700, 18, 0, 0, 0]);
    assert_eq!(reduced::<i64>(&ARG_MIN, 5, x).unwrap(), [700, 17, 0, 0, 0]);
    let (max, min) = (reduced::<f32>(&MAX, 5, x).unwrap(), reduced::<f32>(&MIN, 5, x).unwrap());
    assert!(max[0].is_nan() && min[0].is_nan());
    assert_eq!((&max[1..], &min[1..]), (&[1.0, 0.0, -inf, inf][..], &[-1.0, 0.0, -inf, inf][..]));
}

#[cfg(feature = "reduce")]
#[test]
fn logsumexp_and_variance_keep_their_digits_far_from_zero_and_at_infinity() {
    use moye_rows::reduce::{LOG_SUM_EXP, VAR};
    let inf = f32::INFINITY;
    let x = [
        [500.0f32, 500.0, 500.0, 500.0],
        [-500.0; 4],
        [-inf; 4],
        [inf, 1.0, 2.0, 3.0],
        [-inf, -inf, -500.0, -inf],
    ];
    let got = reduced::<f32>(&LOG_SUM_EXP, 5, x.as_flattened()).unwrap();
    let log4 = 4f32.ln();
    assert_eq!((got[2], got[3], got[4]), (-inf, inf, -500.0));
    assert!((got[0] - 500.0 - log4).abs() < 1e-4 && (got[1] + 500.0 - log4).abs() < 1e-4, "{got:?}");
    let far: Vec<f32> = (0..20_000).map(|i| 1e4 + (i % 4) as f32).collect();
    let var = reduced::<f32>(&VAR, 1, &far).unwrap()[0];
    assert!((var - 1.25006).abs() < 1e-4, "{var}");
    assert!(reduced::<f32>(&VAR, 1, &[1.0]).unwrap()[0].is_nan(), "one element has no unbiased variance");
}

#[cfg(feature = "topk")]
#[test]
fn topk_has_nan_first_and_the_first_of_equal_elements_whatever_is_masked() {
    use moye::{Device, Matrix, MatrixMut};
    let device = Device::sim();
    // Masked but for 7 elements, 2,000 above all others, and NaN among zeros.
    let mut rows = [[f32::NEG_INFINITY; 4000]; 3];
    (0..7).for_each(|i| rows[0][500 * i + 3] = i as f32);
    rows[1] = std::array::from_fn(|i| if i % 2 == 0 { 1.0 + (i / 512) as f32 } else { 0.0 });
    rows[2] = [0.0; 4000];
    (rows[2][9], rows[2][3999], rows[2][5]) = (f32::NAN, f32::NAN, -0.0);
    let x = device.upload(rows.as_flattened()).unwrap();
    let mut values = device.alloc_uninit::<f32>(30).unwrap();
    let mut indices = device.alloc_uninit::<i64>(30).unwrap();
    let of = moye_rows::topk::TopK::new(Matrix::row_major(&x, 3, 4000).unwrap(), 10);
    let (to, at) = (MatrixMut::row_major(&mut values, 3, 10), MatrixMut::row_major(&mut indices, 3, 10));
    of.run(&device, &mut to.unwrap(), &mut at.unwrap()).unwrap();
    let (values, indices) = (values.download().unwrap(), indices.download().unwrap());
    assert_eq!(indices[..10], [3003, 2503, 2003, 1503, 1003, 503, 3, 0, 1, 2]);
    assert_eq!(values[..8], [6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0, f32::NEG_INFINITY]);
    assert_eq!(indices[10..20], [3584, 3586, 3588, 3590, 3592, 3594, 3596, 3598, 3600, 3602]);
    assert_eq!(indices[20..], [9, 3999, 0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(values[20].is_nan() && values[21].is_nan() && values[22..].iter().all(|&x| x == 0.0));
}

#[cfg(feature = "quantize")]
#[test]
fn nan_is_kept_by_floats_of_8_bits_and_does_not_change_the_scale() {
    use moye::number::F8E4M3;
    use moye::{Device, Matrix, MatrixMut};
    use moye_rows::quantize::{Quantize, Scale};
    let device = Device::sim();
    let x = device.upload(&[f32::NAN, 2.0, -4.0, 0.0, f32::NAN, 0.0]).unwrap();
    let of = Quantize::new(Matrix::row_major(&x, 2, 3).unwrap(), Scale::Row);
    let mut scales = device.alloc_uninit::<f32>(2).unwrap();
    let mut floats = device.alloc_uninit::<F8E4M3>(6).unwrap();
    let mut integers = device.alloc_uninit::<i8>(6).unwrap();
    let (to, by) = (MatrixMut::row_major(&mut floats, 2, 3), MatrixMut::row_major(&mut scales, 2, 1));
    of.run(&device, &mut to.unwrap(), &mut by.unwrap()).unwrap();
    assert_eq!(scales.download().unwrap(), [4.0 / 448.0, 1.0]);
    let floats: Vec<_> = floats.download().unwrap().into_iter().map(F8E4M3::to_f32).collect();
    assert!(floats[0].is_nan() && floats[4].is_nan());
    assert_eq!((floats[1], floats[2], floats[3]), (224.0, -448.0, 0.0));
    let (to, by) = (MatrixMut::row_major(&mut integers, 2, 3), MatrixMut::row_major(&mut scales, 2, 1));
    of.run(&device, &mut to.unwrap(), &mut by.unwrap()).unwrap();
    assert_eq!(integers.download().unwrap(), [0, 64, -127, 0, 0, 0]);
}
