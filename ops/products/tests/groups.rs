//! Lists of products against float64, and what layers of experts keep apart.
#![cfg(all(feature = "block_scaled_groups", feature = "grouped_k", feature = "moe"))]

use crate::check_random;
use crate::random::Random;
use half::{bf16, f16};
use moye::number::F8E4M3;
use moye::operation::{Case, Declaration, Dtype, OperandOf, Value, harness};
use moye::{Device, Element, Matrix, MatrixMut};
use moye_products::block_scaled::{BLOCK_SCALED, BlockScaled};
use moye_products::block_scaled_groups::BLOCK_SCALED_K;
use moye_products::grouped::{GROUPED, GroupedList, GroupedMatmul};
use moye_products::grouped_k::GROUPED_K;
use moye_products::moe::{MOE, Moe};

/// Values from -2 to 2.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| 2.0 * random.unit()).collect()
}

/// A pattern of groups: rows, and the ends of the groups, or the rows of padded ones.
struct Pattern {
    rows: usize,
    ends: Vec<f64>,
}

/// Patterns of one to eight groups in turn: all rows in one group; a row or none in each; ends
/// anywhere, some of them equal; the same without the last rows.
fn pattern(seed: u64) -> (Random, Pattern) {
    let mut random = Random::new(seed);
    let (groups, rows) = (1 + random.below(8), 1 + random.below(300));
    let mut ends: Vec<_> = match seed % 4 {
        0 => {
            let only = random.below(groups);
            (0..groups).map(|g| if g < only { 0 } else { rows }).collect()
        }
        1 => {
            let mut end = 0;
            let mut next = |_| {
                end += random.below(2);
                end.min(rows)
            };
            (0..groups).map(&mut next).collect()
        }
        _ => (0..groups).map(|_| random.below(rows + 1)).collect(),
    };
    ends.sort_unstable();
    if seed % 4 == 2 {
        ends[groups - 1] = rows;
    }
    (random, Pattern { rows, ends: ends.into_iter().map(|end| end as f64).collect() })
}

/// Checks a declaration with operands of one type each by cases of random patterns, whose inputs
/// `inputs` returns.
fn check_patterns(
    declaration: &'static Declaration,
    dtype: Dtype,
    inputs: impl Fn(&mut Random, &Pattern) -> Vec<Option<Vec<usize>>>,
) {
    let typed = |operand: &OperandOf| {
        let dtypes = if operand.dtypes.contains(&dtype) { vec![dtype].leak() } else { operand.dtypes };
        OperandOf {
            dtypes: if operand.name == "out" && dtype == Dtype::E4m3 { &[Dtype::Bf16] } else { dtypes },
            ..*operand
        }
    };
    let operands: Vec<_> = declaration.operands.iter().map(typed).collect();
    let declaration = Declaration { operands: operands.leak(), ..*declaration };
    check_random(&declaration, |seed, _| {
        let (mut random, pattern) = pattern(seed);
        let shapes = inputs(&mut random, &pattern);
        let shapes: Vec<_> = shapes.into_iter().map(|shape| shape.map(|shape| &*shape.leak())).collect();
        let ends: &[f64] = pattern.ends.leak();
        Case::new(shapes.leak())
            .values(vec![("ends", ends)].leak())
            .ranges(&[("scale_a", 0.25, 4.0), ("scale_b", 0.25, 4.0)])
    });
}

#[test]
fn products_by_random_patterns_of_groups_are_those_of_float64() {
    check_patterns(&GROUPED, Dtype::Bf16, |random, Pattern { rows, ends }| {
        let (n, k) = (1 + random.below(280), 1 + random.below(100));
        vec![Some(vec![*rows, k]), Some(vec![ends.len(), n, k]), Some(vec![ends.len()])]
    });
}

#[test]
fn products_by_random_counts_of_padded_groups_are_those_of_float64() {
    check_patterns(&GROUPED, Dtype::F16, |random, Pattern { rows, ends }| {
        let (n, k) = (1 + random.below(140), 1 + random.below(80));
        vec![Some(vec![ends.len(), *rows, k]), Some(vec![ends.len(), n, k]), Some(vec![ends.len()])]
    });
}

#[test]
fn products_along_random_patterns_of_rows_are_those_of_float64() {
    check_patterns(&GROUPED_K, Dtype::Bf16, |random, Pattern { rows, ends }| {
        let (m, n) = (1 + random.below(140), 1 + random.below(280));
        vec![Some(vec![*rows, m]), Some(vec![*rows, n]), Some(vec![ends.len()])]
    });
}

#[test]
fn scaled_products_by_random_patterns_of_groups_are_those_of_float64() {
    check_patterns(&BLOCK_SCALED, Dtype::E4m3, |random, Pattern { rows, ends }| {
        let (n, k, groups) = (1 + random.below(140), 1 + random.below(200), ends.len());
        let (of_n, of_k) = (n.div_ceil(128), k.div_ceil(128));
        let (a, b) = (vec![*rows, k], vec![groups, n, k]);
        let (scale_a, scale_b) = (vec![*rows, of_k], vec![groups, of_n, of_k]);
        vec![Some(a), Some(b), Some(scale_a), Some(scale_b), Some(vec![groups])]
    });
}

#[test]
fn scaled_products_along_random_patterns_of_rows_are_those_of_float64() {
    check_patterns(&BLOCK_SCALED_K, Dtype::E4m3, |random, Pattern { rows, ends }| {
        let (m, n, blocks) = (1 + random.below(70), 1 + random.below(140), rows.div_ceil(128));
        let (scale_a, scale_b) = (vec![blocks, m], vec![blocks, n]);
        vec![Some(vec![*rows, m]), Some(vec![*rows, n]), Some(scale_a), Some(scale_b), Some(vec![ends.len()])]
    });
}

/// Padded groups of `ROWS` rows: a full one, one without rows, some rows, and a full one.
const ROWS: usize = 70;
const COUNTS: [i32; 4] = [ROWS as i32, 0, 5, ROWS as i32];
const POISON: f32 = -777.0;

/// Checks rows of padded groups, (groups * rows, n), beside `wanted(group, row, column)` by
/// relative norm. Rows that no group uses must still be `poison`.
fn check_padded(
    c: &[f64],
    n: usize,
    poison: f64,
    tolerance: f64,
    wanted: impl Fn(usize, usize, usize) -> f64,
) {
    assert_eq!(c.len(), COUNTS.len() * ROWS * n);
    let (mut error, mut norm) = (0.0, 0.0);
    for (at, &got) in c.iter().enumerate() {
        let (row, column) = (at / n, at % n);
        let group = row / ROWS;
        if row % ROWS >= COUNTS[group] as usize {
            assert_eq!(got, poison, "row {} of group {group} was written", row % ROWS);
            continue;
        }
        let wanted = wanted(group, row, column);
        error += (got - wanted).powi(2);
        norm += wanted.powi(2);
    }
    assert!(error.sqrt() <= tolerance * norm.sqrt(), "{error} of {norm}");
}

#[test]
fn padded_groups_of_the_typed_builder_are_those_of_float64() {
    let (groups, n, k) = (COUNTS.len(), 40, 24);
    let of = |count, seed| Vec::from_iter(numbers(count, seed).into_iter().map(bf16::from_f32));
    let (a, b) = (of(groups * ROWS * k, 1), of(groups * n * k, 2));
    for device in harness::devices() {
        let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let counts = device.upload(&COUNTS).unwrap();
        let mut c = device.upload(&vec![bf16::from_f32(POISON); groups * ROWS * n]).unwrap();
        GroupedMatmul::padded(
            Matrix::row_major(&on_a, groups * ROWS, k).unwrap(),
            Matrix::row_major(&on_b, groups * n, k).unwrap(),
            Matrix::row_major(&counts, 1, groups).unwrap(),
        )
        .run(&device, &mut MatrixMut::row_major(&mut c, groups * ROWS, n).unwrap())
        .unwrap();
        let c = Vec::from_iter(c.download().unwrap().into_iter().map(bf16::to_f64));
        let poison = bf16::from_f32(POISON).to_f64();
        check_padded(&c, n, poison, 2f64.powi(-8), |group, row, column| {
            let term = |l: usize| a[row * k + l].to_f64() * b[(group * n + column) * k + l].to_f64();
            (0..k).map(term).sum()
        });
    }
}

#[test]
fn padded_groups_of_the_typed_builder_with_scales_are_those_of_float64() {
    let (groups, n, k) = (COUNTS.len(), 136, 144);
    let rows = groups * ROWS;
    let of = |count, seed| Vec::from_iter(numbers(count, seed).into_iter().map(F8E4M3::from_f32));
    let scales = |count, seed| Vec::from_iter(numbers(count, seed).into_iter().map(|x| x + 2.5));
    let (a, b) = (of(rows * k, 1), of(groups * n * k, 2));
    // Two blocks along K and along N.
    let (scale_a, scale_b) = (scales(rows * 2, 3), scales(groups * 2 * 2, 4));
    for device in harness::devices() {
        let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let (on_scale_a, on_scale_b) = (device.upload(&scale_a).unwrap(), device.upload(&scale_b).unwrap());
        let counts = device.upload(&COUNTS).unwrap();
        // A scale for each row and 128 elements, and one of all rows.
        for is_of_rows in [true, false] {
            let product = BlockScaled::new(
                Matrix::row_major(&on_a, rows, k).unwrap(),
                Matrix::row_major(&on_b, groups * n, k).unwrap(),
            )
            .scales(
                Matrix::row_major(
                    on_scale_a.slice(..if is_of_rows { 2 * rows } else { 2 }).unwrap(),
                    if is_of_rows { rows } else { 1 },
                    2,
                )
                .unwrap(),
                Matrix::row_major(&on_scale_b, groups * 2, 2).unwrap(),
            )
            .padded_groups(Matrix::row_major(&counts, 1, groups).unwrap());
            let wanted = |group: usize, row: usize, column: usize| {
                let term = |l: usize| {
                    let of_a = scale_a[if is_of_rows { 2 * row } else { 0 } + l / 128];
                    let of_b = scale_b[(group * 2 + column / 128) * 2 + l / 128];
                    let factors = [a[row * k + l].to_f32(), b[(group * n + column) * k + l].to_f32()];
                    f64::from(of_a) * f64::from(of_b) * f64::from(factors[0]) * f64::from(factors[1])
                };
                (0..k).map(term).sum()
            };
            // Tensor cores keep 14 bits of the sums of four instructions.
            let sums = 4.0 * 2f64.powi(-13);
            let mut c = device.upload(&vec![POISON; rows * n]).unwrap();
            product.run(&device, &mut MatrixMut::row_major(&mut c, rows, n).unwrap()).unwrap();
            let c = Vec::from_iter(c.download().unwrap().into_iter().map(f64::from));
            check_padded(&c, n, POISON.into(), sums, wanted);

            let (kept, kept_scale) = (F8E4M3::from_f32(-7.0), 111.0f32);
            let mut q = device.upload(&vec![kept; rows * n]).unwrap();
            let mut of_q = device.upload(&vec![kept_scale; rows * 2]).unwrap();
            product
                .run_quantized(
                    &device,
                    &mut MatrixMut::row_major(&mut q, rows, n).unwrap(),
                    &mut MatrixMut::row_major(&mut of_q, rows, 2).unwrap(),
                )
                .unwrap();
            let (q, of_q) = (q.download().unwrap(), of_q.download().unwrap());
            let value = |(at, q): (usize, &F8E4M3)| {
                f64::from(q.to_f32()) * f64::from(of_q[at / n * 2 + at % n / 128])
            };
            let c = Vec::from_iter(q.iter().enumerate().map(value));
            // Half a unit in the last place of e4m3.
            check_padded(&c, n, -7.0 * 111.0, 2f64.powi(-4) + sums, wanted);
        }
    }
}

#[test]
fn padded_groups_whose_rows_do_not_agree_are_refused_with_their_numbers() {
    let device = Device::sim();
    let halves = device.upload(&[bf16::ONE; 64]).unwrap();
    let bytes = device.upload(&[F8E4M3::from_f32(1.0); 64]).unwrap();
    let (scales, counts) = (device.upload(&[1.0f32; 8]).unwrap(), device.upload(&[1, 2]).unwrap());
    let counts = || Matrix::row_major(&counts, 1, 2).unwrap();
    let mut c = device.alloc_uninit::<bf16>(16).unwrap();
    let mut refused = |a, of_c, text: &str| {
        let (a, b) = (Matrix::row_major(&halves, a, 8).unwrap(), Matrix::row_major(&halves, 4, 8).unwrap());
        let mut c = MatrixMut::row_major(&mut c, of_c, 2).unwrap();
        let error = GroupedMatmul::padded(a, b, counts()).run(&device, &mut c).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(5, 5, "a has 5 rows for 2 groups, and must have as many for each");
    refused(6, 5, "c has 5 rows, and must have 3 for each of 2 groups");
    let mut c = device.alloc_uninit::<f32>(12).unwrap();
    let error =
        BlockScaled::new(Matrix::row_major(&bytes, 6, 8).unwrap(), Matrix::row_major(&bytes, 4, 8).unwrap())
            .scales(Matrix::row_major(&scales, 5, 1).unwrap(), Matrix::row_major(&scales, 2, 1).unwrap())
            .padded_groups(counts())
            .run(&device, &mut MatrixMut::row_major(&mut c, 6, 2).unwrap())
            .unwrap_err()
            .to_string();
    assert!(error.contains("scale_a has 5 rows for 2 groups, and must have as many for each"), "{error}");
}

fn check<T: Element + Copy>(device: &Device, of: fn(f32) -> T, value: fn(T) -> f64, tolerance: f64) {
    // Extents, and elements between rows of A, B and C: whole tiles, ragged ones, none.
    let shapes = [
        ([200, 264, 72], [72, 80, 272]),
        ([1, 9, 8], [8, 8, 9]),
        ([0, 16, 8], [8, 8, 16]),
        ([65, 40, 130], [136, 136, 41]),
    ];
    let mut operands = Vec::new();
    for (i, ([m, n, k], [row_a, row_b, _])) in shapes.into_iter().enumerate() {
        let random = |rows: usize, row: usize, seed: usize| -> Vec<T> {
            numbers((rows * row).max(k).max(1), seed as u64).into_iter().map(of).collect()
        };
        operands.push((random(m, row_a, 2 * i), random(n, row_b, 2 * i + 1)));
    }
    let uploaded: Vec<_> =
        operands.iter().map(|(a, b)| (device.upload(a).unwrap(), device.upload(b).unwrap())).collect();
    let poison = of(-777.0);
    let mut buffers: Vec<_> = shapes
        .iter()
        .map(|&([m, ..], [.., row_c])| device.upload(&vec![poison; (m * row_c).max(1)]).unwrap())
        .collect();
    let products: Vec<_> = shapes
        .iter()
        .zip(&uploaded)
        .map(|(&([m, n, k], [row_a, row_b, _]), (a, b))| {
            (Matrix::new(a, m, k, (row_a, 1)).unwrap(), Matrix::new(b, n, k, (row_b, 1)).unwrap())
        })
        .collect();
    let results = shapes
        .iter()
        .zip(&mut buffers)
        .map(|(&([m, n, _], [.., row_c]), c)| MatrixMut::new(c, m, n, (row_c, 1)).unwrap())
        .collect();
    GroupedList::new(device, &products, results).unwrap().run().unwrap();
    for ((([m, n, k], [row_a, row_b, row_c]), (a, b)), c) in shapes.into_iter().zip(&operands).zip(&buffers) {
        let c = c.download().unwrap();
        let (mut error, mut norm) = (0.0, 0.0);
        for i in 0..m {
            for j in 0..row_c {
                let got = value(c[i * row_c + j]);
                if j >= n {
                    assert_eq!(got, value(poison), "row {i} of {m} x {n} x {k} was written past its end");
                    continue;
                }
                let dot = |l: usize| value(a[i * row_a + l]) * value(b[j * row_b + l]);
                let wanted: f64 = (0..k).map(dot).sum();
                error += (got - wanted).powi(2);
                norm += wanted.powi(2);
            }
        }
        assert!(error.sqrt() <= tolerance * norm.sqrt(), "{m} x {n} x {k}: {error} of {norm}");
    }
}

#[test]
fn products_of_a_list_are_those_of_float64() {
    for device in harness::devices() {
        // Half a unit in the last place, and accumulators in f32 of up to 130 products.
        let sums = 12.0 * 2f64.powi(-23);
        check::<bf16>(&device, bf16::from_f32, bf16::to_f64, 2f64.powi(-8) + sums);
        check::<f16>(&device, f16::from_f32, f16::to_f64, 2f64.powi(-11) + sums);
    }
}

#[test]
fn lists_that_no_tensor_map_takes_are_refused_with_the_product() {
    let device = Device::sim();
    let halves = device.upload(&[bf16::ONE; 64]).unwrap();
    let mut c = device.alloc_uninit::<bf16>(4).unwrap();
    let of = |k, row| Matrix::new(&halves, 2, k, (row, 1)).unwrap();
    let mut refused = |a: Matrix<'_, bf16>, b: Matrix<'_, bf16>, text: &str| {
        let results = vec![MatrixMut::row_major(&mut c, 2, 2).unwrap()];
        let error = GroupedList::new(&device, &[(a, b)], results).err().expect("refused").to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(of(8, 8), of(16, 16), "product 0 is of [2, 8] and [2, 16] to [2, 2]");
    refused(of(8, 9), of(8, 8), "a of product 0 has strides [9, 1]");
}

#[test]
fn layers_of_experts_by_random_routing_are_those_of_float64() {
    check_random(&MOE, |seed, is_gpu| {
        let mut random = Random::new(seed);
        let most = if is_gpu && seed % 4 != 2 { 140 } else { 40 };
        let [hidden, width] = [0; 2].map(|_| 1 + random.below(most));
        let [most_tokens, most_experts, many] = if is_gpu { [300, 40, 100] } else { [60, 6, 24] };
        let (tokens, experts) = match seed % 4 {
            1 => (1, 1 + random.below(many)),
            // Most experts have no token.
            2 => (1 + random.below(most_tokens / 30), many - random.below(many / 4)),
            _ => (1 + random.below(most_tokens), 1 + random.below(most_experts)),
        };
        // All tokens choose one expert, in half of those cases no other.
        let only = (seed % 4 == 0).then(|| random.below(experts));
        let top = if seed % 8 == 0 { 1 } else { 1 + random.below(experts.min(most_experts / 2)) };
        let [is_plain, renormalise] = [0; 2].map(|_| random.one_in(2));
        let mut logit = |at: usize| {
            let logit = 3.0 * f64::from(random.unit());
            // Logits that are weights have no negative sum to divide by.
            let logit = if is_plain { 0.5 + logit.abs() } else { logit };
            if only == Some(at % experts) { logit + 7.0 } else { logit }
        };
        let logits: &[f64] = Vec::from_iter((0..tokens * experts).map(&mut logit)).leak();
        let shapes = [
            vec![tokens, hidden],
            vec![tokens, experts],
            vec![experts, 2 * width, hidden],
            vec![experts, hidden, width],
        ];
        let routing = if is_plain { "plain" } else { "softmax" };
        let options = vec![
            ("top", Value::Int(top as i64)),
            ("routing", Value::Choice(routing, &[])),
            ("renormalise", Value::Bool(renormalise)),
        ];
        Case::new(shapes.map(|shape| Some(&*shape.leak())).to_vec().leak())
            .values(vec![("logits", logits)].leak())
            .ranges(&[("x", -2.0, 2.0), ("gate_up", -0.5, 0.5), ("down", -0.5, 0.5)])
            .options(options.leak())
    });
}

const TOKENS: usize = 6;
const EXPERTS: usize = 3;
const HIDDEN: usize = 8;
const WIDTH: usize = 8;

/// A layer of three experts, two for each token.
fn layer(device: &Device, x: &[f32], logits: &[f32]) -> Vec<bf16> {
    let of = |values: &[f32]| {
        device.upload(&Vec::from_iter(values.iter().map(|&value| bf16::from_f32(value)))).unwrap()
    };
    let (x, logits) = (of(x), device.upload(logits).unwrap());
    let gate_up = of(&numbers(EXPERTS * 2 * WIDTH * HIDDEN, 1));
    let down = of(&numbers(EXPERTS * HIDDEN * WIDTH, 2));
    let mut out = device.alloc_uninit::<bf16>(TOKENS * HIDDEN).unwrap();
    Moe::new(
        Matrix::row_major(&x, TOKENS, HIDDEN).unwrap(),
        Matrix::row_major(&logits, TOKENS, EXPERTS).unwrap(),
        Matrix::row_major(&gate_up, EXPERTS * 2 * WIDTH, HIDDEN).unwrap(),
        Matrix::row_major(&down, EXPERTS * HIDDEN, WIDTH).unwrap(),
    )
    .run(device, &mut MatrixMut::row_major(&mut out, TOKENS, HIDDEN).unwrap())
    .unwrap();
    out.download().unwrap()
}

#[test]
fn nan_of_a_token_or_its_logits_reaches_no_other_token() {
    let (x, logits) = (numbers(TOKENS * HIDDEN, 3), numbers(TOKENS * EXPERTS, 4));
    let (mut with_nan, mut logits_with_nan) = (x.clone(), logits.clone());
    with_nan[HIDDEN] = f32::NAN;
    logits_with_nan[2 * EXPERTS + 1] = f32::NAN;
    for device in harness::devices() {
        let wanted = layer(&device, &x, &logits);
        let got = layer(&device, &with_nan, &logits_with_nan);
        for (token, (got, wanted)) in got.chunks(HIDDEN).zip(wanted.chunks(HIDDEN)).enumerate() {
            if token == 1 || token == 2 {
                assert!(got.iter().all(|value| value.is_nan()), "token {token}: {got:?}");
            } else {
                assert_eq!(got, wanted, "token {token}");
            }
        }
    }
}

#[test]
fn of_equal_logits_the_lower_experts_are_chosen() {
    let x = numbers(TOKENS * HIDDEN, 3);
    // The logit of the third expert is equal, or minimally less.
    let (equal, first_two) = ([1.0; TOKENS * EXPERTS], [1.0, 1.0, 1.0 - 1e-6].repeat(TOKENS));
    for device in harness::devices() {
        assert_eq!(layer(&device, &x, &equal), layer(&device, &x, &first_two));
    }
}
