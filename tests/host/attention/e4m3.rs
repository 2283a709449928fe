//! Attention of 8-bit floats through the call: random shapes compared with float64 on the simulator
//! and a GPU, and errors with their values.

use crate::bytes::bytes;
use crate::common;
use crate::e4m3_case::{Case, Operand, compare};
use crate::random::Random;
use crate::reference::Errors;
use half::bf16;
use moye::number::F8E4M3;
use moye::{Attention, Device, Error, Heads, HeadsMut};
use std::collections::BTreeMap;

/// Runs a case through the call if `takes` is true of its kernel, on a GPU twice with the same
/// bits.
fn run(
    device: &Device,
    case: &Case,
    seed: u64,
    mut takes: impl FnMut(&'static str) -> bool,
) -> Option<Errors> {
    let operands = case.operands(seed);
    let shape = |heads: usize, tokens: usize| [case.batches, heads, tokens, case.d];
    let (q_shape, k_shape) = (shape(case.heads, case.q_length), shape(case.kv_heads(), case.k_length));
    let strides = |operand: &Operand| {
        [operand.strides.batch, operand.strides.head, operand.strides.row].map(|stride| stride as usize)
    };
    let [q, k, v] = operands.each_ref().map(|operand| device.upload(&operand.elements).unwrap());
    let factors = operands.each_ref().map(|operand| {
        let [batch, head] = operand.scale_strides;
        let count = match (batch, head) {
            (0, 0) => 1,
            (0, _) => operand.factors.len() / case.batches,
            _ => operand.factors.len(),
        };
        device.upload(&operand.factors[..count]).unwrap()
    });
    // Calls without the log-sum-exp use other kernels.
    let with_lse = seed.is_multiple_of(2);
    let mut attend = || {
        let mut o = device.upload(&vec![bf16::NAN; case.rows() * case.d]).unwrap();
        let mut lse = device.upload(&vec![f32::NAN; case.rows()]).unwrap();
        let limit = |limit: i32| (limit != i32::MAX).then_some(limit as u32);
        let call = Attention::new(
            Heads::strided(&q, q_shape, strides(&operands[0])).unwrap(),
            Heads::strided(&k, k_shape, strides(&operands[1])).unwrap(),
            Heads::strided(&v, k_shape, strides(&operands[2])).unwrap(),
        )
        .scales(&factors[0], &factors[1], &factors[2])
        .window(limit(case.window.left), limit(case.window.right));
        let call = if with_lse { call.lse(&mut lse) } else { call };
        let mut target = HeadsMut::strided(&mut o, q_shape, strides(&operands[0])).unwrap();
        let kernel = call.explain(device, &target).unwrap().kernel.unwrap();
        assert!(kernel.starts_with("hopper_e4m3_"), "{kernel}");
        assert_eq!(kernel.ends_with("_lse"), with_lse && case.d != 256, "{kernel}");
        if !takes(kernel) {
            return None;
        }
        call.run(device, &mut target).unwrap();
        drop(call);
        Some((o.download().unwrap(), lse.download().unwrap()))
    };
    let (o, lse) = attend()?;
    if device.is_gpu() {
        let (again_o, again_lse) = attend()?;
        let same = bytes(&o) == bytes(&again_o) && bytes(&lse) == bytes(&again_lse);
        assert!(same, "a second run has other bits; {case:?}, seed {seed}");
    }
    Some(compare(case, &operands, &o, with_lse.then_some(&lse), seed))
}

/// All cases on a GPU, and two of each kernel on the simulator.
fn random_cases(device: &Device, seeds: impl IntoIterator<Item = u64>) {
    let mut all = Errors::default();
    let mut kernels = BTreeMap::new();
    for seed in seeds {
        let case = Case::random(&mut Random::new(seed));
        let case = if device.is_gpu() { case } else { case.short() };
        let takes = |kernel| {
            let count = kernels.entry(kernel).or_insert(0);
            *count += 1;
            device.is_gpu() || *count <= 2
        };
        if let Some(errors) = run(device, &case, seed, takes) {
            all.merge(&errors);
        }
        if !device.is_gpu() && kernels.len() == 6 && kernels.values().all(|&count| count >= 2) {
            break;
        }
    }
    assert!(device.is_gpu() || kernels.len() == 6, "kernels that ran: {kernels:?}");
    // The root mean square error of rounding to e4m3 is about 0.026 of a value.
    assert!(all.relative() <= 0.03, "{all}");
    println!("{all}");
}

#[test]
fn random_shapes_of_8_bit_floats_are_within_the_rounding_of_the_probabilities_on_the_simulator() {
    random_cases(&Device::sim(), 100..400);
}

#[test]
fn hundreds_of_random_shapes_of_8_bit_floats_are_within_the_rounding_of_the_probabilities_on_a_gpu() {
    let Some(device) = common::gpu() else { return };
    if device.arch() != moye::Arch::new(9, 0) {
        return;
    }
    random_cases(&device, 1000..if common::is_watched() { 1030 } else { 1300 });
}

const D: usize = 64;

#[test]
fn without_keys_results_are_zeros_and_without_scales_factors_are_1() {
    let device = Device::sim();
    let ones = device.upload(&[F8E4M3::from_f32(1.0); 3 * D]).unwrap();
    let none = device.alloc_uninit::<F8E4M3>(0).unwrap();
    let mut o = device.upload(&[bf16::NAN; 3 * D]).unwrap();
    let mut lse = device.upload(&[f32::NAN; 3]).unwrap();
    let shape = [1, 1, 3, D];
    let empty = || Heads::head_first(&none, [1, 1, 0, D]).unwrap();
    Attention::new(Heads::head_first(&ones, shape).unwrap(), empty(), empty())
        .lse(&mut lse)
        .run(&device, &mut HeadsMut::head_first(&mut o, shape).unwrap())
        .unwrap();
    assert!(o.download().unwrap().iter().all(|&o| o == bf16::ZERO));
    assert_eq!(lse.download().unwrap(), [f32::NEG_INFINITY; 3]);
    let keys = || Heads::head_first(&ones, shape).unwrap();
    Attention::new(keys(), keys(), keys())
        .run(&device, &mut HeadsMut::head_first(&mut o, shape).unwrap())
        .unwrap();
    assert!(o.download().unwrap().iter().all(|&o| o == bf16::ONE));
}

#[test]
fn what_8_bit_floats_are_not_served_with_is_refused_with_the_values_and_the_way_out() {
    let device = Device::sim();
    let data = device.upload(&[F8E4M3::from_f32(1.0); 8 * 128]).unwrap();
    let mut o = device.alloc_uninit::<bf16>(8 * 128).unwrap();
    let factors = device.upload(&[1.0f32; 3]).unwrap();
    let one = device.upload(&[1.0f32]).unwrap();
    let shape = [1, 2, 4, D];
    let tensor = |shape| Heads::head_first(&data, shape).unwrap();
    let call = || Attention::new(tensor(shape), tensor(shape), tensor(shape));
    let slopes = device.upload(&[1.0f32; 2]).unwrap();
    for (call, says) in [
        (call().scales(&factors, &one, &one), "the scales of q: 3 factors; give 1, 2 (one for each head)"),
        (
            call().alibi(&slopes).softcap(3.0),
            "with softcap, alibi: its kernels have masks by causal and window alone",
        ),
        (call().splits(2), "with splits"),
        (call().scale(-1.0), "with the scale -1: it must be positive"),
    ] {
        let mut target = HeadsMut::head_first(&mut o, shape).unwrap();
        let error = call.run(&device, &mut target).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let shape = [1, 2, 4, 96];
    let mut target = HeadsMut::head_first(&mut o, shape).unwrap();
    let error =
        Attention::new(tensor(shape), tensor(shape), tensor(shape)).run(&device, &mut target).unwrap_err();
    assert!(
        matches!(&error, Error::Unsupported { detail, .. } if detail.contains("there are 64/64, 128/128, 256/256")),
        "{error}"
    );
}

#[test]
fn calls_of_8_bit_floats_without_queries_have_nothing_to_launch_and_check_their_options() {
    let device = Device::sim();
    let data = device.upload(&[F8E4M3::from_f32(1.0); 8 * D]).unwrap();
    let factors = device.upload(&[1.0f32; 3]).unwrap();
    let one = device.upload(&[1.0f32]).unwrap();
    for (q, k) in [([0, 2, 4, D], [0, 2, 4, D]), ([1, 0, 4, D], [1, 2, 4, D]), ([1, 2, 0, D], [1, 2, 4, D])] {
        let mut o = device.alloc_uninit::<bf16>(0).unwrap();
        let mut target = HeadsMut::head_first(&mut o, q).unwrap();
        let tensor = |extents| Heads::head_first(&data, extents).unwrap();
        let call = || Attention::new(tensor(q), tensor(k), tensor(k));
        assert_eq!(call().explain(&device, &target).unwrap().kernel, None, "{q:?}");
        call().scales(&one, &one, &one).run(&device, &mut target).unwrap();
        let error = call().softcap(3.0).run(&device, &mut target).unwrap_err().to_string();
        assert!(error.contains("with softcap"), "{error}");
        let error = call().scales(&one, &factors, &one).run(&device, &mut target).unwrap_err().to_string();
        assert!(error.contains("the scales of k: 3 factors"), "{error}");
    }
}
