//! Reductions of special values.

use moye::operation::Declaration;
use moye::{Device, Element, Matrix, MatrixMut};
use moye_rows::reduce::{ARG_MAX, ARG_MIN, LOG_SUM_EXP, MAX, MIN, Reduce, VAR};

/// The result of each of `rows` rows of f32.
fn reduced<U: Element>(declaration: &'static Declaration, rows: usize, x: &[f32]) -> moye::Result<Vec<U>> {
    let device = Device::sim();
    let x = device.upload(x)?;
    let mut y = device.alloc_uninit::<U>(rows)?;
    let of = Reduce::new(declaration, Matrix::row_major(&x, rows, x.len() / rows)?).axis(1);
    of.run(&device, &mut MatrixMut::row_major(&mut y, rows, 1)?)?;
    y.download()
}

#[test]
fn nan_is_the_extreme_and_argmax_finds_the_first_of_equal_elements() {
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

#[test]
fn rows_without_elements_have_the_results_of_numpy() {
    use moye_rows::reduce::{LOG_SUM_EXP, MAX, MEAN, NORM, SUM, VAR};
    let of = |declaration| reduced::<f32>(declaration, 3, &[]).map_err(|error| error.to_string());
    assert_eq!((of(&SUM), of(&NORM)), (Ok(vec![0.0; 3]), Ok(vec![0.0; 3])));
    assert_eq!(of(&LOG_SUM_EXP), Ok(vec![f32::NEG_INFINITY; 3]));
    assert!([&MEAN, &VAR].iter().all(|of_none| of(of_none).unwrap().iter().all(|y| y.is_nan())));
    assert!(of(&MAX).unwrap_err().contains("no elements have no max"));
}

#[test]
fn logsumexp_and_variance_keep_their_digits_far_from_zero_and_at_infinity() {
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
