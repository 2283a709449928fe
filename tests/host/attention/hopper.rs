//! The kernels for Hopper through the call: which kernel is chosen, and random shapes compared with
//! float64 on the simulator and a GPU.

use crate::bytes::bytes;
use crate::case::{Broadcast, Case, HEADS, Order, Scores};
use crate::check::Kernels;
use crate::common::{self, On};
use crate::operands::{Laid, Operands};
use crate::random::Random;
use crate::reference::{Errors, assert_lse, each_row, row};
use half::{bf16, f16};
use moye::kernels::attention::ScoreStrides;
use moye::{Arch, Attention, AttentionElement, Device, Heads, HeadsMut};

/// A case that the kernels for Hopper support, with keys and values that a mask may hide and that
/// are NaN or infinite.
fn random_case(random: &mut Random, most: usize) -> Case {
    let (d, dv) = random.of(&HEADS);
    let group = random.of(&[1, 2, 4]);
    let lengths = (64 + random.below(most), 1 + random.below(2 * most));
    let mut case = Case::new(d, (1 + random.below(2), group * random.of(&[1, 2]), group), lengths);
    case.dv = dv;
    case.scale *= random.of(&[1.0, 1.0, 0.5, 2.0]);
    case.order = random.of(&[Order::HeadFirst, Order::TokenFirst, Order::Packed]);
    if case.order == Order::Packed {
        // One buffer: equal numbers of keys and queries, of KV heads and heads, and one head size.
        (case.group, case.k_length, case.dv) = (1, case.q_length, case.d);
    }
    case.window = match random.below(4) {
        0 => [i32::MAX, 0],
        1 => [random.below(100) as i32, 0],
        2 => [random.below(100) as i32, random.below(100) as i32],
        _ => [i32::MAX; 2],
    };
    if random.one_in(2) {
        let value = random.of(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        case.planted = vec![(random.below(case.batches), random.below(case.k_length), value)];
    }
    case
}

/// A case for the kernels for variable lengths, pages, splits and packed heads.
fn random_varied_case(random: &mut Random, most: usize) -> Case {
    let mut case = random_case(random, most);
    case.d = random.of(&[64, 80, 96, 128, 192, 256]);
    (case.dv, case.scale) = (case.d, random.of(&[1.0, 1.0, 0.5, 2.0]) / (case.d as f32).sqrt());
    if case.d == 192 && case.order != Order::Packed && random.one_in(2) {
        case.dv = 128;
    }
    case.q_length = random.of(&[1, 3, 17, 20, 40, 64, 130, 200]);
    case.k_length = 1 + random.below(3 * most);
    let packed = case.order == Order::Packed;
    if packed {
        case.k_length = case.q_length;
    }
    case.splits = random.of(&[0, 0, 2, 3]);
    case.sinks = random.one_in(3);
    let (q_length, k_length) = (case.q_length, case.k_length);
    // Pages are not packed.
    match if packed { random.of(&[0, 3]) } else { random.below(4) } {
        0 => {
            let length = |_| {
                let queries = random.below(q_length + 1);
                (queries, if packed { queries } else { random.below(k_length + 1) })
            };
            let mut lengths: Vec<_> = (0..case.batches).map(length).collect();
            // Each tensor has at least one row.
            lengths[0] = (lengths[0].0.max(1), lengths[0].1.max(1));
            case.lengths = Some(lengths);
        }
        1 => {
            // Queries of several lengths over a cache in pages.
            case.page = Some(random.of(&[16, 32, 64, 128, 256]));
            let length = |_| (random.below(q_length + 1), random.below(k_length + 1));
            let mut lengths: Vec<_> = (0..case.batches).map(length).collect();
            lengths[0].0 = lengths[0].0.max(1);
            case.lengths = Some(lengths);
        }
        2 => {
            case.page = Some(random.of(&[16, 64]));
            case.k_lengths = Some((0..case.batches).map(|_| random.below(k_length + 1)).collect());
        }
        // All of one length and in one tensor: the keys are split.
        _ => case.splits = case.splits.max(2),
    }
    if random.one_in(2) {
        case = case.with_score_options(random);
        if random.one_in(8) {
            // For the kernels for sm_80.
            case.scale = random.of(&[0.0, -case.scale]);
        }
    }
    for planted in &mut case.planted {
        planted.1 = random.below(k_length);
    }
    case
}

/// Fills the workspace that a GPU's default stream keeps with NaN, up to `bytes`: a larger call
/// with NaN queries leaves its partial results there. The simulator detects reads of uninitialised
/// memory.
fn poison_workspace(device: &Device, bytes: usize) {
    if bytes == 0 || !device.is_gpu() {
        return;
    }
    const D: usize = 64;
    const KEYS: usize = 256;
    let rows = bytes / (2 * 4 * (D + 1)) + 1;
    let q = device.upload(&vec![bf16::NAN; rows * D]).unwrap();
    let kv = device.upload(&vec![bf16::ONE; KEYS * D]).unwrap();
    let mut o = device.alloc_uninit::<bf16>(rows * D).unwrap();
    let keys = || Heads::head_first(&kv, [1, 1, KEYS, D]).unwrap();
    let mut target = HeadsMut::head_first(&mut o, [1, 1, rows, D]).unwrap();
    let call = Attention::new(Heads::head_first(&q, [1, 1, rows, D]).unwrap(), keys(), keys()).splits(2);
    assert!(call.explain(device, &target).unwrap().workspace_bytes >= bytes);
    call.run(device, &mut target).unwrap();
}

/// The kernel that was used for a case, and the errors.
type Checked = (&'static str, Errors);

/// Runs a case through the call, on a GPU twice. Asserts that a kernel for Hopper is used, that all
/// results are within their bounds, and that both runs have the same bits. With `splits` 0 the call
/// chooses them.
fn check<T: Kernels + AttentionElement<Output = T>>(device: &Device, case: &Case, seed: u64) -> Checked {
    // A GPU's `tanh.approx`; the simulator rounds the exact value.
    let tanh_error = if device.is_gpu() { (-11.0f64).exp2() } else { 0.0 };
    let case = &Case { tanh_error, ..case.clone() };
    let operands = Operands::<T>::new(case, &mut Random::new(seed));
    let Case { batches, heads, q_length, k_length, d, dv, .. } = *case;
    let strides = |laid: &Laid<T>| {
        [laid.strides.batch, laid.strides.head, laid.strides.row].map(|stride| stride as usize)
    };
    let rows_of = |offsets: &[i32], length: usize| match offsets.last() {
        Some(&rows) => (1, rows as usize),
        None => (batches, length),
    };
    let ((q_batches, q_rows), (mut k_batches, mut k_rows)) =
        (rows_of(&operands.q_offsets, q_length), rows_of(&operands.k_offsets, k_length));
    if let Some(page) = case.page {
        (k_batches, k_rows) = (operands.pages.len(), page);
    }
    let together = operands.packed(case).map(|values| device.upload(&values).unwrap());
    let apart = [&operands.q, &operands.k, &operands.v].map(|laid| device.upload(&laid.values).unwrap());
    let [q, k, v] = [0, 1, 2].map(|operand| match &together {
        Some(all) => all.slice(operand * heads * d..).unwrap(),
        None => apart[operand].slice(..).unwrap(),
    });
    let poison = vec![T::of(f32::NAN); operands.o.values.len()];
    let ints = |numbers: &[i32]| device.upload(numbers).unwrap();
    let offsets = [ints(&operands.q_offsets), ints(&operands.k_offsets)];
    let pages = ints(&operands.pages);
    let numbers_of_keys = case.numbers_of_keys();
    let k_lengths = ints(&numbers_of_keys);
    let sinks = device.upload(&operands.sinks).unwrap();
    let slopes = device.upload(&operands.slopes).unwrap();
    let (bias, mask) = (device.upload(&operands.bias).unwrap(), device.upload(&operands.mask).unwrap());
    let of_scores = |strides: &ScoreStrides| {
        [strides.batch, strides.head, strides.row, strides.column].map(|stride| stride as usize)
    };
    let of_queries = |columns| [q_batches, heads, q_rows, columns];
    let of_keys = |columns| [k_batches, case.kv_heads(), k_rows, columns];
    let attend = || {
        let mut o = device.upload(&poison).unwrap();
        let mut lse = device.upload(&vec![f32::NAN; q_batches * heads * q_rows]).unwrap();
        let mut call = Attention::new(
            Heads::strided(q.clone(), of_queries(d), strides(&operands.q)).unwrap(),
            Heads::strided(k.clone(), of_keys(d), strides(&operands.k)).unwrap(),
            Heads::strided(v.clone(), of_keys(dv), strides(&operands.v)).unwrap(),
        )
        .scale(case.scale)
        .lse(&mut lse);
        if case.splits > 0 {
            call = call.splits(case.splits);
        }
        if case.sinks {
            call = call.sinks(&sinks);
        }
        if case.softcap != 0.0 {
            call = call.softcap(case.softcap);
        }
        if case.alibi {
            call = call.alibi(&slopes);
        }
        if case.bias.is_some() {
            call = call.bias(&bias, of_scores(&operands.stride_bias));
        }
        if case.mask.is_some() {
            call = call.mask(&mask, of_scores(&operands.stride_mask));
        }
        // SAFETY: lengths, offsets and page numbers are those of the operands.
        unsafe {
            if case.lengths.is_some() && case.page.is_some() {
                call = call.variable_queries(&offsets[0], longest(case)[0]);
            } else if case.lengths.is_some() {
                call = call.variable_length(&offsets[0], &offsets[1], longest(case));
            }
            if case.page.is_some() {
                call = call.pages(&pages, operands.pages_per_sequence);
            }
            if !numbers_of_keys.is_empty() {
                call = call.key_lengths(&k_lengths);
            }
        }
        let limit = |limit: i32| (limit != i32::MAX).then_some(limit as u32);
        call = call.window(limit(case.window[0]), limit(case.window[1]));
        let mut target = HeadsMut::strided(&mut o, of_queries(dv), strides(&operands.o)).unwrap();
        let plan = call.explain(device, &target).unwrap();
        let kernel = plan.kernel.unwrap();
        let chunked = |scores: Option<Broadcast>| {
            scores
                .is_none_or(|scores| !scores.transposed && (scores.padded || case.k_length.is_multiple_of(8)))
        };
        let by_wgmma = longest(case)[0] * case.group > 16
            && case.scale > 0.0
            && (!case.changes_scores() || chunked(case.bias) && chunked(case.mask));
        assert!(kernel.starts_with("hopper_") || !by_wgmma, "{kernel} of {case:?}");
        poison_workspace(device, plan.workspace_bytes);
        call.run(device, &mut target).unwrap();
        drop(call);
        (kernel, o.download().unwrap(), lse.download().unwrap())
    };
    let (kernel, o, lse) = attend();
    if device.is_gpu() {
        let (_, again_o, again_lse) = attend();
        let same = bytes(&o) == bytes(&again_o) && bytes(&lse) == bytes(&again_lse);
        assert!(same, "a second run has other bits; {case:?}, seed {seed}, by {kernel}");
    }
    let errors = each_row(case, |batch, head, token, errors| {
        let want = row(case, &operands, batch, token, head);
        let what = format!("batch {batch}, head {head}, token {token} of {case:?}, seed {seed}, by {kernel}");
        let o = &o[operands.o_at(batch, token, head)..][..dv];
        errors.add(&what, case, &want, o);
        if want.results.lse == f64::NEG_INFINITY {
            assert!(o.iter().all(|o| o.value() == 0.0), "{what}: zeros");
        }
        let first = operands.q_offsets.get(batch).map_or(0, |&first| first as usize);
        let of_batch = if case.lengths.is_some() { 0 } else { batch };
        let got = f64::from(lse[(of_batch * heads + head) * q_rows + first + token]);
        assert_lse(&what, case, got, &want);
    });
    let mut written = vec![false; o.len()];
    for batch in 0..batches {
        for head in 0..heads {
            for token in 0..case.lengths_of(batch).0 {
                let at = operands.o_at(batch, token, head);
                written[at..at + dv].fill(true);
            }
        }
    }
    let touched = o.iter().zip(&written).position(|(o, written)| !written && !o.value().is_nan());
    assert_eq!(touched, None, "an element outside of the results was written; {case:?}, seed {seed}");
    let of_tanh = if case.softcap == 0.0 { 0.0 } else { tanh_error };
    assert!(
        errors.relative() <= T::ROUNDING + of_tanh,
        "{:e} by norm; {case:?}, seed {seed}",
        errors.relative()
    );
    (kernel, errors)
}

/// The maximum number of query and key tokens of a sequence.
fn longest(case: &Case) -> [usize; 2] {
    let lengths: Vec<_> = (0..case.batches).map(|batch| case.lengths_of(batch)).collect();
    let most = |of: fn(&(usize, usize)) -> usize| lengths.iter().map(of).max().unwrap_or(0);
    [most(|lengths| lengths.0), most(|lengths| lengths.1)]
}

fn random_cases(device: &Device, seeds: std::ops::Range<u64>, of: impl Fn(&mut Random) -> Case) -> Errors {
    let mut all = Errors::default();
    for seed in seeds {
        let case = of(&mut Random::new(seed));
        let (_, errors) = if seed % 2 == 0 {
            check::<bf16>(device, &case, seed)
        } else {
            check::<f16>(device, &case, seed)
        };
        all.merge(&errors);
    }
    all
}

/// Cases that use each kernel once: head size, tokens, whether the mask is causal, and the kernel
/// without its element type.
const EACH: [(usize, [usize; 2], bool, &str); 22] = [
    (64, [193, 150], false, "64"),
    (64, [130, 150], true, "64_causal"),
    (128, [130, 256], true, "128_causal"),
    (128, [64, 300], false, "128"),
    (80, [65, 200], true, "80"),
    (96, [130, 200], false, "96"),
    (192, [130, 150], true, "192"),
    (192, [65, 150], true, "192x128"),
    (256, [65, 150], true, "256"),
    (64, [200, 150], true, "64_varied"),
    (64, [20, 150], true, "64_few"),
    (128, [130, 150], true, "128_varied"),
    (128, [20, 150], true, "128_few"),
    (256, [130, 100], true, "256_varied"),
    (256, [20, 100], true, "256_few"),
    (64, [130, 140], true, "64_general"),
    (128, [20, 150], true, "128_general"),
    (80, [40, 100], true, "80_general"),
    (96, [40, 100], true, "96_general"),
    (192, [40, 100], true, "192_general"),
    (192, [40, 100], true, "192x128_general"),
    (256, [40, 100], true, "256_general"),
];

/// Runs each kernel once.
fn each_kernel(device: &Device) {
    for (number, (d, lengths, causal, kernel)) in EACH.into_iter().enumerate() {
        let splits = if kernel.ends_with("varied") || kernel.ends_with("few") { 2 } else { 1 };
        // The splitting kernels pack heads; for the others the simulator has one head.
        let heads = if device.is_gpu() { 2 } else { splits as usize };
        let mut case = Case::new(d, (1, heads, heads), lengths.into());
        case = if causal { case.causal() } else { case };
        case.dv = if kernel.starts_with("192x128") { 128 } else { d };
        if causal && device.is_gpu() {
            // Hidden from all rows but the last. The simulator recomputes such rows key by key,
            // which takes most of its time; there, fewer cases have hidden values.
            case.planted = vec![(0, lengths[1] - 1, f32::NAN)];
        }
        case.splits = splits;
        if kernel.ends_with("general") {
            case.alibi = true;
            case.bias =
                Some(Broadcast { batch: true, head: false, row: false, transposed: false, padded: true });
        }
        let seed = number as u64;
        assert_eq!(check::<bf16>(device, &case, seed).0, format!("hopper_bf16_{kernel}"));
        assert_eq!(check::<f16>(device, &case, seed).0, format!("hopper_f16_{kernel}"));
    }
}

#[test]
fn each_kernel_is_within_the_rounding_of_the_element_type_on_the_simulator() {
    let Some(device) = On::Sim.device() else { return };
    each_kernel(&device);
}

#[test]
fn random_shapes_are_within_the_rounding_of_the_element_type_on_the_simulator() {
    let Some(device) = On::Sim.device() else { return };
    random_cases(&device, 0..8, |random| random_case(random, 150).short());
}

#[test]
fn random_variable_lengths_pages_and_splits_are_within_the_rounding_of_the_element_type_on_the_simulator() {
    let Some(device) = On::Sim.device() else { return };
    random_cases(&device, 0..12, |random| random_varied_case(random, 100).short());
}

#[test]
fn hundreds_of_random_shapes_are_within_the_rounding_of_the_element_type_on_a_gpu() {
    let Some(device) = common::gpu() else { return };
    if device.arch() != Arch::new(9, 0) {
        eprintln!("skipped: {:?} has no kernels for Hopper", device.arch());
        return;
    }
    let count = if common::is_watched() { 20 } else { 200 };
    each_kernel(&device);
    let mut all = random_cases(&device, 100..100 + count, |random| random_case(random, 500));
    all.merge(&random_cases(&device, 1000..1000 + count, |random| random_varied_case(random, 500)));
    println!("{all}");
}

#[test]
fn hidden_values_that_are_not_finite_do_not_come_through() {
    let Some(device) = On::Sim.device() else { return };
    // Two tiles of keys. A value is hidden from half of the rows, another from all but five; rows
    // that see one are recomputed key by key.
    for (d, dv, keys, value) in [
        (64, 64, 200, f32::NAN),
        (80, 80, 200, f32::NAN),
        (96, 96, 200, f32::INFINITY),
        (128, 128, 170, f32::INFINITY),
        (192, 192, 130, f32::NAN),
        (192, 128, 130, f32::NAN),
        (256, 256, 130, f32::NEG_INFINITY),
    ] {
        let mut case = Case { dv, ..Case::new(d, (1, 1, 1), (70, keys)).causal() };
        case.planted = vec![(0, keys - 35, value), (0, keys - 5, value)];
        check::<bf16>(&device, &case, 3);
    }
}

/// Products of about 2^27, 2^21, 2^18 and -2^113, and low tiles next to others.
fn scores_of_any_size(device: &Device) {
    let of_f16 = [
        // 1.3e10 in heads of 64.
        Scores::Alike(40960.0),
        Scores::Product(32768.0, |key| [512.0, (8 * (key / 24 % 4)) as f32]),
        Scores::Product(32768.0, |key| [64.0, (8 * (key / 24 % 4)) as f32]),
        Scores::Product(32768.0, |key| [if key / 64 == 1 { 0.0 } else { -32768.0 }, 0.0]),
    ];
    let of_bf16 = [
        Scores::Product(2f32.powi(66), |_| [-2f32.powi(50), 0.0]),
        Scores::Product(2f32.powi(66), |key| [if key == 3 { 0.0 } else { -2f32.powi(50) }, 0.0]),
    ];
    let case = |d, scores| {
        let mut case = Case::new(d, (1, 1, 1), (65, 170));
        (case.scale, case.scores, case.splits) = (0.125, Some(scores), 1);
        case
    };
    for d in [64, 128, 256] {
        // On the simulator, larger heads get two of f16 and one of bf16.
        for (turn, scores) in of_f16.into_iter().enumerate() {
            if d == 64 || common::in_turn(device, turn + d / 128, 2) {
                check::<f16>(device, &case(d, scores), 1);
            }
        }
        for (turn, scores) in of_bf16.into_iter().enumerate() {
            if d == 64 || common::in_turn(device, turn + d / 128, 2) {
                check::<bf16>(device, &case(d, scores), 1);
            }
        }
    }
    // A soft cap far above scores of about 1 leaves them unchanged; equal scores far above it give
    // the mean of the values.
    for d in [64, 128] {
        let capped = |scores| Case { softcap: 1e8, scores, ..case(d, of_f16[0]) };
        check::<f16>(device, &capped(None), 1);
        check::<bf16>(device, &capped(None), 2);
        check::<f16>(device, &capped(Some(of_f16[0])), 3);
    }
}

#[test]
fn scores_of_any_size_have_their_softmax_on_the_simulator() {
    let Some(device) = On::Sim.device() else { return };
    scores_of_any_size(&device);
}

#[test]
fn scores_of_any_size_have_their_softmax_on_a_gpu() {
    let Some(device) = common::gpu() else { return };
    if device.arch() == Arch::new(9, 0) {
        scores_of_any_size(&device);
    }
}

#[test]
fn one_query_token_of_heads_of_128_takes_the_kernel_for_few_rows_where_its_keys_are_split() {
    let device = Device::sim();
    let data = device.alloc_uninit::<bf16>(512 * 128).unwrap();
    let table = device.alloc_zeroed::<i32>(64).unwrap();
    let kernel = |d: usize, splits: u32, page: usize| {
        let mut o = device.alloc_uninit::<bf16>(4 * d).unwrap();
        let target = HeadsMut::head_first(&mut o, [1, 4, 1, d]).unwrap();
        let (pages, tokens) = 512usize.checked_div(page).map_or((1, 512), |pages| (pages, page));
        let keys = || Heads::head_first(&data, [pages, 1, tokens, d]).unwrap();
        let mut call = Attention::new(Heads::head_first(&data, [1, 4, 1, d]).unwrap(), keys(), keys());
        if page > 0 {
            // SAFETY: nothing is launched.
            call = unsafe { call.pages(table.slice(..pages).unwrap(), pages) };
        }
        call.splits(splits).explain(&device, &target).unwrap().kernel.unwrap()
    };
    for page in [0, 16, 64, 256] {
        assert_eq!(kernel(128, 4, page), "hopper_bf16_128_few", "pages of {page}");
        assert_eq!(kernel(128, 1, page), "decode_bf16_128", "pages of {page}");
        assert_eq!(kernel(64, 4, page), "decode_bf16_64", "pages of {page}");
    }
    assert_eq!(kernel(128, 4, 8), "decode_bf16_128", "a box of TMA has 16 keys");
}

#[test]
fn options_choose_the_kernel_and_those_without_one_for_hopper_take_that_for_sm_80() {
    let device = Device::sim();
    let data = device.alloc_uninit::<bf16>(2 * 256 * 128).unwrap();
    let sinks = device.upload(&[0.0f32; 2]).unwrap();
    let kernel = |d: usize, with: &dyn Fn(Attention<'_, bf16>) -> Attention<'_, bf16>| {
        let shape = [1, 2, 256, d];
        let heads = || Heads::head_first(&data, shape).unwrap();
        let mut o = device.alloc_uninit::<bf16>(2 * 256 * 128).unwrap();
        let target = HeadsMut::head_first(&mut o, shape).unwrap();
        let call = with(Attention::new(heads(), heads(), heads()).splits(1));
        call.explain(&device, &target).unwrap().kernel.unwrap()
    };
    assert_eq!(kernel(128, &|call| call), "hopper_bf16_128_causal", "256 keys are two tiles of 128");
    assert_eq!(kernel(128, &|call| call.splits(2)), "hopper_bf16_128_varied");
    assert_eq!(kernel(64, &|call| call), "hopper_bf16_64");
    assert_eq!(kernel(64, &|call| call.causal()), "hopper_bf16_64_causal", "256 tokens are short");
    assert_eq!(kernel(96, &|call| call), "hopper_bf16_96");
    assert_eq!(kernel(96, &|call| call.splits(2)), "hopper_bf16_96_general");
    assert_eq!(kernel(80, &|call| call.splits(2)), "hopper_bf16_80_general");
    assert_eq!(kernel(64, &|call| call.softcap(3.0)), "hopper_bf16_64_general");
    assert_eq!(kernel(128, &|call| call.softcap(3.0).splits(2)), "hopper_bf16_128_general");
    assert_eq!(kernel(64, &|call| call.softcap(3.0).scale(-1.0)), "forward_bf16_64_general");
    assert_eq!(kernel(80, &|call| call.softcap(3.0)), "hopper_bf16_80_general");
    assert_eq!(kernel(80, &|call| call.softcap(3.0).scale(-1.0)), "forward_bf16_80_general");
    let mut o = device.alloc_uninit::<bf16>(2 * 256 * 64).unwrap();
    let heads = || Heads::head_first(&data, [1, 2, 256, 64]).unwrap();
    let target = HeadsMut::head_first(&mut o, [1, 2, 256, 64]).unwrap();
    let call = Attention::new(heads(), heads(), heads()).splits(1).sinks(&sinks);
    assert_eq!(call.explain(&device, &target).unwrap().kernel, Some("hopper_bf16_64_varied"));
}
