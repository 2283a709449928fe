//! The kernels for Hopper by way of the call: which of them serves, and random shapes against
//! float64 on the simulator and a GPU.

use crate::case::{Case, Order};
use crate::check::Kernels;
use crate::common::{self, On};
use crate::operands::{Laid, Operands};
use crate::random::Random;
use crate::reference::{Errors, row};
use half::{bf16, f16};
use moye::{Arch, Attention, AttentionElement, Device, Heads, HeadsMut};

/// A case of what the kernels for Hopper serve, with keys and values that a mask may hide and that
/// are no numbers.
fn random_case(random: &mut Random, most: usize) -> Case {
    let d = random.of(&[64, 128, 256]);
    let group = random.of(&[1, 2, 4]);
    let lengths = (130 + random.below(most), 1 + random.below(2 * most));
    let mut case = Case::new(d, (1 + random.below(2), group * random.of(&[1, 2]), group), lengths);
    case.order = random.of(&[Order::HeadFirst, Order::TokenFirst]);
    case.window = match random.below(4) {
        0 => [i32::MAX, 0],
        1 => [random.below(100) as i32, 0],
        2 => [random.below(100) as i32, random.below(100) as i32],
        _ => [i32::MAX; 2],
    };
    if random.one_in(2) {
        let value = random.of(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        case.planted = vec![(random.below(case.batches), random.below(lengths.1), value)];
    }
    case
}

/// Runs a case by the call, and asserts that a kernel for Hopper serves it and that all results are
/// within their bounds.
fn check<T: Kernels + AttentionElement>(device: &Device, case: &Case, seed: u64) {
    let operands = Operands::<T>::new(case, &mut Random::new(seed));
    let Case { batches, heads, q_length, k_length, d, .. } = *case;
    let strides = |laid: &Laid<T>| {
        [laid.strides.batch, laid.strides.head, laid.strides.row].map(|stride| stride as usize)
    };
    let [q, k, v] = [&operands.q, &operands.k, &operands.v].map(|laid| device.upload(&laid.values).unwrap());
    let poison = vec![T::of(f32::NAN); operands.o.values.len()];
    let mut o = device.upload(&poison).unwrap();
    let mut lse = device.upload(&vec![f32::NAN; batches * heads * q_length]).unwrap();
    let kv = [batches, case.kv_heads(), k_length, d];
    let mut call = Attention::new(
        Heads::strided(&q, [batches, heads, q_length, d], strides(&operands.q)).unwrap(),
        Heads::strided(&k, kv, strides(&operands.k)).unwrap(),
        Heads::strided(&v, kv, strides(&operands.v)).unwrap(),
    )
    .scale(case.scale)
    .splits(1)
    .lse(&mut lse);
    let limit = |limit: i32| (limit != i32::MAX).then_some(limit as u32);
    call = call.window(limit(case.window[0]), limit(case.window[1]));
    let mut target = HeadsMut::strided(&mut o, [batches, heads, q_length, d], strides(&operands.o)).unwrap();
    let kernel = call.explain(device, &target).unwrap().kernel.unwrap();
    assert!(kernel.starts_with("hopper_"), "{kernel} of {case:?}");
    call.run(device, &mut target).unwrap();
    drop(call);
    let (o, lse) = (o.download().unwrap(), lse.download().unwrap());
    let mut written = vec![false; o.len()];
    let mut errors = Errors::default();
    for batch in 0..batches {
        for head in 0..heads {
            for token in 0..q_length {
                let want = row(case, &operands, batch, token, head);
                let what = format!(
                    "batch {batch}, head {head}, token {token} of {case:?}, seed {seed}, by {kernel}"
                );
                let at = operands.o_at(batch, token, head);
                errors.take_in(&what, case, &want, &o[at..at + d]);
                written[at..at + d].fill(true);
                if want.lse == f64::NEG_INFINITY {
                    assert!(o[at..at + d].iter().all(|o| o.value() == 0.0), "{what}: zeros");
                }
                let got = f64::from(lse[(batch * heads + head) * q_length + token]);
                let bound = 4e-6 * (1.0 + want.largest_score) * (1.0 + (d as f64).sqrt());
                let same =
                    got == want.lse || want.lse.is_nan() && got.is_nan() || (got - want.lse).abs() <= bound;
                assert!(same, "{what}: lse {got}, expected {}", want.lse);
            }
        }
    }
    let touched = o.iter().zip(&written).position(|(o, written)| !written && !o.value().is_nan());
    assert_eq!(touched, None, "an element outside of the results was written; {case:?}, seed {seed}");
    assert!(errors.relative() <= T::ROUNDING, "{:e} by norm; {case:?}, seed {seed}", errors.relative());
}

fn random_cases(device: &Device, seeds: std::ops::Range<u64>, most: usize) {
    for seed in seeds {
        let case = random_case(&mut Random::new(seed), most);
        if seed % 2 == 0 {
            check::<bf16>(device, &case, seed);
        } else {
            check::<f16>(device, &case, seed);
        }
    }
}

#[test]
fn random_shapes_are_within_the_rounding_of_the_element_type_on_the_simulator() {
    let Some(device) = On::Sim.device() else { return };
    random_cases(&device, 0..16, 150);
}

#[test]
fn hundreds_of_random_shapes_are_within_the_rounding_of_the_element_type_on_a_gpu() {
    let Some(device) = common::gpu() else { return };
    if device.arch() != Arch::new(9, 0) {
        eprintln!("skipped: {:?} has no kernels for Hopper", device.arch());
        return;
    }
    let count = if common::is_watched() { 20 } else { 200 };
    random_cases(&device, 100..100 + count, 500);
}

#[test]
fn hidden_values_that_are_no_numbers_do_not_come_through() {
    let Some(device) = On::Sim.device() else { return };
    for (d, value) in [(64, f32::NAN), (128, f32::INFINITY), (256, f32::NEG_INFINITY)] {
        let mut case = Case::new(d, (1, 1, 1), (200, 200)).causal();
        case.planted = vec![(0, 100, value), (0, 150, value)];
        check::<bf16>(&device, &case, 3);
    }
}

#[test]
fn options_that_hopper_has_no_kernel_for_take_the_kernels_for_sm_80() {
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
    assert_eq!(kernel(64, &|call| call.causal()), "hopper_bf16_64");
    assert_eq!(kernel(96, &|call| call), "forward_bf16_96");
    assert_eq!(kernel(64, &|call| call.softcap(3.0)), "forward_bf16_64_general");
    let mut o = device.alloc_uninit::<bf16>(2 * 256 * 64).unwrap();
    let heads = || Heads::head_first(&data, [1, 2, 256, 64]).unwrap();
    let target = HeadsMut::head_first(&mut o, [1, 2, 256, 64]).unwrap();
    let call = Attention::new(heads(), heads(), heads()).splits(1).sinks(&sinks);
    assert_eq!(call.explain(&device, &target).unwrap().kernel, Some("forward_bf16_64"));
}
