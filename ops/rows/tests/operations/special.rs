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

/// The message of the harness about a faulty declaration.
fn said(declaration: &Declaration) -> String {
    let panicked = std::panic::catch_unwind(|| harness::check(declaration)).unwrap_err();
    panicked.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[cfg(feature = "softmax")]
#[test]
fn the_harness_finds_rows_that_are_not_written_and_a_nan_that_the_reference_lacks() {
    use moye::operation::Call;
    use moye_rows::softmax::SOFTMAX;
    const CASES: &[Case] = &[Case::new(&[Some(&[3, 5]), None, None])];
    let all_but_one = Declaration {
        cases: CASES,
        run: |stream, call| {
            let mut operands = call.operands.to_vec();
            operands.iter_mut().flatten().for_each(|array| array.shape[0] -= 1);
            let call = Call { operands: &operands, options: call.options };
            // SAFETY: the same contract, of fewer rows.
            unsafe { (SOFTMAX.run)(stream, &call) }
        },
        ..SOFTMAX
    };
    let message = said(&all_but_one);
    assert!(message.ends_with("an element of the result was not written"), "{message}");
    let without_nan = Declaration {
        reference: |inputs, options| {
            let mut inputs = inputs.to_vec();
            let elements = inputs.iter_mut().flatten().flat_map(|(_, elements)| elements);
            elements.filter(|x| x.is_nan()).for_each(|x| *x = 0.0);
            (SOFTMAX.reference)(&inputs, options)
        },
        ..SOFTMAX
    };
    let message = said(&without_nan);
    assert!(message.contains("with NaN and infinities in x"), "{message}");
    assert!(message.contains("element 0 is NaN, and must be"), "{message}");
}

#[test]
fn the_harness_finds_bytes_that_are_not_written_although_the_reference_has_the_same() {
    use moye::operation::{OperandOf, Role};
    static NOTHING: Declaration = Declaration {
        name: "nothing",
        summary: "nothing is written",
        operands: &[
            OperandOf::new(Role::Input, "x", "bytes").of(&[Dtype::U8]),
            OperandOf::new(Role::Result, "out", "bytes").of(&[Dtype::U8]),
        ],
        options: &[],
        results: |inputs, _| Ok(inputs.iter().flatten().cloned().collect()),
        run: |_, _| Ok(()),
        explain: |_, _| Ok("none".into()),
        reference: |inputs, _| inputs.iter().flatten().map(|(_, x)| vec![165.0; x.len()]).collect(),
        tolerance: |_| 0.0,
        cases: &[Case::new(&[Some(&[3, 5])])],
        bench: &[],
    };
    let message = said(&NOTHING);
    assert!(message.contains("an element was not written"), "{message}");
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

/// A rule of the filters of draws.
#[cfg(feature = "sample")]
#[derive(Clone, Copy)]
struct Filters {
    top_k: u32,
    min_p: f32,
    top_p: f32,
}

/// The number of draws of each element from copies of a row, each with a seed.
#[cfg(feature = "sample")]
fn counts_of_draws(row: &[f32], draws: usize, filters: Filters) -> Vec<usize> {
    use moye::{Device, Matrix, MatrixMut};
    let device = Device::sim();
    let x = device.upload(row).unwrap();
    let seeds = device.upload(&(0..draws as i64).collect::<Vec<_>>()).unwrap();
    let mut drawn = device.alloc_uninit::<i64>(draws).unwrap();
    moye_rows::sample::Sample::new(Matrix::new(&x, draws, row.len(), (0, 1)).unwrap())
        .seeds(Matrix::row_major(&seeds, draws, 1).unwrap())
        .top_k(filters.top_k)
        .min_p(filters.min_p)
        .top_p(filters.top_p)
        .run(&device, &mut MatrixMut::row_major(&mut drawn, draws, 1).unwrap())
        .unwrap();
    let mut counts = vec![0; row.len()];
    for at in drawn.download().unwrap() {
        counts[at as usize] += 1;
    }
    counts
}

/// The probability of each element, by definition.
#[cfg(feature = "sample")]
fn probabilities(row: &[f32], Filters { top_k, min_p, top_p }: Filters) -> Vec<f64> {
    let greatest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let mut weights: Vec<f64> = row.iter().map(|&x| (f64::from(x) - greatest).exp()).collect();
    let mut sorted: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let keep = |weights: &mut Vec<f64>, least: f64| {
        for (weight, &x) in weights.iter_mut().zip(row) {
            *weight = if f64::from(x) >= least { *weight } else { 0.0 };
        }
    };
    if top_k > 0 {
        keep(&mut weights, sorted[(top_k as usize).min(row.len()) - 1]);
    }
    keep(&mut weights, greatest + f64::from(min_p).ln());
    let (all, mut sum) = (weights.iter().sum::<f64>(), 0.0);
    let reached = sorted.iter().find(|&&x| {
        sum += (x - greatest).exp();
        sum >= f64::from(top_p) * all
    });
    keep(&mut weights, reached.copied().unwrap_or(f64::NEG_INFINITY));
    let all: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / all).collect()
}

/// Top-p ends inside of a bin of several different elements, for some of the rules with several
/// equal to the last one: draws that hit the others are repeated.
#[cfg(feature = "sample")]
#[test]
fn draws_have_the_probabilities_of_the_filters() {
    const DRAWS: usize = 600;
    let row = [
        0.0, 2.0, 1.0005, 1.001, 1.0015, 1.002, 1.0025, 1.003, 1.002, -30.0, -1.0, 1.002, 0.5, 1.0005, -0.0,
        1.004,
    ];
    let all = Filters { top_k: 0, min_p: 0.0, top_p: 1.0 };
    for filters in [
        all,
        Filters { top_p: 0.6, ..all },
        Filters { top_p: 0.75, ..all },
        Filters { min_p: 0.3, ..all },
        Filters { top_k: 5, top_p: 0.7, ..all },
        Filters { top_k: 9, min_p: 0.1, top_p: 0.8 },
    ] {
        let wanted = probabilities(&row, filters);
        let counts = counts_of_draws(&row, DRAWS, filters);
        for ((&count, p), x) in counts.iter().zip(wanted).zip(row) {
            let (mean, deviation) = (p * DRAWS as f64, (p * (1.0 - p) * DRAWS as f64).sqrt());
            let Filters { top_k, min_p, top_p } = filters;
            assert!(
                (count as f64 - mean).abs() <= 4.0 * deviation,
                "top_k {top_k}, min_p {min_p}, top_p {top_p}: {x} drawn {count} times, not {mean}"
            );
        }
    }
}

#[cfg(feature = "sample")]
#[test]
fn equal_elements_are_all_drawn_and_infinity_alone() {
    let all = Filters { top_k: 0, min_p: 0.0, top_p: 1.0 };
    // Equal elements, more than the candidates of a block.
    for filters in [all, Filters { top_p: 0.1, ..all }, Filters { top_k: 3, top_p: 0.1, ..all }] {
        let counts = counts_of_draws(&[1.5; 3000], 40, filters);
        assert!(counts.iter().filter(|&&count| count > 0).count() > 35);
    }
    let mut row = [f32::MAX, f32::INFINITY, f32::NEG_INFINITY, 0.0, f32::INFINITY, f32::NAN];
    for filters in [all, Filters { top_p: 0.5, ..all }, Filters { min_p: 0.5, ..all }] {
        let counts = counts_of_draws(&row, 60, filters);
        assert!(counts[1] > 15 && counts[4] > 15 && counts[1] + counts[4] == 60, "{counts:?}");
    }
    row = [f32::MAX, f32::MIN, -1.0, 0.0, f32::MAX, f32::MIN];
    assert_eq!(counts_of_draws(&row, 20, Filters { top_p: 0.5, ..all })[1..4], [0; 3]);
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

#[cfg(feature = "reduce")]
#[test]
fn an_index_of_more_elements_than_32_bits_count_is_refused() {
    use moye_rows::reduce::ARG_MAX;
    let x = Some(ArrayType { dtype: Dtype::Bf16, shape: vec![70_000, 70_000] });
    let error = (ARG_MAX.results)(&[x], &Options::of(&ARG_MAX)).unwrap_err().to_string();
    assert!(error.contains("[70000, 70000], and argmax takes 2^32 elements at most"), "{error}");
}
