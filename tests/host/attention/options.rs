//! Options of the call: each result equals that of a call without the option on modified operands.

use crate::random::Random;
use half::bf16;
use moye::profile::Card;
use moye::{Attention, Buffer, Device, Heads, HeadsMut};

const D: usize = 64;

fn numbers(count: usize, seed: u64) -> Vec<bf16> {
    let mut random = Random::new(seed);
    (0..count).map(|_| bf16::from_f32(random.normal())).collect()
}

/// Queries, keys and values of `heads` query heads and one KV head, one batch.
struct Operands {
    heads: usize,
    tokens: [usize; 2],
    q: Vec<bf16>,
    k: Vec<bf16>,
    v: Vec<bf16>,
}

impl Operands {
    fn new(heads: usize, [queries, keys]: [usize; 2], seed: u64) -> Self {
        Self {
            heads,
            tokens: [queries, keys],
            q: numbers(heads * queries * D, seed),
            k: numbers(keys * D, seed + 1),
            v: numbers(keys * D, seed + 2),
        }
    }

    /// The results, contiguous (batch, token, head, column), of the first `keys` keys.
    fn causal(&self, device: &Device, keys: usize) -> Vec<bf16> {
        let [q, k, v] = [&self.q, &self.k, &self.v].map(|data| device.upload(data).unwrap());
        let mut o = device.alloc_uninit::<bf16>(self.q.len()).unwrap();
        let shape = [1, self.tokens[0], self.heads, D];
        let heads = |buffer| Heads::head_first(buffer, [1, 1, keys, D]).unwrap();
        Attention::new(Heads::token_first(&q, shape).unwrap(), heads(&k), heads(&v))
            .causal()
            .run(device, &mut HeadsMut::token_first(&mut o, shape).unwrap())
            .unwrap();
        o.download().unwrap()
    }
}

fn assert_close(got: &[bf16], want: &[bf16]) {
    assert_eq!(got.len(), want.len());
    let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(want).map(|(a, b)| a.to_f64() - b.to_f64()));
    let relative = error / norm(&mut want.iter().map(|x| x.to_f64()));
    assert!(relative < 1.0 / 128.0, "{relative:e} by norm");
}

fn upload(device: &Device, parts: &[&[bf16]]) -> Buffer<bf16> {
    device.upload(&parts.concat()).unwrap()
}

#[test]
fn sequences_of_variable_length_attend_only_to_their_own_keys() {
    let device = Device::sim();
    let [a, b] = [Operands::new(2, [70, 90], 1), Operands::new(2, [5, 130], 4)];
    let q = upload(&device, &[&a.q, &b.q]);
    let k = upload(&device, &[&a.k, &b.k]);
    let v = upload(&device, &[&a.v, &b.v]);
    let offsets = [device.upload(&[0, 70, 75]).unwrap(), device.upload(&[0, 90, 220]).unwrap()];
    let mut o = device.alloc_uninit::<bf16>(75 * 2 * D).unwrap();
    let keys = |buffer| Heads::token_first(buffer, [1, 220, 1, D]).unwrap();
    let call = Attention::new(Heads::token_first(&q, [1, 75, 2, D]).unwrap(), keys(&k), keys(&v)).causal();
    // SAFETY: the offsets ascend to the tensors' tokens, and the longest sequences have 70 and 130.
    let call = unsafe { call.variable_length(&offsets[0], &offsets[1], [70, 130]) };
    call.run(&device, &mut HeadsMut::token_first(&mut o, [1, 75, 2, D]).unwrap()).unwrap();
    let o = o.download().unwrap();
    assert_close(&o[..a.q.len()], &a.causal(&device, 90));
    assert_close(&o[a.q.len()..], &b.causal(&device, 130));
}

#[test]
fn heads_of_every_size_are_decoded_on_gpus_with_99_kib_of_shared_memory() {
    let device = Device::sim_of(&Card::named("RTX 4090").unwrap());
    for d in [64, 80, 96, 128, 192, 256] {
        let data = device.upload(&numbers(40 * d, d as u64)).unwrap();
        let mut o = device.alloc_uninit::<bf16>(d).unwrap();
        let keys = || Heads::head_first(&data, [1, 1, 40, d]).unwrap();
        let query = Heads::head_first(data.slice(..d).unwrap(), [1, 1, 1, d]).unwrap();
        let mut target = HeadsMut::head_first(&mut o, [1, 1, 1, d]).unwrap();
        Attention::new(query, keys(), keys()).run(&device, &mut target).unwrap();
        assert!(o.download().unwrap().iter().all(|o| o.is_finite()), "{d}");
    }
}

#[test]
fn pages_with_offsets_of_keys_are_refused() {
    let device = Device::sim();
    let data = device.upload(&numbers(64 * D, 1)).unwrap();
    let mut o = device.alloc_uninit::<bf16>(4 * D).unwrap();
    let numbers = device.upload(&[0, 4]).unwrap();
    let table = device.upload(&[0, 1, 2, 3]).unwrap();
    let keys = || Heads::head_first(&data, [4, 1, 16, D]).unwrap();
    let query = Heads::head_first(data.slice(..4 * D).unwrap(), [1, 1, 4, D]).unwrap();
    let mut target = HeadsMut::head_first(&mut o, [1, 1, 4, D]).unwrap();
    // SAFETY: the call is refused before it reads them.
    let call = unsafe {
        Attention::new(query, keys(), keys()).variable_length(&numbers, &numbers, [4, 4]).pages(&table, 4)
    };
    let error = call.run(&device, &mut target).unwrap_err().to_string();
    assert!(error.contains("give `variable_queries` and `key_lengths` with pages"), "{error}");
}

#[test]
fn a_cache_in_pages_that_is_filled_in_part_gives_what_its_keys_give_in_a_row() {
    let (device, page) = (Device::sim(), 16);
    let operands = Operands::new(4, [3, 128], 1);
    // The sequence's pages in reverse order.
    let reversed = |data: &[bf16]| -> Buffer<bf16> {
        let pages: Vec<_> = data.chunks(page * D).rev().collect();
        upload(&device, &pages)
    };
    let (k, v) = (reversed(&operands.k), reversed(&operands.v));
    let q = device.upload(&operands.q).unwrap();
    let table = device.upload(&[7, 6, 5, 4, 3, 2, 1, 0]).unwrap();
    let lengths = device.upload(&[100]).unwrap();
    let mut o = device.alloc_uninit::<bf16>(operands.q.len()).unwrap();
    let shape = [1, 3, 4, D];
    let pages = |buffer| Heads::head_first(buffer, [8, 1, page, D]).unwrap();
    let call = Attention::new(Heads::token_first(&q, shape).unwrap(), pages(&k), pages(&v)).causal();
    // SAFETY: there are 8 pages, and room for 128 keys.
    let call = unsafe { call.pages(&table, 8).key_lengths(&lengths) };
    call.run(&device, &mut HeadsMut::token_first(&mut o, shape).unwrap()).unwrap();
    assert_close(&o.download().unwrap(), &operands.causal(&device, 100));
}

#[test]
fn a_mask_or_a_bias_of_a_triangle_is_the_causal_mask() {
    let device = Device::sim();
    let operands = Operands::new(2, [70, 70], 1);
    let want = operands.causal(&device, 70);
    let [q, k, v] = [&operands.q, &operands.k, &operands.v].map(|data| device.upload(data).unwrap());
    let shape = [1, 70, 2, D];
    let heads = |buffer| Heads::head_first(buffer, [1, 1, 70, D]).unwrap();
    let call = || Attention::new(Heads::token_first(&q, shape).unwrap(), heads(&k), heads(&v));
    let bytes = |pitch: usize| -> Vec<u8> {
        (0..70 * pitch).map(|i| u8::from(i % pitch <= i / pitch && i % pitch < 70)).collect()
    };
    // Rows that start at multiples of 8 elements are read 8 keys at a time.
    for (pitch, kernel) in [(70, "forward_bf16_64_general"), (72, "hopper_bf16_64_general")] {
        let bytes = bytes(pitch);
        let scores: Vec<_> =
            bytes.iter().map(|&sees| if sees == 1 { bf16::ZERO } else { bf16::NEG_INFINITY }).collect();
        let (mask, bias) = (device.upload(&bytes).unwrap(), device.upload(&scores).unwrap());
        for call in [call().mask(&mask, [0, 0, pitch, 1]), call().bias(&bias, [0, 0, pitch, 1])] {
            let mut o = device.alloc_uninit::<bf16>(operands.q.len()).unwrap();
            let mut target = HeadsMut::token_first(&mut o, shape).unwrap();
            assert_eq!(call.explain(&device, &target).unwrap().kernel, Some(kernel));
            call.run(&device, &mut target).unwrap();
            assert_close(&o.download().unwrap(), &want);
        }
    }
    let mask = device.upload(&bytes(70)).unwrap();
    let error = call().mask(&mask, [0, 0, 71, 1]);
    let mut o = device.alloc_uninit::<bf16>(operands.q.len()).unwrap();
    let error =
        error.run(&device, &mut HeadsMut::token_first(&mut o, shape).unwrap()).unwrap_err().to_string();
    assert!(error.contains("the mask of (batch, head, query, key) [1, 2, 70, 70]"), "{error}");
}

#[test]
fn calls_without_batches_heads_or_tokens_have_nothing_to_launch() {
    let device = Device::sim();
    let data = device.alloc_uninit::<bf16>(8 * D).unwrap();
    for (q, k) in [([0, 2, 4, D], [0, 2, 4, D]), ([1, 0, 4, D], [1, 2, 4, D]), ([1, 2, 0, D], [1, 2, 4, D])] {
        let mut o = device.alloc_uninit::<bf16>(0).unwrap();
        let mut target = HeadsMut::head_first(&mut o, q).unwrap();
        let tensor = |extents| Heads::head_first(&data, extents).unwrap();
        let call = Attention::new(tensor(q), tensor(k), tensor(k));
        assert_eq!(call.explain(&device, &target).unwrap().kernel, None, "{q:?}");
        call.run(&device, &mut target).unwrap();
    }
    let keys = Heads::head_first(&data, [1, 0, 4, D]).unwrap();
    let mut o = device.alloc_uninit::<bf16>(0).unwrap();
    let mut target = HeadsMut::head_first(&mut o, [1, 0, 4, D]).unwrap();
    Attention::new(keys.clone(), keys.clone(), keys).run(&device, &mut target).unwrap();
    assert!(Heads::head_first(&data, [usize::MAX; 4]).is_err());
}
