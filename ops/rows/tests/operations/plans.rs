//! Plans of kernels along rows: for rows that no shape holds, which a block reads in chunks, and
//! for each kind of call.

use super::{array, run};
use moye::operation::{Array, Case, Declaration, Dtype, Plans, Value, harness, tune};
use moye::profile::Card;
use moye::{Device, Grid};
use moye_device::algorithm::RowStride;
use moye_device::memory::{Global, GlobalMut};

/// A card without clusters, whose blocks hold 32,768 elements of a row, or 16,384 of two rows.
fn ampere() -> Device {
    Device::sim_of(&Card::named("A100").unwrap())
}

#[test]
fn long_rows_are_those_of_float64_on_a_card_without_clusters() {
    let device = ampere();
    let is_long = |case: &Case| case.inputs.iter().flatten().any(|shape| shape.iter().any(|&n| n > 16_384));
    for declaration in moye_rows::OPERATIONS {
        harness::check_on(declaration, &device, is_long);
    }
}

/// The simulator computes log-softmax alone: the others take chunks on a card without clusters.
#[test]
fn rows_longer_than_clusters_hold_are_those_of_float64() {
    const ONE: &[Case] =
        &[Case::new(&[Some(&[1, 131_075]), None, None]), Case::new(&[Some(&[2, 262_152]), None, None])];
    // Probabilities that are not subnormal in f16.
    const PEAKED: &[Case] = &[
        Case::new(&[Some(&[1, 131_075]), None, None]).ranges(&[("x", 0.0, 300.0)]),
        Case::new(&[Some(&[1, 262_152]), None, None]).ranges(&[("x", 0.0, 600.0)]),
    ];
    const CENTERED: &[Case] = &[
        Case::new(&[Some(&[1, 131_075]), Some(&[131_075]), Some(&[131_075]), None]),
        Case::new(&[Some(&[2, 262_152]), Some(&[262_152]), None, None]).ranges(&[("x", 50.0, 52.0)]),
    ];
    const LOSSES: &[Case] = &[
        Case::new(&[Some(&[2, 131_075]), Some(&[2]), Some(&[2])]).ranges(&[("targets", 0.0, 131_075.0)]),
        Case::new(&[Some(&[2, 262_152]), Some(&[2]), None]).ranges(&[("targets", 0.0, 262_152.0)]),
    ];
    const TWO: &[Case] = &[
        Case::new(&[Some(&[1, 131_075]), Some(&[1, 131_075])]),
        Case::new(&[Some(&[2, 131_080]), Some(&[2, 131_080])]),
    ];
    const GRADIENTS: &[Case] = &[
        Case::new(&[Some(&[1, 131_075]), Some(&[1, 131_075]), Some(&[131_075]), None]),
        Case::new(&[Some(&[2, 131_080]), Some(&[2, 131_080]), None, Some(&[2, 131_080])])
            .ranges(&[("x", 50.0, 52.0)]),
        Case::new(&[Some(&[3, 70_000]), Some(&[3, 70_000]), Some(&[70_000]), None]),
    ];
    let all: &[(&str, &'static [Case])] = &[
        ("log_softmax", ONE),
        ("softmax", PEAKED),
        ("rms_norm", ONE),
        ("layer_norm", CENTERED),
        ("cross_entropy", LOSSES),
        ("softmax_backward", TWO),
        ("rms_norm_backward", GRADIENTS),
        ("layer_norm_backward", GRADIENTS),
    ];
    for device in harness::devices() {
        for (name, cases) in all.iter().take(if device.is_gpu() { all.len() } else { 1 }) {
            check(name, cases, &device);
        }
    }
}

fn check(name: &str, cases: &'static [Case], device: &Device) {
    let declaration = moye_rows::OPERATIONS.iter().find(|declaration| declaration.name == name);
    if let Some(declaration) = declaration {
        harness::check_on(&Declaration { cases, ..**declaration }, device, |_| true);
    }
}

/// The simulator computes RMSNorm alone, whose clusters read elements a second time.
#[test]
fn rows_of_clusters_of_eight_are_those_of_float64() {
    const NORMS: &[Case] = &[
        Case::new(&[Some(&[2, 131_072]), Some(&[131_072]), Some(&[2, 131_072])]),
        Case::new(&[Some(&[31, 70_000]), Some(&[70_000]), None]),
        Case::new(&[Some(&[1, 262_144]), Some(&[262_144]), None]),
    ];
    const CENTERED: &[Case] = &[
        Case::new(&[Some(&[2, 131_072]), Some(&[131_072]), Some(&[131_072]), Some(&[2, 131_072])]),
        Case::new(&[Some(&[1, 262_144]), Some(&[262_144]), Some(&[262_144]), None]).ranges(&[(
            "x",
            1e4,
            1e4 + 4.0,
        )]),
    ];
    const PEAKED: &[Case] = &[
        Case::new(&[Some(&[40, 131_072]), None, None]).ranges(&[("x", 0.0, 300.0)]),
        Case::new(&[Some(&[1, 200_000]), None, None]).ranges(&[("x", 0.0, 600.0)]),
        Case::new(&[Some(&[17, 262_144]), None, None]).ranges(&[("x", 0.0, 600.0)]),
    ];
    const LOSSES: &[Case] = &[
        Case::new(&[Some(&[40, 128_256]), Some(&[40]), Some(&[40])]).ranges(&[("targets", 0.0, 128_256.0)]),
        Case::new(&[Some(&[2, 200_000]), Some(&[2]), Some(&[2])]).ranges(&[("targets", 0.0, 200_000.0)]),
        Case::new(&[Some(&[17, 262_144]), Some(&[17]), None]).ranges(&[("targets", 0.0, 262_144.0)]),
    ];
    // Selection over the whole row, and by the greatest elements.
    const LONG: &[Case] = &[
        Case::new(&[Some(&[2, 131_072])]).options(&[("k", Value::Int(50))]),
        Case::new(&[Some(&[1, 262_144])]).options(&[("k", Value::Int(128))]),
    ];
    const SAMPLED: &[Case] = &[
        Case::new(&[Some(&[2, 131_072]), None])
            .options(&[("top_p", Value::Float(0.9)), ("min_p", Value::Float(0.05))]),
        Case::new(&[Some(&[1, 262_144]), None])
            .options(&[("top_k", Value::Int(50)), ("top_p", Value::Float(0.9))]),
    ];
    for device in harness::devices() {
        if !device.is_gpu() {
            check("rms_norm", &NORMS[..1], &device);
            continue;
        }
        let all: [(&str, &'static [Case]); 7] = [
            ("rms_norm", NORMS),
            ("layer_norm", CENTERED),
            ("softmax", PEAKED),
            ("log_softmax", PEAKED),
            ("cross_entropy", LOSSES),
            ("topk", LONG),
            ("sample", SAMPLED),
        ];
        for (name, cases) in all {
            check(name, cases, &device);
        }
    }
}

/// The logit of the target is read before its element is written, in whichever chunk it is.
#[test]
fn the_gradient_of_cross_entropy_replaces_logits_in_chunks() {
    const N: usize = 33_001;
    let device = ampere();
    let logits: Vec<f32> = (0..6 * N).map(|i| ((i * 37) % 1009) as f32 / 128.0 - 4.0).collect();
    let targets = [0i32, 8191, 8192, 32_999, 33_000, -100];
    let t = device.upload(&targets).unwrap();
    let results = [false, true].map(|in_place| {
        let (x, dx) = (device.upload(&logits).unwrap(), device.alloc_uninit::<f32>(6 * N).unwrap());
        let [loss, lse] = [0, 1].map(|_| device.alloc_uninit::<f32>(6).unwrap());
        let gradient = if in_place { &x } else { &dx };
        let operands = [
            array(&x, &[6, N]),
            array(&t, &[6]),
            None,
            array(&loss, &[6]),
            array(&lse, &[6]),
            array(gradient, &[6, N]),
        ];
        let options = [("label_smoothing", Value::Float(0.1))];
        run(&device, &moye_rows::cross_entropy::CROSS_ENTROPY, &operands, &options).unwrap();
        [loss.download().unwrap(), lse.download().unwrap(), gradient.download().unwrap()]
    });
    assert_eq!(results[0], results[1]);
    assert!(results[0][0][..5].iter().all(|&loss| loss > 9.0) && results[0][0][5] == 0.0);
}

/// On a card with one SM no thread keeps the rows' elements: the losses are those of threads that
/// do, which the harness compares with float64; on a GPU with enough rows as well.
#[test]
fn losses_without_a_gradient_are_those_with_one() {
    let small = Device::sim_of(&Card { multiprocessors: 1, ..Card::named("H100").unwrap() });
    let devices = harness::devices().into_iter().filter(Device::is_gpu);
    for (device, rows) in devices.map(|device| (device, 700)).chain([(small, 8)]) {
        check_losses::<f32, i64>(&device, rows, |x| x);
        check_losses::<half::f16, i32>(&device, rows, half::f16::from_f32);
        check_losses::<half::bf16, i64>(&device, rows, half::bf16::from_f32);
    }
}

fn check_losses<T: moye::Element, I: moye::Element + TryFrom<usize>>(
    device: &Device,
    rows: usize,
    of: impl Fn(f32) -> T,
) {
    const N: usize = 16_400;
    const INF: f32 = f32::INFINITY;
    let mut logits: Vec<f32> =
        (0..rows * N).map(|i| ((i * 37) % 1009) as f32 / 128.0 - 4.0 + (i / N % 8) as f32).collect();
    // NaN, infinite elements, minus infinity alone, and at the target.
    let at = |row: usize, column: usize| row * N + column;
    (logits[at(1, 9000)], logits[at(2, 3)], logits[at(3, N - 1)]) = (f32::NAN, INF, -INF);
    logits[at(4, 0)..at(5, 0)].fill(-INF);
    logits[at(5, 16_384)] = -INF;
    let target = |row: usize| match row {
        0 => N - 1,
        5 => 16_384,
        6 => 100,
        7 => N,
        _ => row * 31 % N,
    };
    let class = |class: usize| I::try_from(class).unwrap_or_else(|_| panic!("{class} is a class"));
    let targets: Vec<I> = (0..rows).map(|row| class(target(row))).collect();
    let logits: Vec<T> = logits.into_iter().map(of).collect();
    let (x, t) = (device.upload(&logits).unwrap(), device.upload(&targets).unwrap());
    let bytes = size_of::<T>();
    // Rows at multiples of 16 bytes and not, which end with vectors and not.
    for (first, n) in [(0, N - 2), (0, N), (1, N - 1)] {
        let strided = |buffer: &moye::Buffer<T>| {
            let of_all = array(buffer, &[rows, N]).unwrap();
            let address = of_all.address + (bytes * first) as u64;
            Some(Array { shape: vec![rows, n], address, ..of_all })
        };
        let gradient = device.alloc_uninit::<T>(rows * N).unwrap();
        for smoothing in [0.0, 0.1] {
            let [without, again, with] = [None, None, strided(&gradient)].map(|gradient| {
                let [loss, lse] = [0, 1].map(|_| device.alloc_uninit::<f32>(rows).unwrap());
                let [loss_of, lse_of] = [&loss, &lse].map(|buffer| array(buffer, &[rows]));
                let operands = [strided(&x), array(&t, &[rows]), None, loss_of, lse_of, gradient];
                let options =
                    [("label_smoothing", Value::Float(smoothing)), ("ignore_index", Value::Int(100))];
                run(device, &moye_rows::cross_entropy::CROSS_ENTROPY, &operands, &options).unwrap();
                [loss.download().unwrap(), lse.download().unwrap()].concat()
            });
            let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&without), bits(&again));
            for (i, (&got, &wanted)) in without.iter().zip(&with).enumerate() {
                let is_same = got == wanted || got.is_nan() && wanted.is_nan();
                let error = (got - wanted).abs() / wanted.abs().max(1.0);
                assert!(is_same || error < 1e-5, "{n} {smoothing} {i}: {got} {wanted}");
            }
            assert!(without[1].is_nan() && without[7].is_nan() && without[6] == 0.0, "{without:?}");
        }
    }
}

/// Two blocks take five rows in turn, of one chunk and of three.
#[test]
fn blocks_step_over_rows_in_chunks() {
    use moye_rows::softmax::kernel::{softmax_f32_anychunked, softmax_f32_chunked};
    const M: u32 = 5;
    for device in harness::devices() {
        let module = device.load(&moye_rows::PTX).unwrap();
        for (kernel, n) in
            [(&softmax_f32_chunked, 20_000), (&softmax_f32_chunked, 3000), (&softmax_f32_anychunked, 20_001)]
        {
            let all: Vec<f32> = (0..M * n).map(|i| ((i * 37) % 1009) as f32 / 128.0 - 4.0).collect();
            let (x, y) = (device.upload(&all).unwrap(), device.alloc_uninit::<f32>(all.len()).unwrap());
            let ld = RowStride { row: n.into(), element: 1 };
            let (of_x, none) = (Global::from_address(x.address()), Global::from_address(0));
            let to = GlobalMut::from_address(y.address());
            let mask = Global::from_address(0);
            let arguments = (of_x, mask, none, to, M, n, 1, ld, ld, ld, ld, i32::MAX, 1.0f32, false);
            // SAFETY: both arrays hold five rows; there is no mask and no bias.
            unsafe { module.launch(kernel, Grid::new(2, 512), arguments) }.unwrap();
            for (got, x) in y.download().unwrap().chunks(n as usize).zip(all.chunks(n as usize)) {
                let sum: f64 = x.iter().map(|&x| f64::from(x).exp()).sum();
                for (&got, &x) in got.iter().zip(x) {
                    let expected = f64::from(x).exp() / sum;
                    assert!((f64::from(got) / expected - 1.0).abs() < 1e-5, "{got} {expected}");
                }
            }
        }
    }
}

#[test]
fn a_masked_softmax_has_another_plan_than_a_plain_one_by_the_name_of_its_entry_point() {
    const CASES: [Case; 2] =
        [Case::new(&[Some(&[3, 40]), None, None]), Case::new(&[Some(&[3, 40]), Some(&[40]), None])];
    let (device, mut plans) = (Device::sim(), Plans::default());
    for case in &CASES {
        for plan in tune(&moye_rows::softmax::SOFTMAX, &device, case, Dtype::F32).unwrap().plans {
            plans.insert(plan);
        }
    }
    assert_eq!(plans.iter().len(), 2, "{plans:?}");
    for plan in plans.iter() {
        assert!(plan.kernel.starts_with("softmax_f32_") && plan.problem.contains("softmax"), "{plan:?}");
    }
}

/// The blocks of a card with two SMs take several tiles of rows, and clusters several rows.
#[test]
fn sums_of_columns_are_those_of_float64_where_blocks_step_over_the_rows() {
    let small = Device::sim_of(&Card { multiprocessors: 2, ..Card::named("H100").unwrap() });
    for declaration in moye_rows::OPERATIONS.iter().filter(|is| is.name.ends_with("norm_backward")) {
        harness::check_on(declaration, &small, |case| case.inputs[0].is_some_and(|shape| shape[0] > 2));
    }
}

/// Rows that blocks hold, that start anywhere, that take chunks; and `out` is an input.
#[test]
fn gradients_of_norms_need_no_place_for_the_gradient_of_the_weight() {
    const LENGTHS: [usize; 4] = [5, 264, 9000, 17_001];
    for device in [Device::sim(), ampere()] {
        for n in LENGTHS {
            let all: Vec<f32> = (0..2 * n).map(|i| ((i * 37) % 1009) as f32 / 128.0 - 4.0).collect();
            let [x, dy] = [0, 1].map(|_| device.upload(&all).unwrap());
            let [dx, dw] = [2 * n, n].map(|elements| device.alloc_uninit::<f32>(elements).unwrap());
            let [of_x, of_dy, of_dx] = [&x, &dy, &dx].map(|buffer| array(buffer, &[2, n]));
            let backward = &moye_rows::norm_backward::RMS_NORM_BACKWARD;
            let inputs = [of_x.clone(), of_dy, None, None];
            let call = |out: &Option<Array>, dweight: Option<Array>| {
                let operands = [&inputs[..], &[out.clone(), dweight]].concat();
                run(&device, backward, &operands, &[])
            };
            call(&of_dx, array(&dw, &[n])).unwrap();
            // With the gradient of the weight, a different plan sums in a different order.
            call(&of_dx, None).unwrap();
            let wanted = dx.download().unwrap();
            let refused = call(&of_x, array(&dw, &[n])).unwrap_err().to_string();
            assert!(refused.contains("out is x or dy"), "{refused}");
            call(&of_x, None).unwrap();
            assert_eq!(x.download().unwrap(), wanted, "{n} elements");
        }
    }
}

/// Two million rows, on a GPU.
#[test]
fn millions_of_rows_are_those_of_float64() {
    const ROWS: &[Case] = &[Case::new(&[Some(&[2_000_003, 3]), None, None])];
    for device in harness::devices().into_iter().filter(Device::is_gpu) {
        harness::check_on(&Declaration { cases: ROWS, ..moye_rows::softmax::SOFTMAX }, &device, |_| true);
    }
}
