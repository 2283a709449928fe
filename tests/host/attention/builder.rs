//! The call: orders of modes, options, errors with their values.

use crate::common::On;
use crate::oracle;
use crate::random::Random;
use half::bf16;
use moye::{Attention, Buffer, Device, Error, Heads, HeadsMut, Stream};
use rstest::rstest;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One row of attention in float64: the query, keys and values of its head that it sees.
fn row(q: &[bf16], keys: &[&[bf16]], values: &[&[bf16]]) -> Vec<f64> {
    let floats = |row: &[bf16]| row.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
    let scale = 1.0 / (q.len() as f64).sqrt();
    let score = |(key, k): (usize, &&[bf16])| (key, oracle::dot(floats(q), floats(k)) * scale);
    let scores = keys.iter().enumerate().map(score);
    oracle::row(scores, f64::NEG_INFINITY, values[0].len(), |key| floats(values[key])).values
}

fn numbers(count: usize, seed: u64) -> Vec<bf16> {
    let mut random = Random::new(seed);
    (0..count).map(|_| bf16::from_f32(random.normal())).collect()
}

#[test]
fn packed_queries_keys_and_values_of_tokens_give_causal_attention() {
    let (device, tokens, heads, d) = (Device::sim(), 70, 2, 64);
    let width = heads * d;
    let host = numbers(tokens * 3 * width, 1);
    let qkv = device.upload(&host).unwrap();
    let part = |i: usize| {
        let elements = qkv.slice(i * width..).unwrap();
        Heads::strided(elements, [1, heads, tokens, d], [3 * tokens * width, d, 3 * width]).unwrap()
    };
    let mut o = device.alloc_uninit::<bf16>(tokens * width).unwrap();
    let mut lse = device.alloc_uninit::<f32>(heads * tokens).unwrap();
    let call = Attention::new(part(0), part(1), part(2)).causal().lse(&mut lse);
    let mut target = HeadsMut::token_first(&mut o, [1, tokens, heads, d]).unwrap();
    assert_eq!(call.explain(&device, &target).unwrap().kernel, Some("hopper_bf16_64_causal"));
    call.run(&device, &mut target).unwrap();
    drop(call);
    let o = o.download().unwrap();
    let at =
        |token: usize, part: usize, head: usize| &host[token * 3 * width + part * width + head * d..][..d];
    let (mut squares, mut of) = (0.0, 0.0);
    for head in 0..heads {
        for token in 0..tokens {
            let keys: Vec<_> = (0..=token).map(|key| at(key, 1, head)).collect();
            let values: Vec<_> = (0..=token).map(|key| at(key, 2, head)).collect();
            for (column, want) in row(at(token, 0, head), &keys, &values).into_iter().enumerate() {
                squares += (o[token * width + head * d + column].to_f64() - want).powi(2);
                of += want * want;
            }
        }
    }
    assert!((squares / of).sqrt() < 1.0 / 256.0, "{:e} by norm", (squares / of).sqrt());
    assert!(lse.download().unwrap().iter().all(|lse| lse.is_finite()));
}

#[test]
fn the_same_call_has_the_same_bits_whatever_runs_beside() {
    let device = Device::sim();
    let [q, k, v] = [1, 2, 3].map(|seed| device.upload(&numbers(8 * 200 * 64, seed)).unwrap());
    let bits = || {
        let mut o = device.alloc_uninit::<bf16>(8 * 2 * 64).unwrap();
        let keys = |k| Heads::head_first(k, [1, 2, 200, 64]).unwrap();
        let call =
            Attention::new(Heads::head_first(&q, [1, 8, 2, 64]).unwrap(), keys(&k), keys(&v)).splits(3);
        let mut target = HeadsMut::head_first(&mut o, [1, 8, 2, 64]).unwrap();
        let explanation = call.explain(&device, &target).unwrap();
        assert_eq!(
            (explanation.kernel, explanation.pack, explanation.splits),
            (Some("decode_bf16_64"), 4, 3)
        );
        assert_eq!(explanation.workspace_bytes, 4 * 3 * 16 * 66);
        call.run(&device, &mut target).unwrap();
        o.download().unwrap()
    };
    assert_eq!(bits(), bits());
}

#[test]
fn queries_without_keys_have_zeros_and_minus_infinity() {
    let device = Device::sim();
    let q = device.upload(&numbers(3 * 64, 1)).unwrap();
    let none = device.alloc_uninit::<bf16>(0).unwrap();
    let mut o = device.upload(&numbers(3 * 64, 2)).unwrap();
    let mut lse = device.alloc_uninit::<f32>(3).unwrap();
    let keys = || Heads::head_first(&none, [1, 1, 0, 64]).unwrap();
    Attention::new(Heads::head_first(&q, [1, 1, 3, 64]).unwrap(), keys(), keys())
        .lse(&mut lse)
        .run(&device, &mut HeadsMut::head_first(&mut o, [1, 1, 3, 64]).unwrap())
        .unwrap();
    assert!(o.download().unwrap().iter().all(|&o| o == bf16::ZERO));
    assert_eq!(lse.download().unwrap(), [f32::NEG_INFINITY; 3]);
}

#[test]
fn a_call_that_does_not_fit_is_refused_with_its_values() {
    let device = Device::sim();
    let data = device.alloc_uninit::<bf16>(4096).unwrap();
    let mut o = device.alloc_uninit::<bf16>(4096).unwrap();
    let tensor = |extents: [usize; 4]| Heads::head_first(&data, extents).unwrap();
    let mut refused = |q: [usize; 4], k: [usize; 4], v: [usize; 4], says: &str| {
        let [batch, heads, tokens, _] = q;
        let mut target = HeadsMut::head_first(&mut o, [batch, heads, tokens, v[3]]).unwrap();
        let error = Attention::new(tensor(q), tensor(k), tensor(v))
            .run(&device, &mut target)
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    };
    let shape = [1, 2, 4, 64];
    refused(shape, [1, 2, 4, 128], [1, 2, 4, 128], "q [1, 2, 4, 64], k [1, 2, 4, 128]");
    refused([1, 3, 4, 64], shape, shape, "3 query heads and 2 KV heads");
    refused(
        [1, 2, 4, 48],
        [1, 2, 4, 48],
        [1, 2, 4, 48],
        "heads of 48 columns with values of 48 have no kernel",
    );
    refused(shape, [2, 2, 4, 64], [2, 2, 4, 64], "1 batches of queries and 2 of keys");
    let mut target = HeadsMut::head_first(&mut o, shape).unwrap();
    let odd = Heads::strided(data.slice(4..).unwrap(), shape, [512, 256, 64]).unwrap();
    let error = Attention::new(odd, tensor(shape), tensor(shape)).run(&device, &mut target).unwrap_err();
    assert!(
        matches!(&error, Error::Unsupported { detail, .. } if detail.contains("8 bytes past a multiple of 16")),
        "{error}"
    );
    let error = Attention::new(tensor(shape), tensor(shape), tensor(shape))
        .splits(1000)
        .run(&device, &mut target)
        .unwrap_err()
        .to_string();
    assert!(error.contains("1000 splits: there are 1 to 128"), "{error}");
    let sinks = device.upload(&[1.0f32; 3]).unwrap();
    let error = Attention::new(tensor(shape), tensor(shape), tensor(shape))
        .sinks(&sinks)
        .run(&device, &mut target)
        .unwrap_err()
        .to_string();
    assert!(error.contains("the sinks: 3 elements instead of 2, the query heads"), "{error}");
}

#[test]
fn a_causal_mask_and_a_window_both_hold_in_either_order() {
    let (device, shape) = (Device::sim(), [1, 1, 40, 64]);
    let operands = [1, 2, 3].map(|seed| device.upload(&numbers(40 * 64, seed)).unwrap());
    let attend = |options: &dyn Fn(Attention<'_, bf16>) -> Attention<'_, bf16>| {
        let [q, k, v] = operands.each_ref().map(|operand| Heads::head_first(operand, shape).unwrap());
        let mut o = device.alloc_uninit::<bf16>(40 * 64).unwrap();
        let mut target = HeadsMut::head_first(&mut o, shape).unwrap();
        options(Attention::new(q, k, v)).run(&device, &mut target).unwrap();
        o.download().unwrap()
    };
    let want = attend(&|call| call.window(Some(3), Some(0)));
    assert_eq!(attend(&|call| call.causal().window(Some(3), None)), want);
    assert_eq!(attend(&|call| call.window(Some(3), Some(5)).causal()), want);
    assert_ne!(attend(&|call| call.window(Some(3), None)), want, "without a causal mask");
    assert_ne!(attend(&|call| call.causal()), want, "without a window");
}

#[test]
fn scales_and_soft_caps_whose_product_with_a_maximum_overflows_are_refused() {
    let (device, shape) = (Device::sim(), [1, 1, 2, 64]);
    let data = device.alloc_uninit::<bf16>(2 * 64).unwrap();
    let mut o = device.alloc_uninit::<bf16>(2 * 64).unwrap();
    let heads = || Heads::head_first(&data, shape).unwrap();
    let call = || Attention::new(heads(), heads(), heads());
    for (call, says) in [
        (call().scale(2e8), "the scale is 200000000: it must be from -100000000 to 100000000"),
        (call().scale(f32::NAN), "the scale is NaN"),
        (call().softcap(-1.0), "the softcap is -1: it must be from 0 to 100000000"),
        (call().softcap(f32::INFINITY), "the softcap is inf"),
    ] {
        let mut target = HeadsMut::head_first(&mut o, shape).unwrap();
        let error = call.run(&device, &mut target).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[rstest]
fn a_caller_gives_the_workspace_of_splits_in_calls_and_in_captures(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let (heads, keys, d) = (2, 200, 64);
    let host = [numbers(heads * d, 1), numbers(heads * keys * d, 2), numbers(heads * keys * d, 3)];
    let [q, k, v] = host.each_ref().map(|values| device.upload(values).unwrap());
    let mut o = device.alloc_uninit::<bf16>(heads * d).unwrap();
    // NaN, of which a call receives the first multiple of 256 bytes.
    let mut memory = device.alloc_uninit::<u8>(1 << 16).unwrap();
    memory.fill_bytes(0xFF).unwrap();
    let skipped = memory.address().next_multiple_of(256) - memory.address();
    let address = memory.address() + skipped;
    let last = Arc::new(AtomicUsize::new(0));
    let allocate = || {
        let last = last.clone();
        move |bytes| {
            last.store(bytes, Relaxed);
            Ok(address)
        }
    };
    let call = |stream: &Stream, o: &mut Buffer<bf16>| {
        let of = |values, tokens| Heads::head_first(values, [1, heads, tokens, d]);
        let call = Attention::new(of(&q, 1)?, of(&k, keys)?, of(&v, keys)?).splits(3);
        let mut target = HeadsMut::head_first(o, [1, heads, 1, d])?;
        let bytes = call.explain(&device, &target)?.workspace_bytes;
        // SAFETY: no other stream uses the buffers.
        unsafe { call.run_on(stream, &mut target)? };
        assert!(bytes > 0 && last.load(Relaxed) == bytes, "{bytes} bytes");
        Ok(())
    };
    let check = |o: &mut Buffer<bf16>, memory: &mut Buffer<u8>, how: &str| {
        let got = o.download().unwrap();
        for head in 0..heads {
            let of_head = |i: usize| host[i][head * keys * d..][..keys * d].chunks(d).collect::<Vec<_>>();
            let want = row(&host[0][head * d..][..d], &of_head(1), &of_head(2));
            let norm = |of: &dyn Fn(usize) -> f64| (0..d).map(|i| of(i).powi(2)).sum::<f64>().sqrt();
            let error = norm(&|i| got[head * d + i].to_f64() - want[i]) / norm(&|i| want[i]);
            assert!(error < 1e-2, "{device:?}, {how}: {error}");
        }
        let (used, end) = (memory.download().unwrap(), skipped as usize + last.load(Relaxed));
        assert!(used[..end].iter().any(|&byte| byte != 0xFF), "{device:?}, {how}: it is used");
        assert!(used[end..].iter().all(|&byte| byte == 0xFF), "{device:?}, {how}: no byte more");
        o.fill_bytes(0xFF).unwrap();
        memory.fill_bytes(0xFF).unwrap();
    };
    let stream = device.new_stream().unwrap();
    // SAFETY: one launch at a time uses the memory, which the test keeps.
    let stream = unsafe { stream.with_workspaces(allocate()) };
    call(&stream, &mut o).unwrap();
    stream.synchronize().unwrap();
    check(&mut o, &mut memory, "called");
    // SAFETY: one launch at a time uses the memory, which the test keeps.
    let capture = device.capture(|stream| call(&unsafe { stream.with_workspaces(allocate()) }, &mut o));
    let mut graph = capture.unwrap().instantiate().unwrap();
    for how in ["launched", "launched again"] {
        // SAFETY: no other work uses the buffers meanwhile.
        unsafe { graph.launch(&stream).unwrap() };
        stream.synchronize().unwrap();
        check(&mut o, &mut memory, how);
    }
    let refuse = |bytes| Err(Error::Workspace { bytes, reason: "there is none".to_owned() });
    // SAFETY: nothing is launched.
    let error = call(&unsafe { stream.with_workspaces(refuse) }, &mut o).unwrap_err().to_string();
    assert!(
        error.starts_with("an operation needs a workspace of ") && error.ends_with("there is none"),
        "{error}"
    );
}
