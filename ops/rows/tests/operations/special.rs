//! NaN, infinities, and arrays without elements: results as in float64, or an error with the shape.

use moye::operation::{ArrayType, Axes, Case, Declaration, Dtype, Options, Value, harness};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// Rows with a NaN, each infinity, minus infinity beside finite elements and alone, and a finite
/// row.
#[rustfmt::skip]
const ROWS: &[f64] = &[
    NAN, 0.0, 1.0, 2.0,
    0.0, INF, 1.0, 2.0,
    0.0, -INF, 1.0, -INF,
    -INF, -INF, -INF, -INF,
    3.0, 1.0, 1.0, 2.0,
];
/// Ones and a NaN.
#[rustfmt::skip]
const ONES: &[f64] = &[
    1.0, 1.0, 1.0, 1.0,
    1.0, 1.0, 1.0, 1.0,
    1.0, 1.0, 1.0, 1.0,
    1.0, 1.0, 1.0, 1.0,
    1.0, 1.0, NAN, 1.0,
];
const ROW: &[(&str, Value)] = &[("axis", Value::Axes(Axes::new([-1])))];
const OF_X: &[(&str, &[f64])] = &[("x", ROWS)];
const OF_Y: &[(&str, &[f64])] = &[("y", ONES), ("dy", ROWS)];
const OF_X_AND_Y: &[(&str, &[f64])] = &[("x", ROWS), ("y", ONES)];
const OF_DY: &[(&str, &[f64])] = &[("x", ROWS), ("dy", ONES)];
/// The shape of the rows.
const M: Option<&[usize]> = Some(&[5, 4]);

const ONE: &[Case] = &[Case::new(&[M]).values(OF_X)];
const REDUCED: &[Case] = &[Case::new(&[M]).options(ROW).values(OF_X)];
const THREE: &[Case] = &[Case::new(&[M, None, None]).values(OF_X)];
const FOUR: &[Case] = &[Case::new(&[M, None, None, None]).values(OF_X)];
const ROTATED: &[Case] = &[Case::new(&[Some(&[5, 1, 4]), None, None, None]).values(OF_X)];
const BOTH: &[Case] = &[Case::new(&[M, M]).values(OF_X_AND_Y)];
const GRADIENT: &[Case] = &[Case::new(&[M, M, None, None]).values(OF_DY)];
const OF_SOFTMAX: &[Case] = &[Case::new(&[M, M]).values(OF_Y)];
const BINS: &[Case] = &[Case::new(&[M])
    .options(&[("low", Value::Float(0.0)), ("high", Value::Float(2.0)), ("bins", Value::Int(3))])
    .values(OF_X)];

/// Where PyTorch differs or has no counterpart, separate tests cover the other operations.
const SPECIAL: &[(&str, &[Case])] = &[
    ("add", BOTH),
    ("axpby", BOTH),
    ("cast", ONE),
    ("cumsum", ONE),
    ("histc", BINS),
    ("layer_norm", FOUR),
    ("layer_norm_backward", GRADIENT),
    ("log_softmax", THREE),
    ("mean", REDUCED),
    ("norm", REDUCED),
    ("rms_norm", THREE),
    ("rms_norm_backward", GRADIENT),
    ("rope", ROTATED),
    ("softmax", THREE),
    ("softmax_backward", OF_SOFTMAX),
    ("sum", REDUCED),
    ("var", REDUCED),
];

fn declared(name: &str) -> Option<&'static Declaration> {
    moye_rows::OPERATIONS.iter().copied().find(|declaration| declaration.name == name)
}

#[test]
fn nan_and_infinities_lead_to_what_float64_has() {
    for device in harness::devices() {
        for (name, cases) in SPECIAL {
            // Only enabled operations exist.
            let Some(declaration) = declared(name) else { continue };
            harness::check_on(&Declaration { cases, ..*declaration }, &device, |_| true);
        }
    }
}

/// Rows without elements; every operation has a case without rows.
const EMPTY: &[(&str, &[Case])] = &[
    ("axpby", &[Case::new(&[Some(&[3, 0]), Some(&[3, 0])])]),
    ("cumsum", &[Case::new(&[Some(&[3, 0])])]),
    ("full_like", &[Case::new(&[Some(&[3, 0])])]),
    ("geglu", &[Case::new(&[Some(&[3, 0]), Some(&[3, 0])])]),
    ("layer_norm", &[Case::new(&[Some(&[3, 0]), Some(&[0]), None, None])]),
    ("log_softmax", &[Case::new(&[Some(&[3, 0]), None, None])]),
    ("quantize", &[Case::new(&[Some(&[0, 7])])]),
    ("quantize_int4", &[Case::new(&[Some(&[3, 0])])]),
    ("relu2glu", &[Case::new(&[Some(&[3, 0]), Some(&[3, 0])])]),
    ("rms_norm", &[Case::new(&[Some(&[3, 0]), Some(&[0]), None])]),
    ("rms_norm_backward", &[Case::new(&[Some(&[3, 0]), Some(&[3, 0]), Some(&[0]), None])]),
    ("rms_norm_quantized", &[Case::new(&[Some(&[0, 7]), Some(&[7]), None])]),
    ("softmax_backward", &[Case::new(&[Some(&[3, 0]), Some(&[3, 0])])]),
];

#[test]
fn arrays_and_rows_without_elements_have_results_without_elements() {
    for device in harness::devices() {
        for (name, cases) in EMPTY {
            let Some(declaration) = declared(name) else { continue };
            harness::check_on(&Declaration { cases, ..*declaration }, &device, |_| true);
        }
    }
    let is_empty = |case: &Case| case.inputs.iter().flatten().any(|shape| shape.contains(&0));
    let lacks = |declaration: &&&Declaration| {
        let other = EMPTY.iter().find(|(name, _)| *name == declaration.name).map_or(&[][..], |of| of.1);
        // An array like x, and the same way back, which needs the cases' bytes.
        let is_known = ["dequantize_int4", "layer_norm_quantized", "bincount"].contains(&declaration.name);
        !is_known && !declaration.cases.iter().chain(other).any(is_empty)
    };
    let names: Vec<_> = moye_rows::OPERATIONS.iter().filter(lacks).map(|of| of.name).collect();
    assert_eq!(names, [""; 0], "have no case without elements");
}

#[test]
fn what_needs_an_element_is_refused_with_the_shape() {
    let x = ArrayType { dtype: Dtype::F32, shape: vec![3, 0] };
    for (name, wanted) in [
        ("quantize", "x has shape [3, 0], no elements for its scales of shape [3]"),
        ("rms_norm_quantized", "x has shape [3, 0], no elements for its scales of shape [3]"),
        ("sample", "rows have 0 elements"),
        ("topk", "rows of 0 elements"),
    ] {
        let Some(declaration) = declared(name) else { continue };
        let inputs = declaration.operands.iter().filter(|operand| operand.role.is_input()).enumerate();
        let inputs: Vec<_> = inputs.map(|(i, _)| (i == 0).then(|| x.clone())).collect();
        let refused = (declaration.results)(&inputs, &Options::of(declaration)).unwrap_err().to_string();
        assert!(refused.contains(wanted), "{name}: {refused}");
    }
}

#[cfg(feature = "sample")]
#[test]
fn nan_and_minus_infinity_are_drawn_from_rows_that_have_nothing_else() {
    use moye::{Device, Matrix, MatrixMut};
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    let device = Device::sim();
    let mut rows = [[-INF; 2000]; 4];
    (rows[0][3], rows[0][700]) = (NAN, 1.0);
    (rows[1][0], rows[1][1999]) = (NAN, -1e30);
    rows[2] = [NAN; 2000];
    rows[3][1] = NAN;
    let x = device.upload(rows.as_flattened()).unwrap();
    let mut drawn = device.alloc_uninit::<i64>(4).unwrap();
    let of = moye_rows::sample::Sample::new(Matrix::row_major(&x, 4, 2000).unwrap());
    for of in [of.clone().temperature(0.0), of.clone(), of.clone().top_k(5), of.top_p(0.5)] {
        of.run(&device, &mut MatrixMut::row_major(&mut drawn, 4, 1).unwrap()).unwrap();
        assert_eq!(drawn.download().unwrap(), [700, 1999, 0, 0]);
    }
}

#[cfg(feature = "int4")]
#[test]
fn nan_of_four_bits_is_zero_or_the_minimum_and_does_not_change_the_scale() {
    use super::{array, run};
    use moye::Device;
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    let device = Device::sim();
    let mut x = [0.0f32; 96];
    (x[0], x[1], x[2], x[3]) = (NAN, 7.0, -3.0, 2.0);
    x[32..64].fill(NAN);
    (x[64], x[65]) = (INF, 1.0);
    let x = device.upload(&x).unwrap();
    let (q, scales) = (device.upload(&[0u8; 48]).unwrap(), device.upload(&[0.0f32; 3]).unwrap());
    let options = [("scale_dtype", Value::Dtype(Dtype::F32))];
    let operands = [array(&x, &[96]), array(&q, &[48]), array(&scales, &[3])];
    run(&device, &moye_rows::int4::QUANTIZE_INT4, &operands, &options).unwrap();
    let (bytes, got) = (q.download().unwrap(), scales.download().unwrap());
    assert_eq!((bytes[0], bytes[1], got[0]), (0xf8, 0xa5, 1.0));
    assert!(bytes[16..32].iter().all(|&byte| byte == 0x88), "{bytes:?}");
    assert!(got[1] == 0.0 && got[2] == INF, "{got:?}");
}
