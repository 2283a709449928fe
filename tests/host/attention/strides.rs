//! Strides that no contiguous tensor has: keys, values and scores that are broadcast or have gaps,
//! on the simulator and a GPU, compared with float64.

use crate::common::On;
use crate::oracle::{dot, row};
use crate::random::Random;
use half::bf16;
use moye::{Attention, Buffer, Device, Heads, HeadsMut};
use rstest::rstest;

const D: usize = 64;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const BATCHES: usize = 2;
const QUERIES: usize = 70;
const KEYS: usize = 90;

/// A tensor with strides between batches, heads and tokens, or between batches, heads, queries and
/// keys.
struct Strided<const N: usize> {
    values: Vec<bf16>,
    strides: [usize; N],
}

impl<const N: usize> Strided<N> {
    /// Random values for these extents; the gaps between elements are random too.
    fn new(extents: [usize; N], strides: [usize; N], columns: usize, seed: u64) -> Self {
        let last: usize = extents.iter().zip(strides).map(|(extent, stride)| (extent - 1) * stride).sum();
        let mut random = Random::new(seed);
        let values = (0..last + columns).map(|_| bf16::from_f32(random.normal())).collect();
        Self { values, strides }
    }

    fn at(&self, index: [usize; N]) -> usize {
        index.into_iter().zip(self.strides).map(|(index, stride)| index * stride).sum()
    }

    fn row(&self, index: [usize; N]) -> impl Iterator<Item = f64> {
        self.values[self.at(index)..][..D].iter().map(|x| x.to_f64())
    }
}

/// Queries and results are contiguous.
fn queries() -> Strided<3> {
    Strided::new([BATCHES, HEADS, QUERIES], [HEADS * QUERIES * D, QUERIES * D, D], D, 1)
}

/// Asserts that results equal the float64 ones by norm, where `score` modifies each scaled score.
fn assert_right(
    what: &str,
    got: &Buffer<bf16>,
    [q, k, v]: [&Strided<3>; 3],
    score: impl Fn([usize; 4], f64) -> f64,
) {
    let got = got.download().unwrap();
    let (mut error, mut norm) = (0.0, 0.0);
    for batch in 0..BATCHES {
        for head in 0..HEADS {
            let of_keys = head * KV_HEADS / HEADS;
            for query in 0..QUERIES {
                let scores = (0..KEYS).map(|key| {
                    let product = dot(q.row([batch, head, query]), k.row([batch, of_keys, key]));
                    (key, score([batch, head, query, key], product / 8.0))
                });
                let want = row(scores, f64::NEG_INFINITY, D, |key| v.row([batch, of_keys, key])).values;
                let got = &got[q.at([batch, head, query])..][..D];
                for (got, want) in got.iter().zip(want) {
                    error += (got.to_f64() - want) * (got.to_f64() - want);
                    norm += want * want;
                }
            }
        }
    }
    let relative = f64::sqrt(error / norm);
    assert!(relative < 1.0 / 256.0, "{what}: {relative:e} by norm");
}

/// A tensor of scores, and its strides.
enum Scores<'a> {
    None,
    Bias(&'a Buffer<bf16>, [usize; 4]),
    Mask(&'a Buffer<u8>, [usize; 4]),
}

/// The results of the call with this option.
fn attend(device: &Device, [q, k, v]: [&Strided<3>; 3], scores: Scores<'_>) -> Buffer<bf16> {
    let [q_data, k_data, v_data] = [q, k, v].map(|tensor| device.upload(&tensor.values).unwrap());
    let q_shape = [BATCHES, HEADS, QUERIES, D];
    let k_shape = [BATCHES, KV_HEADS, KEYS, D];
    let mut o = device.upload(&vec![bf16::NAN; q.values.len()]).unwrap();
    let call = Attention::new(
        Heads::strided(&q_data, q_shape, q.strides).unwrap(),
        Heads::strided(&k_data, k_shape, k.strides).unwrap(),
        Heads::strided(&v_data, k_shape, v.strides).unwrap(),
    );
    let call = match scores {
        Scores::None => call,
        Scores::Bias(bias, strides) => call.bias(bias, strides),
        Scores::Mask(mask, strides) => call.mask(mask, strides),
    };
    let mut target = HeadsMut::head_first(&mut o, q_shape).unwrap();
    call.run(device, &mut target).unwrap();
    drop(call);
    o
}

/// A tensor map may have strides of 0, so that TMA loads such keys.
#[rstest]
#[case::sequences_that_share_their_keys([0, KEYS * D, D], [0, KEYS * D, D])]
#[case::heads_that_share_their_values([2 * KEYS * D, KEYS * D, D], [KEYS * D, 0, D])]
#[case::tokens_that_share_a_value([2 * KEYS * D, KEYS * D, D], [D, D, 0])]
fn keys_and_values_with_strides_of_0_are_broadcast(
    #[case] of_k: [usize; 3],
    #[case] of_v: [usize; 3],
    #[values(On::Sim, On::Gpu)] on: On,
) {
    let Some(device) = on.device() else { return };
    let extents = [BATCHES, KV_HEADS, KEYS];
    let (q, k, v) = (queries(), Strided::new(extents, of_k, D, 2), Strided::new(extents, of_v, D, 3));
    let o = attend(&device, [&q, &k, &v], Scores::None);
    assert_right("broadcast", &o, [&q, &k, &v], |_, score| score);
}

/// Each case has strides between batches, heads, queries and keys.
#[rstest]
#[case::a_score_for_each_query([HEADS * QUERIES, QUERIES, 1, 0])]
#[case::one_score_for_each_head([HEADS, 1, 0, 0])]
#[case::gaps_between_keys([0, QUERIES * KEYS * 3, KEYS * 3, 3])]
#[case::gaps_between_queries_of_transposed_scores([0, 0, 2, QUERIES * 2 + 5])]
fn biases_and_masks_may_have_strides_of_0_and_gaps(
    #[case] strides: [usize; 4],
    #[values(On::Sim, On::Gpu)] on: On,
) {
    let Some(device) = on.device() else { return };
    let extents = [BATCHES, KV_HEADS, KEYS];
    let contiguous = [KV_HEADS * KEYS * D, KEYS * D, D];
    let (q, k, v) =
        (queries(), Strided::new(extents, contiguous, D, 2), Strided::new(extents, contiguous, D, 3));
    let bias = Strided::new([BATCHES, HEADS, QUERIES, KEYS], strides, 1, 4);
    let bytes: Vec<u8> = bias.values.iter().map(|x| u8::from(x.to_f32() > -1.0)).collect();
    let (scores, mask) = (device.upload(&bias.values).unwrap(), device.upload(&bytes).unwrap());

    let o = attend(&device, [&q, &k, &v], Scores::Bias(&scores, strides));
    assert_right("bias", &o, [&q, &k, &v], |index, score| score + bias.values[bias.at(index)].to_f64());

    if strides[3] > 0 {
        let o = attend(&device, [&q, &k, &v], Scores::Mask(&mask, strides));
        let sees = |index| bytes[bias.at(index)] == 1;
        assert_right(
            "mask",
            &o,
            [&q, &k, &v],
            |index, score| {
                if sees(index) { score } else { f64::NEG_INFINITY }
            },
        );
    }
}
