//! Problems of 8-bit floats, softmax attention in f64, and error bounds of results.

use crate::attention::hopper::{E4m3D64, HopperConfig as _};
use crate::attention::{Strides, Window};
use crate::oracle;
use crate::random::Random;
use crate::reference::Errors;
use half::bf16;
use moye_device::number::F8E4M3;
use std::cell::OnceCell;

/// The unit roundoff of e4m3 and of bf16.
const ROUNDING: [f64; 2] = [1.0 / 16.0, 1.0 / 256.0];

#[derive(Clone, Debug)]
pub struct Case {
    pub d: usize,
    pub batches: usize,
    pub heads: usize,
    pub group: usize,
    pub q_length: usize,
    pub k_length: usize,
    pub window: Window,
    /// (batch, token, head, column) instead of (batch, head, token, column).
    pub token_first: bool,
    /// A factor for each head of each sequence, for each head, or one.
    pub scales: usize,
    /// Keys whose rows of K and V are NaN: (batch, key).
    pub planted: Vec<(usize, usize)>,
    pub blocks: u32,
    /// A factor that enlarges the factors of Q.
    pub larger: f32,
}

impl Case {
    pub fn random(random: &mut Random) -> Self {
        let d = random.of(&[64, 128, 128, 256]);
        let group = random.of(&[1, 1, 2, 4]);
        let q_length = random.of(&[1, 7, 64, 65, 127, 130, 200, 300]);
        let k_length = random.of(&[1, 15, 64, 65, 100, 129, 192, 200, 257, 400, 500]);
        let batches = 1 + random.below(2);
        let below = |most: usize, random: &mut Random| random.below(most) as i32;
        let window = match random.below(5) {
            0 | 1 => Window::CAUSAL,
            2 => Window { left: below(100, random), right: 0 },
            3 => Window { left: below(100, random), right: below(100, random) },
            _ => Window::ALL,
        };
        let mut case = Self {
            d,
            batches,
            heads: group * random.of(&[1, 2]),
            group,
            q_length,
            k_length,
            window,
            token_first: random.one_in(2),
            scales: random.below(3),
            planted: vec![],
            blocks: 1 + random.below(5) as u32,
            larger: 1.0,
        };
        if random.one_in(2) {
            case.planted =
                (0..1 + random.below(2)).map(|_| (random.below(batches), random.below(k_length))).collect();
        }
        case
    }

    /// The same case with fewer queries and keys, for the simulator: the keys that planted rows
    /// affect are recomputed one by one, which takes far longer than the tiles.
    pub fn short(mut self) -> Self {
        // A score takes all columns, for each part of a row of results.
        let [queries, keys] = match (self.planted.is_empty(), self.heads * self.d * self.d) {
            (true, _) if self.batches * self.heads <= 2 => [130, 257],
            (true, _) => [66, 130],
            (false, 0..=0x4000) => [66, 130],
            (false, 0x4001..=0x1_0000) => [34, 66],
            (false, _) => [20, 34],
        };
        (self.q_length, self.k_length) = (self.q_length.min(queries), self.k_length.min(keys));
        self.planted.iter_mut().for_each(|(_, key)| *key %= self.k_length);
        self
    }

    /// The strides of a tensor of `heads` heads of `tokens` tokens.
    fn strides(&self, heads: usize, tokens: usize) -> Strides {
        let (d, heads, tokens) = (self.d as i64, heads as i64, tokens as i64);
        let batch = heads * tokens * d;
        if self.token_first {
            Strides { batch, row: heads * d, head: d }
        } else {
            Strides { batch, row: d, head: tokens * d }
        }
    }

    /// The position of a head's factor, and the strides of [`Scale`].
    fn scale_strides(&self, heads: usize) -> [u32; 2] {
        [[heads as u32, 1], [0, 1], [0, 0]][self.scales]
    }
}

pub fn at(strides: &Strides, batch: usize, head: usize, token: usize) -> usize {
    (strides.batch * batch as i64 + strides.head * head as i64 + strides.row * token as i64) as usize
}

/// One operand: elements, factors, strides.
pub struct Operand {
    pub elements: Vec<F8E4M3>,
    /// The elements' values, once they no longer change.
    values: OnceCell<Vec<f64>>,
    pub factors: Vec<f32>,
    pub strides: Strides,
    pub scale_strides: [u32; 2],
}

impl Operand {
    fn new(case: &Case, heads: usize, tokens: usize, random: &mut Random) -> Self {
        let size = case.batches * heads * tokens * case.d;
        Self {
            elements: (0..size).map(|_| F8E4M3::from_f32(4.0 * random.normal())).collect(),
            values: OnceCell::new(),
            factors: (0..case.batches * heads)
                .map(|_| 0.1 + 0.4 * random.below(100) as f32 / 100.0)
                .collect(),
            strides: case.strides(heads, tokens),
            scale_strides: case.scale_strides(heads),
        }
    }

    /// A row of values, without its factor.
    fn row(&self, case: &Case, batch: usize, head: usize, token: usize) -> &[f64] {
        let values =
            self.values.get_or_init(|| self.elements.iter().map(|e| f64::from(e.to_f32())).collect());
        &values[at(&self.strides, batch, head, token)..][..case.d]
    }

    fn factor(&self, batch: usize, head: usize) -> f64 {
        let [of_batch, of_head] = self.scale_strides.map(|stride| stride as usize);
        f64::from(self.factors[batch * of_batch + head * of_head])
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.elements.iter().map(|element| element.to_bits()).collect()
    }
}

/// A row in float64, the bounds of its errors and the log-sum-exp.
fn reference(
    case: &Case,
    [q, k, v]: [&Operand; 3],
    batch: usize,
    head: usize,
    token: usize,
) -> (Vec<[f64; 2]>, f64) {
    let kv_head = head / case.group;
    let query = q.row(case, batch, head, token);
    let product = q.factor(batch, head) * k.factor(batch, kv_head) / (case.d as f64).sqrt();
    let factor = v.factor(batch, kv_head);
    let Window { left, right } = case.window;
    let distance = |key| oracle::distance(token, key, [case.q_length, case.k_length]);
    let seen: Vec<usize> =
        (0..case.k_length).filter(|&key| oracle::sees(distance(key), [left, right])).collect();
    let score = |key: usize| {
        let key_row = k.row(case, batch, kv_head, key);
        (key, oracle::dot(query.iter().copied(), key_row.iter().copied()) * product)
    };
    let value = |key: usize| v.row(case, batch, kv_head, key).iter().map(|v| factor * v);
    let row = oracle::row(seen.iter().map(|&key| score(key)), f64::NEG_INFINITY, case.d, value);
    // Half of the smallest number, beside the largest probability of `2^OFFSET`.
    let smallest = f64::powi(2.0, -10 - E4m3D64::<F8E4M3>::OFFSET as i32) / row.total;
    let mut bounds: Vec<f64> = row.magnitudes.iter().map(|magnitude| magnitude * ROUNDING[0]).collect();
    for &key in &seen {
        bounds.iter_mut().zip(value(key)).for_each(|(bound, v)| *bound += smallest * v.abs());
    }
    (row.values.into_iter().zip(bounds).map(|(value, bound)| [value, bound]).collect(), row.lse)
}

impl Case {
    pub fn kv_heads(&self) -> usize {
        self.heads / self.group
    }

    pub fn rows(&self) -> usize {
        self.batches * self.heads * self.q_length
    }

    /// Q, K and V.
    pub fn operands(&self, seed: u64) -> [Operand; 3] {
        let random = &mut Random::new(seed);
        let mut q = Operand::new(self, self.heads, self.q_length, random);
        q.factors.iter_mut().for_each(|factor| *factor *= self.larger);
        let mut keys = [(); 2].map(|()| Operand::new(self, self.kv_heads(), self.k_length, random));
        for &(batch, key) in &self.planted {
            for head in 0..self.kv_heads() {
                for operand in &mut keys {
                    let first = at(&operand.strides, batch, head, key);
                    operand.elements[first..first + self.d].fill(F8E4M3::NAN);
                }
            }
        }
        let [k, v] = keys;
        [q, k, v]
    }
}

/// Compares results and, if given, the log-sum-exp of all rows, contiguous (batch, head, token).
pub fn compare(case: &Case, [q, k, v]: &[Operand; 3], o: &[bf16], lse: Option<&[f32]>, seed: u64) -> Errors {
    let mut errors = Errors::of_rows(case.rows());
    for batch in 0..case.batches {
        for head in 0..case.heads {
            for token in 0..case.q_length {
                let (want, want_lse) = reference(case, [q, k, v], batch, head, token);
                let what = format!("batch {batch}, head {head}, token {token} of {case:?}, seed {seed}");
                let first = at(&q.strides, batch, head, token);
                for (column, [want, bound]) in want.into_iter().enumerate() {
                    let got = o[first + column].to_f64();
                    if want.is_nan() {
                        assert!(got.is_nan(), "{what}, column {column}: {got}, expected NaN");
                        continue;
                    }
                    // Tensor cores accumulate products of 8-bit floats with about 13 bits.
                    let bound = 1.1 * (bound + ROUNDING[1] * want.abs()) + 1e-6;
                    assert!(
                        (got - want).abs() <= bound,
                        "{what}, column {column}: {got}, expected {want}, off by more than {bound:e}"
                    );
                    errors.add_element((got - want).abs(), bound, want);
                }
                let Some(lse) = lse else { continue };
                let got = f64::from(lse[(batch * case.heads + head) * case.q_length + token]);
                let same = got == want_lse
                    || got.is_nan() && want_lse.is_nan()
                    || (got - want_lse).abs() <= 2e-3 * (1.0 + want_lse.abs());
                assert!(same, "{what}: lse {got}, expected {want_lse}");
            }
        }
    }
    errors
}
