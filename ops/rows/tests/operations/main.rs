//! Every operation against its float64 reference: all cases, element types and memory layouts.

#[cfg(all(feature = "activation", feature = "affine", feature = "embedding", feature = "rope"))]
mod maps;
#[cfg(all(feature = "cross_entropy", feature = "softmax"))]
mod plans;
#[cfg(all(feature = "norm", feature = "sample"))]
mod ptxas;
#[cfg(feature = "reduce")]
mod reductions;
mod special;

use moye::operation::{Array, ArrayType, Call, Declaration, Dtype, Options, Value, harness};
use moye::{Buffer, Device, Element};
use std::collections::HashSet;

/// Operations that need a workspace in some case, which the caller provides.
const WITH_WORKSPACES: &[&str] = &[
    "argmax",
    "argmin",
    "cumsum",
    "layer_norm_backward",
    "logsumexp",
    "max",
    "mean",
    "min",
    "norm",
    "quantize",
    "rms_norm_backward",
    "sum",
    "var",
];

/// A test of each declaration.
macro_rules! tests {
    ($($feature:literal $folder:ident: $($operation:ident),+;)+) => { $(
        #[cfg(feature = $feature)]
        mod $folder { $(
            #[test]
            fn $operation() {
                let declaration = &moye_rows::$folder::$operation;
                match super::super::WITH_WORKSPACES.contains(&declaration.name) {
                    true => super::super::harness::check_with_workspace(declaration),
                    false => super::super::harness::check(declaration),
                }
            }
        )+ }
    )+ };
}

#[allow(non_snake_case, reason = "each has the name of its declaration")]
mod is_that_of_its_float64_reference {
    moye_rows::operations!(tests);
}

/// An array of the elements of a buffer, row-major.
#[allow(dead_code, reason = "some operation needs it")]
fn array<T: Element>(buffer: &Buffer<T>, shape: &[usize]) -> Option<Array> {
    let ty = ArrayType { dtype: Dtype::of::<T>().unwrap(), shape: shape.to_vec() };
    Some(Array::row_major(&ty, buffer.address()))
}

/// Computes a call, or returns the error message.
#[allow(dead_code, reason = "some operation needs it")]
fn run(
    device: &Device,
    declaration: &Declaration,
    operands: &[Option<Array>],
    given: &[(&str, Value)],
) -> Result<(), String> {
    let mut options = Options::of(declaration);
    for (name, value) in given {
        options.set(declaration.name, name, *value).map_err(|error| error.to_string())?;
    }
    let call = Call { operands, options: &options };
    declaration.check(&call).map_err(|error| error.to_string())?;
    // SAFETY: the arrays are in buffers of the tests, which outlive the call.
    unsafe { (declaration.run)(&device.default_stream(), &call) }.map_err(|error| error.to_string())
}

#[cfg(feature = "cross_entropy")]
#[test]
fn cross_entropy_of_what_is_not_finite_is_that_of_pytorch_and_the_gradient_may_replace_the_logits() {
    const INF: f32 = f32::INFINITY;
    #[rustfmt::skip]
    let logits = [
        0.0, f32::NAN, 1.0, 2.0,
        0.0, INF, 1.0, 2.0,
        0.0, -INF, 0.0, -INF,
        -INF, 0.0, 0.0, -INF,
        f32::NAN, INF, 0.0, 0.0,
        0.0, 0.0, 0.0, 0.0,
    ];
    let targets = [0i32, 0, 0, 0, -100, 4];
    for device in harness::devices() {
        let (x, t) = (device.upload(&logits).unwrap(), device.upload(&targets).unwrap());
        let loss = device.alloc_uninit::<f32>(6).unwrap();
        let (of_x, of_loss) = (array(&x, &[6, 4]), array(&loss, &[6]));
        let operands = [of_x.clone(), array(&t, &[6]), None, of_loss, None, of_x];
        let options = [("grad_scale", Value::Float(2.0))];
        run(&device, &moye_rows::cross_entropy::CROSS_ENTROPY, &operands, &options).unwrap();
        let loss = loss.download().unwrap();
        assert!(loss[0].is_nan() && loss[1].is_nan() && loss[5].is_nan(), "{loss:?}");
        assert!((loss[2] - 2f32.ln()).abs() < 1e-6 && loss[3] == INF && loss[4] == 0.0, "{loss:?}");
        let gradient = x.download().unwrap();
        assert_eq!(gradient[8..20], [-1.0, 0.0, 1.0, 0.0, -2.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(gradient[20..].iter().all(|x| x.is_nan()), "{gradient:?}");
    }
}

/// Long rows have a block for each chunk, and words for 32 and for 1,024 of them.
#[cfg(feature = "cumsum")]
#[test]
fn a_scan_of_more_than_1024_chunks_is_exact_for_whole_numbers() {
    let n = 1029 * moye_rows::cumsum::kernel::chunk(4) as usize + 4;
    let one_in_three: Vec<f32> = (0..n).map(|i| if i % 3 == 0 { 1.0 } else { 0.0 }).collect();
    // The simulator takes a minute.
    for device in harness::devices().into_iter().filter(moye::Device::is_gpu) {
        let (x, y) = (device.upload(&one_in_three).unwrap(), device.upload(&one_in_three).unwrap());
        let operands = [array(&x, &[n]), array(&y, &[n])];
        run(&device, &moye_rows::cumsum::CUMSUM, &operands, &[]).unwrap();
        let expected = (0..n).map(|i| (i / 3 + 1) as f32);
        assert!(y.download().unwrap().into_iter().eq(expected));
    }
}

/// Two blocks, or a cluster of two, take five rows in turn: the next one is in flight, and
/// exchanges and reductions use their memory again.
#[cfg(all(feature = "norm", feature = "softmax"))]
#[test]
fn blocks_and_clusters_step_over_rows_that_are_loaded_ahead() {
    use moye::Grid;
    use moye_device::algorithm::RowStride;
    use moye_device::memory::{Global, GlobalMut};
    use moye_rows::norm::kernel::{Output, Strides, norm_f32_cluster512};
    use moye_rows::softmax::kernel::{softmax_f32_block1024, softmax_f32_cluster512};
    const M: u32 = 5;
    let check = |got: &[f32], expected: &dyn Fn(&[f64]) -> Vec<f64>, x: &[f32], n: usize| {
        for (got, x) in got.chunks(n).zip(x.chunks(n)) {
            let x: Vec<f64> = x.iter().map(|&x| x.into()).collect();
            let expected = expected(&x);
            let error =
                |to: &[f64]| to.iter().zip(&expected).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
            let got: Vec<f64> = got.iter().map(|&y| y.into()).collect();
            assert!(error(&got) < 4e-6 * error(&vec![0.0; n]), "{}", error(&got));
        }
    };
    let softmax = |x: &[f64]| -> Vec<f64> {
        let sum: f64 = x.iter().map(|x| x.exp()).sum();
        x.iter().map(|x| x.exp() / sum).collect()
    };
    let normed = |x: &[f64]| -> Vec<f64> {
        let count = x.len() as f64;
        let mean = x.iter().sum::<f64>() / count;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let of = |(i, x): (usize, &f64)| {
            let weight = (i % 7) as f64;
            (x - mean) / (variance + 1e-5).sqrt() * weight + weight
        };
        x.iter().enumerate().map(of).collect()
    };
    for device in harness::devices() {
        let module = device.load(&moye_rows::PTX).unwrap();
        let all: Vec<f32> = (0..M * 20_000).map(|i| ((i * 37) % 1009) as f32 / 128.0 - 4.0).collect();
        let weights: Vec<f32> = (0..20_000).map(|i| (i % 7) as f32).collect();
        let w = device.upload(&weights).unwrap();
        for (grid, kernel, n) in [
            (Grid::new(2, 512).clusters(2), &softmax_f32_cluster512, 20_000),
            (Grid::new(2, 1024), &softmax_f32_block1024, 3000),
        ] {
            let x = device.upload(&all[..(M * n) as usize]).unwrap();
            let y = device.alloc_uninit::<f32>((M * n) as usize).unwrap();
            let ld = RowStride { row: n.into(), element: 1 };
            let (of_x, none) = (Global::from_address(x.address()), Global::from_address(0));
            let to = GlobalMut::from_address(y.address());
            let mask = Global::from_address(0);
            let arguments = (of_x, mask, none, to, M, n, 1, ld, ld, ld, ld, i32::MAX, 1.0f32, false);
            // SAFETY: both arrays hold five rows; there is no mask and no bias.
            unsafe { module.launch(kernel, grid, arguments) }.unwrap();
            check(&y.download().unwrap(), &softmax, &x.download().unwrap(), n as usize);
        }
        let (x, y) = (device.upload(&all).unwrap(), device.alloc_uninit::<f32>(all.len()).unwrap());
        let (rows, columns) = (RowStride { row: 20_000, element: 1 }, RowStride { row: 0, element: 1 });
        let strides = Strides {
            x: rows,
            weight: columns,
            bias: columns,
            residual: rows,
            y: rows,
            sum: rows,
            scales: columns,
        };
        let [of_x, of_w, none] = [x.address(), w.address(), 0].map(Global::from_address);
        let [to, no_sum] = [y.address(), 0].map(GlobalMut::from_address);
        let code = Output::F32 as u32;
        let no_scales = GlobalMut::from_address(0);
        let arguments =
            (of_x, of_w, of_w, none, to, no_sum, no_scales, M, 20_000, strides, 1e-5f32, true, code);
        // SAFETY: the arrays hold five rows, weight and bias one; there are no other operands.
        unsafe { module.launch(&norm_f32_cluster512, Grid::new(2, 512).clusters(2), arguments) }.unwrap();
        check(&y.download().unwrap(), &normed, &all, 20_000);
    }
}

/// The arrays have no memory, so that a launch would be a fault.
#[test]
fn the_kernel_of_a_call_is_named_without_a_launch() {
    let ((_, ptx), stream) = (moye_rows::PTX.images()[0], Device::sim().default_stream());
    let entries: HashSet<_> =
        ptx.split(".entry ").skip(1).filter_map(|text| text.split('(').next()).collect();
    for declaration in moye_rows::OPERATIONS {
        let case = &declaration.cases[0];
        let mut options = Options::of(declaration);
        case.options.iter().for_each(|(name, value)| options.set(declaration.name, name, *value).unwrap());
        let shapes = case.inputs.iter().map(|shape| shape.map(<[usize]>::to_vec));
        let types = declaration.operands.iter().zip(shapes);
        let types = types.map(|(of, shape)| Some(ArrayType { dtype: of.dtypes[0], shape: shape? }));
        let inputs: Vec<_> = types.collect();
        let results = (declaration.results)(&inputs, &options).unwrap().into_iter().map(Some);
        let all = inputs.iter().cloned().chain(results).take(declaration.operands.len());
        let operands: Vec<_> = all.zip(1..).map(|(ty, i)| Some(Array::row_major(&ty?, i << 20))).collect();
        let call = Call { operands: &operands, options: &options };
        declaration.check(&call).unwrap();
        let kernel = (declaration.explain)(&stream, &call).unwrap();
        assert!(entries.contains(&*kernel), "{}: {kernel}", declaration.name);
    }
}

#[test]
fn integers_are_refused_with_the_operand_and_what_it_takes() {
    let x = |dtype| Some(Array::row_major(&ArrayType { dtype, shape: vec![2, 8] }, 4096));
    let takes_floats = |of: &&&Declaration| of.operands[0].dtypes == Dtype::FLOATS;
    for declaration in moye_rows::OPERATIONS.iter().filter(takes_floats) {
        let options = Options::of(declaration);
        let operands: Vec<_> = declaration.operands.iter().map(|_| x(Dtype::I64)).collect();
        let refused =
            declaration.check(&Call { operands: &operands, options: &options }).unwrap_err().to_string();
        let name = declaration.operands[0].name;
        let wanted =
            format!("{name} has elements of int64, and must have float32, float16 or bfloat16; convert it");
        assert!(refused.contains(&wanted), "{refused}");
    }
}

#[cfg(feature = "topk")]
#[test]
fn topk_has_nan_first_and_the_first_of_equal_elements_whatever_is_masked() {
    use moye::{Matrix, MatrixMut};
    let device = Device::sim();
    // A row masked except for 7 elements, a row in which 2,000 are above the rest, and NaN among
    // zeros.
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

#[cfg(all(feature = "softmax", feature = "softmax_backward"))]
#[test]
fn hidden_elements_have_no_probability_and_no_gradient_whatever_they_are() {
    use moye::{Matrix, MatrixMut};
    use moye_rows::{softmax::Softmax, softmax_backward::SoftmaxBackward};
    const INF: f32 = f32::INFINITY;
    let device = Device::sim();
    let x = device.upload(&[0.0, 0.0, f32::NAN, INF, 1.0, 1.0, 1.0, f32::NAN, -INF, INF, 0.0, 0.0]).unwrap();
    let mask = device.upload(&[1u8, 0, 255, 1]).unwrap();
    let mut y = device.alloc_uninit::<f32>(12).unwrap();
    let x = Matrix::row_major(&x, 3, 4).unwrap();
    let of = Softmax::new(x.clone()).causal(0);
    of.run(&device, &mut MatrixMut::row_major(&mut y, 3, 4).unwrap()).unwrap();
    let third = 1.0f32 / 3.0;
    let got = y.download().unwrap();
    assert_eq!(got[..4], [0.5, 0.5, 0.0, 0.0]);
    assert!(got[4..7].iter().all(|y| (y - third).abs() < 1e-6) && got[7] == 0.0, "{got:?}");
    assert!(got[8..].iter().all(|y| y.is_nan()), "plus infinity takes part: {got:?}");
    // A row whose elements are all hidden is like a row of minus infinity.
    let of = Softmax::new(x).causal(-2).mask(Matrix::row_major(&mask, 1, 4).unwrap());
    of.run(&device, &mut MatrixMut::row_major(&mut y, 3, 4).unwrap()).unwrap();
    let got = y.download().unwrap();
    assert!(got[..4].iter().all(|y| y.is_nan()), "{got:?}");
    assert_eq!(got[4..8], [1.0, 0.0, 0.0, 0.0]);
    // The gradients of hidden elements.
    for (hidden, log) in [(0.0, false), (-INF, true)] {
        let given = if log { [0.0f32, 0.0, 0.0].map(|x| x - 3f32.ln()) } else { [third; 3] };
        let y = device.upload(&[given[0], hidden, given[1], given[2]]).unwrap();
        let dy = device.upload(&[1.0f32, if log { 0.0 } else { 7.0 }, 2.0, 3.0]).unwrap();
        let mut dx = device.alloc_uninit::<f32>(4).unwrap();
        let (y, dy) = (Matrix::row_major(&y, 1, 4).unwrap(), Matrix::row_major(&dy, 1, 4).unwrap());
        let of = SoftmaxBackward::new(y, dy);
        let of = if log { of.log() } else { of };
        of.run(&device, &mut MatrixMut::row_major(&mut dx, 1, 4).unwrap()).unwrap();
        let dx = dx.download().unwrap();
        assert!(dx[1] == 0.0 && dx.iter().sum::<f32>().abs() < 1e-5, "{dx:?}");
    }
}

#[test]
fn options_that_no_kernel_has_are_refused_with_what_they_may_be() {
    let refused = |name: &str, shape: &[usize], given: &[(&str, Value)]| {
        let declaration = moye_rows::OPERATIONS.iter().find(|of| of.name == name)?;
        let mut options = Options::of(declaration);
        given.iter().for_each(|(of, value)| options.set(name_of(declaration), of, *value).unwrap());
        let inputs = declaration.operands.iter().filter(|operand| operand.role.is_input()).enumerate();
        let x = ArrayType { dtype: Dtype::F32, shape: shape.to_vec() };
        let inputs: Vec<_> = inputs.map(|(i, _)| (i == 0).then(|| x.clone())).collect();
        Some((declaration.results)(&inputs, &options).unwrap_err().to_string())
    };
    fn name_of(declaration: &'static Declaration) -> &'static str {
        declaration.name
    }
    let cases: &[(&str, &[usize], &[(&str, Value)], &str)] = &[
        ("quantize_int4", &[2, 5], &[], "an even number of elements; pad them"),
        ("quantize_uint4", &[2, 8], &[("group", Value::Int(48))], "group is 48, and may be 32, 64 or 128"),
        ("histc", &[8], &[("high", Value::Float(0.0))], "low is 0 and high 0; give a range"),
        ("bincount", &[8], &[("bins", Value::Int(0))], "bins is 0, and may be 1 to 16777216"),
        (
            "rms_norm_quantized",
            &[2, 8],
            &[("dtype", Value::Dtype(Dtype::F16))],
            "dtype is float16, and may be int8",
        ),
    ];
    for (name, shape, given, wanted) in cases {
        // Only enabled operations exist.
        let Some(refused) = refused(name, shape, given) else { continue };
        assert!(refused.contains(wanted), "{refused}");
    }
}

#[cfg(feature = "quantize")]
#[test]
fn nan_is_kept_by_floats_of_8_bits_and_does_not_change_the_scale() {
    use moye::number::F8E4M3;
    use moye::{Matrix, MatrixMut};
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

#[cfg(feature = "norm")]
#[test]
fn norms_of_rows_with_nan_or_infinite_elements_are_those_of_pytorch_and_other_rows_are_unchanged() {
    use moye::{Matrix, MatrixMut};
    const N: usize = 300;
    let device = Device::sim();
    let mut x = vec![1.0f32; 3 * N];
    (x[5], x[N + 7], x[2 * N]) = (f32::NAN, f32::INFINITY, -1.0);
    let x = device.upload(&x).unwrap();
    let mut y = device.alloc_uninit::<f32>(3 * N).unwrap();
    let of_x = Matrix::row_major(&x, 3, N).unwrap();
    let mut results = |norm: moye_rows::norm::Norm<'_, f32>| {
        norm.run(&device, &mut MatrixMut::row_major(&mut y, 3, N).unwrap()).unwrap();
        y.download().unwrap()
    };
    let (rms, layer) =
        (results(moye_rows::norm::Norm::rms(of_x.clone())), results(moye_rows::norm::Norm::layer(of_x)));
    assert!(rms[..N].iter().chain(&layer[..2 * N]).all(|y| y.is_nan()));
    let zeros = rms[N..2 * N].iter().enumerate().filter(|(_, y)| **y == 0.0).count();
    assert!(rms[N + 7].is_nan() && zeros == N - 1);
    assert!(rms[2 * N..].iter().chain(&layer[2 * N..]).all(|y| y.is_finite()));
}
