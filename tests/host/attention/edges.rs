//! Empty tensors, tokens outside any sequence, and strides that lead to no element.

use crate::common::On;
use half::bf16;
use moye::{Attention, Device, Heads, HeadsMut};
use rstest::rstest;

const D: usize = 64;

/// Results and log-sum-exp for (batches, heads, KV heads, queries, keys), with all elements 1.
fn attend(
    device: &Device,
    [batches, heads, kv_heads, queries, keys]: [usize; 5],
) -> moye::Result<(Vec<bf16>, Vec<f32>)> {
    let rows = batches * heads * queries;
    let q = device.upload(&vec![bf16::ONE; rows * D])?;
    let kv = device.upload(&vec![bf16::ONE; batches * kv_heads * keys * D])?;
    let mut o = device.upload(&vec![bf16::NAN; rows * D])?;
    let mut lse = device.upload(&vec![f32::NAN; rows])?;
    let of_keys = || Heads::head_first(&kv, [batches, kv_heads, keys, D]);
    let of_queries = [batches, heads, queries, D];
    Attention::new(Heads::head_first(&q, of_queries)?, of_keys()?, of_keys()?)
        .lse(&mut lse)
        .run(device, &mut HeadsMut::head_first(&mut o, of_queries)?)?;
    Ok((o.download()?, lse.download()?))
}

#[rstest]
#[case::no_batches([0, 2, 2, 5, 7])]
#[case::no_heads([2, 0, 0, 5, 7])]
#[case::no_query_heads([2, 0, 1, 5, 7])]
#[case::no_queries([2, 2, 1, 0, 7])]
fn an_empty_result_is_computed(#[case] extents: [usize; 5], #[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let (o, lse) = attend(&device, extents).unwrap();
    assert!(o.is_empty() && lse.is_empty());
}

#[rstest]
fn without_keys_results_are_0_and_the_log_sum_exp_is_minus_infinity(
    #[values(5, 70)] queries: usize,
    #[values(On::Sim, On::Gpu)] on: On,
) {
    let Some(device) = on.device() else { return };
    let (o, lse) = attend(&device, [2, 4, 2, queries, 0]).unwrap();
    assert!(o.iter().all(|&o| o == bf16::ZERO), "{o:?}");
    assert!(lse.iter().all(|&lse| lse == f32::NEG_INFINITY), "{lse:?}");
}

#[rstest]
fn tokens_of_no_sequence_keep_what_results_had(
    #[values(&[2, 5, 70][..], &[3][..])] offsets: &[i32],
    #[values(On::Sim, On::Gpu)] on: On,
) {
    let Some(device) = on.device() else { return };
    const TOKENS: usize = 80;
    let q = device.upload(&[bf16::ONE; TOKENS * D]).unwrap();
    let mut o = device.upload(&[bf16::from_f32(7.0); TOKENS * D]).unwrap();
    let mut lse = device.upload(&[7.0f32; TOKENS]).unwrap();
    let all = device.upload(offsets).unwrap();
    let shape = [1, 1, TOKENS, D];
    let tokens = || Heads::head_first(&q, shape).unwrap();
    // SAFETY: the offsets ascend to at most the tokens.
    let call = unsafe { Attention::new(tokens(), tokens(), tokens()).variable_length(&all, &all, [65, 65]) };
    call.lse(&mut lse).run(&device, &mut HeadsMut::head_first(&mut o, shape).unwrap()).unwrap();
    let (o, lse) = (o.download().unwrap(), lse.download().unwrap());
    let written = offsets[0] as usize..offsets[offsets.len() - 1] as usize;
    for token in 0..TOKENS {
        let want = if written.contains(&token) { 1.0 } else { 7.0 };
        assert!(o[token * D..][..D].iter().all(|o| o.to_f32() == want), "token {token} of {offsets:?}");
        assert_eq!(lse[token] == 7.0, want == 7.0, "token {token} of {offsets:?}: {}", lse[token]);
    }
}

#[test]
fn strides_that_lead_to_no_element_may_be_any() {
    let device = Device::sim();
    let data = device.upload(&[bf16::ONE; 70 * D]).unwrap();
    let mut o = device.alloc_uninit::<bf16>(70 * D).unwrap();
    let one = || Heads::strided(&data, [1, 1, 70, D], [3, 5, D]).unwrap();
    let mut target = HeadsMut::strided(&mut o, [1, 1, 70, D], [1, 7, D]).unwrap();
    Attention::new(one(), one(), one()).run(&device, &mut target).unwrap();
    assert!(o.download().unwrap().iter().all(|o| o.to_f32() == 1.0));
    let mut o = device.alloc_uninit::<bf16>(0).unwrap();
    let none = || Heads::strided(&data, [3, 0, 70, D], [1, 2, 3]).unwrap();
    let mut target = HeadsMut::strided(&mut o, [3, 0, 70, D], [1, 7, 3]).unwrap();
    Attention::new(none(), none(), none()).run(&device, &mut target).unwrap();
}
