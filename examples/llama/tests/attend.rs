//! Attention of the next token against float64.

use crate::oracle;
use half::f16;
use moye::operation::harness::devices;
use moye_llama::attend::{Attend, Place, TokenBuffers};
use moye_llama::cache::LayerCache;
use moye_llama::config::{Config, Rotation};
use moye_llama::layer::Batch;

/// The heads of a model.
#[derive(Clone, Copy, Debug)]
struct Shape {
    heads: usize,
    kv_heads: usize,
    /// Elements of a head, and those of them that are rotated.
    head: usize,
    rotated: usize,
    /// Whether the elements of a pair are adjacent.
    adjacent: bool,
}

const SHAPES: [Shape; 4] = [
    Shape { heads: 3, kv_heads: 1, head: 64, rotated: 64, adjacent: true },
    Shape { heads: 10, kv_heads: 2, head: 128, rotated: 128, adjacent: false },
    Shape { heads: 2, kv_heads: 2, head: 80, rotated: 80, adjacent: false },
    Shape { heads: 1, kv_heads: 1, head: 192, rotated: 64, adjacent: true },
];
/// Tokens of each sequence, including the new one: none, one split, and several.
const LENGTHS: [usize; 4] = [1, 0, 16, 133];
const PAGE: usize = 16;
const PAGES_OF_ROW: usize = 9;

fn config(Shape { heads, kv_heads, head, rotated, adjacent }: Shape) -> Config {
    let angles = (0..rotated / 2).map(|pair| 100.0f64.powf(-2.0 * pair as f64 / rotated as f64)).collect();
    Config {
        layers: 1,
        width: heads * head,
        inner: 64,
        heads,
        kv_heads,
        head,
        vocabulary: 1,
        context: PAGES_OF_ROW * PAGE,
        epsilon: 1e-5,
        rotation: Rotation { elements: rotated, adjacent, angles },
    }
}

fn rotate(head: &[f64], position: usize, rotation: &Rotation) -> Vec<f64> {
    let mut result = head.to_vec();
    for (pair, angle) in rotation.angles.iter().enumerate() {
        let (sin, cos) = (position as f64 * angle).sin_cos();
        let half = rotation.elements / 2;
        let (i, j) = if rotation.adjacent { (2 * pair, 2 * pair + 1) } else { (pair, pair + half) };
        (result[i], result[j]) = (head[i] * cos - head[j] * sin, head[j] * cos + head[i] * sin);
    }
    result
}

/// The attention of a query over keys and values in token order.
fn attended(q: &[f64], k: &[Vec<f64>], v: &[Vec<f64>]) -> Vec<f64> {
    let scale = 1.0 / (q.len() as f64).sqrt();
    let score = |k: &Vec<f64>| scale * oracle::dot(q.iter().copied(), k.iter().copied());
    let scores = k.iter().map(score).enumerate();
    oracle::row(scores, f64::NEG_INFINITY, q.len(), |key| v[key].iter().copied()).values
}

#[test]
fn the_next_token_attends_to_its_pages_and_itself_and_is_appended_to_them() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut halves =
        |count: usize| -> Vec<f16> { (0..count).map(|_| f16::from_f32(2.0 * random.f32() - 1.0)).collect() };
    for shape in SHAPES {
        let config = config(shape);
        let Shape { heads, kv_heads, head, .. } = shape;
        let (tokens, of_kv, row) = (LENGTHS.len(), kv_heads * head, config.qkv());
        let slots = tokens * config.context;
        // Pages in descending order.
        let pages: Vec<i32> = (0..(tokens * PAGES_OF_ROW) as i32).rev().collect();
        let slot = |sequence: usize, token: usize| {
            pages[sequence * PAGES_OF_ROW + token / PAGE] as usize * PAGE + token % PAGE
        };
        let (qkv, before) = (halves(tokens * row), halves(slots * 2 * of_kv));
        let places = |of: &dyn Fn(usize, usize) -> i32| -> Vec<i32> {
            LENGTHS.iter().enumerate().map(|(sequence, &length)| of(sequence, length)).collect()
        };
        let state = [
            places(&|_, length| length.saturating_sub(1) as i32),
            places(&|_, length| length as i32),
            places(&|sequence, length| if length == 0 { -1 } else { slot(sequence, length - 1) as i32 }),
        ];
        for device in devices() {
            let tables = config.tables(config.context).map(|table| device.upload(&table).unwrap());
            let (of_qkv, mut cache) = (device.upload(&qkv).unwrap(), device.upload(&before).unwrap());
            let mut o = device.upload(&vec![f16::NAN; tokens * heads * head]).unwrap();
            let of_pages = device.upload(&pages).unwrap();
            let state = state.each_ref().map(|numbers| device.upload(numbers).unwrap());
            let slice = |i: usize| state[i].slice(..).unwrap();
            let batch = Batch {
                tokens,
                positions: slice(0),
                lengths: slice(1),
                slots: slice(2),
                sequences: tokens,
                offsets: None,
                pages: (of_pages.slice(..).unwrap(), PAGES_OF_ROW),
            };
            // With the limit of a long context, a block computes several query heads of the second
            // shape.
            let keys = if heads == 10 { 4096 } else { config.context };
            let attend = Attend::with_tiles_of(32, &device, &config, tokens, keys).unwrap();
            let places = [0, heads * head, heads * head + of_kv].map(|start| Place { start, stride: row });
            let stream = device.default_stream();
            // Twice, because the first launch leaves its counters to the second. The second one can
            // read the token that the first appended only from `qkv`.
            for _ in 0..2 {
                let buffers = TokenBuffers { qkv: &of_qkv, places, o: &mut o };
                let of_layer = LayerCache { buffer: &mut cache, pages: tokens * PAGES_OF_ROW, page: PAGE };
                // SAFETY: one stream uses the buffers, which have the batch's tokens.
                unsafe { attend.run(&stream, &config, &batch, buffers, &tables, of_layer).unwrap() };
            }
            let (o, after) = (o.download().unwrap(), cache.download().unwrap());
            let mut wanted_cache = before.clone();
            for (sequence, &length) in LENGTHS.iter().enumerate() {
                let name = format!("{shape:?} of {length} on {}", device.name());
                let values = |from: &[f16]| -> Vec<f64> { from.iter().map(|x| x.to_f64()).collect() };
                let new = values(&qkv[sequence * row..][..row]);
                let o = values(&o[sequence * heads * head..][..heads * head]);
                if length == 0 {
                    assert!(o.iter().all(|&o| o == 0.0), "{name}");
                    continue;
                }
                let at = slot(sequence, length - 1) * 2 * of_kv;
                for kv_head in 0..kv_heads {
                    let of_key = &new[heads * head + kv_head * head..][..head];
                    let key = rotate(of_key, length - 1, &config.rotation);
                    let value = &new[heads * head + of_kv + kv_head * head..][..head];
                    let appended = |start: usize| values(&after[at + start + kv_head * head..][..head]);
                    for (is, wanted) in appended(0).iter().zip(&key) {
                        assert!((is - wanted).abs() < 1e-3, "{name}: {is} for a key of {wanted}");
                    }
                    assert_eq!(appended(of_kv), value, "{name}");
                    let cached = |start: usize| -> Vec<Vec<f64>> {
                        let token = |token| slot(sequence, token) * 2 * of_kv + start + kv_head * head;
                        (0..length - 1).map(|i| values(&before[token(i)..][..head])).collect()
                    };
                    let (mut k, mut v) = (cached(0), cached(of_kv));
                    k.push(key);
                    v.push(value.to_vec());
                    let group = heads / kv_heads;
                    for query in kv_head * group..(kv_head + 1) * group {
                        let q = rotate(&new[query * head..][..head], length - 1, &config.rotation);
                        let wanted = attended(&q, &k, &v);
                        let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
                        let is = &o[query * head..][..head];
                        let error = norm(&mut is.iter().zip(&wanted).map(|(is, wanted)| is - wanted));
                        let error = error / norm(&mut wanted.iter().copied());
                        assert!(error < 1e-3, "{name}, head {query}: a relative error of {error}");
                    }
                }
                wanted_cache[at..][..2 * of_kv].copy_from_slice(&after[at..][..2 * of_kv]);
            }
            assert_eq!(after, wanted_cache, "nothing else of the cache is written");
        }
    }
}
