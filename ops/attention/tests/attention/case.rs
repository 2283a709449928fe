//! A problem: sizes, options, operands as `f32` values exact in the element type, and their
//! locations in buffers.

use crate::attention::UNLIMITED;
use crate::random::Random;

/// The options and sizes of a problem. `None` means off.
#[derive(Clone, Debug)]
pub struct Case {
    pub d: usize,
    pub dv: usize,
    pub batches: usize,
    pub heads: usize,
    pub group: usize,
    pub q_length: usize,
    pub k_length: usize,
    /// Lengths by batch, up to `q_length` and `k_length`: offsets; with pages, of queries only.
    pub lengths: Option<Vec<(usize, usize)>>,
    /// Lengths of the keys only, up to `k_length`.
    pub k_lengths: Option<Vec<usize>>,
    /// Tokens per page.
    pub page: Option<usize>,
    pub order: Order,
    pub window: [i32; 2],
    pub scale: f32,
    pub softcap: f32,
    /// The relative error of the hyperbolic tangent of a soft cap.
    pub tanh_error: f64,
    pub alibi: bool,
    /// One slope per head and batch, not per head.
    pub slopes_of_batch: bool,
    pub bias: Option<Broadcast>,
    pub mask: Option<Broadcast>,
    pub sinks: bool,
    pub lse: bool,
    pub splits: u32,
    pub pack: bool,
    /// Use the kernel for 16 query rows.
    pub decode: bool,
    /// Rows of V that are NaN or infinite, `(batch, key, value)`. Rows of K are too if the value is
    /// NaN or the key is odd.
    pub planted: Vec<(usize, usize, f32)>,
    /// Given scores of any size instead of random ones.
    pub scores: Option<Scores>,
}

/// Scores of the keys, the same for all queries, with intermediates exact in f32.
#[derive(Clone, Copy, Debug)]
pub enum Scores {
    /// Products of 0, plus this bias.
    Bias(fn(usize) -> f32),
    /// Queries of the first value and 1, and keys of these two, then zeros.
    Product(f32, fn(usize) -> [f32; 2]),
    /// Queries and keys of this value only.
    Alike(f32),
}

/// The kernel for sm_80 that serves a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// For options that leave scores unchanged.
    Plain,
    /// For all options.
    General,
    /// For all options and few query rows.
    Decode,
}

/// The head sizes of keys and values.
pub const HEADS: [(usize, usize); 7] =
    [(64, 64), (80, 80), (96, 96), (128, 128), (192, 192), (192, 128), (256, 256)];

/// The order of the modes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// (batch, head, token, column)
    HeadFirst,
    /// (batch, token, head, column)
    TokenFirst,
    /// Queries, keys and values of a token are adjacent in one buffer.
    Packed,
}

/// The modes along which a tensor of scores is broadcast.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast {
    pub batch: bool,
    pub head: bool,
    pub row: bool,
    /// Columns are not contiguous: another order of modes.
    pub transposed: bool,
    /// Rows begin at multiples of 8 elements; otherwise they are contiguous.
    pub padded: bool,
}

impl Broadcast {
    pub fn random(random: &mut Random) -> Self {
        Self {
            batch: random.one_in(2),
            head: random.one_in(2),
            row: random.one_in(3),
            transposed: random.one_in(3),
            padded: random.one_in(2),
        }
    }
}

impl Case {
    /// Plain attention.
    pub fn new(
        d: usize,
        (batches, heads, group): (usize, usize, usize),
        (q_length, k_length): (usize, usize),
    ) -> Self {
        Self {
            d,
            dv: d,
            batches,
            heads,
            group,
            q_length,
            k_length,
            lengths: None,
            k_lengths: None,
            page: None,
            order: Order::HeadFirst,
            window: [UNLIMITED; 2],
            scale: 1.0 / (d as f32).sqrt(),
            softcap: 0.0,
            tanh_error: 0.0,
            alibi: false,
            slopes_of_batch: false,
            bias: None,
            mask: None,
            sinks: false,
            lse: true,
            splits: 1,
            pack: false,
            decode: false,
            planted: vec![],
            scores: None,
        }
    }

    pub fn causal(mut self) -> Self {
        self.window[1] = 0;
        self
    }

    /// A random case for each seed. With the element type by `seed % 2`, 42 successive seeds cover
    /// each kernel once.
    pub fn of_seed(seed: u64) -> Self {
        let number = seed as usize / 2;
        let which = [Which::Plain, Which::General, Which::Decode][number / HEADS.len() % 3];
        Self::random_of(&mut Random::new(seed), HEADS[number % HEADS.len()], which)
    }

    fn random_of(random: &mut Random, (d, dv): (usize, usize), which: Which) -> Self {
        let packed = random.one_in(8) && d == dv;
        let group = if packed { 1 } else { random.of(&[1, 1, 2, 3, 4, 8]) };
        let kv_heads = random.of(&[1, 1, 2]);
        let decode = which == Which::Decode;
        let q_length = if decode { random.below(20) } else { random.of(&[0, 1, 7, 64, 65, 127, 130, 200]) };
        let k_length = if packed { q_length } else { random.of(&[0, 1, 15, 64, 65, 100, 129, 200, 257]) };
        let batches = 1 + random.below(3);
        let mut case = Self::new(d, (batches, group * kv_heads, group), (q_length, k_length));
        case.dv = dv;
        case.decode = decode;
        case.order = if packed { Order::Packed } else { random.of(&[Order::HeadFirst, Order::TokenFirst]) };
        match random.below(5) {
            0 => {
                let length = |most: usize, random: &mut Random| random.below(most + 1);
                let lengths = (0..batches).map(|_| {
                    let queries = length(q_length, random);
                    (queries, if packed { queries } else { length(k_length, random) })
                });
                case.lengths = Some(lengths.collect());
            }
            1 => case.k_lengths = Some((0..batches).map(|_| random.below(k_length + 1)).collect()),
            _ => {}
        }
        if !packed && which != Which::Plain && random.one_in(3) {
            case.page = Some(random.of(&[4, 16, 16, 32, 64, 256]));
        }
        case.window = match random.below(5) {
            0 | 1 => [UNLIMITED, 0],
            2 => [random.below(100) as i32, 0],
            3 => [random.below(100) as i32, random.below(100) as i32],
            _ => [UNLIMITED; 2],
        };
        let general = which != Which::Plain;
        if general && random.one_in(6) {
            case.softcap = 3.0;
        }
        case.alibi = general && random.one_in(6);
        if general && random.one_in(6) {
            case.bias = Some(Broadcast::random(random));
        }
        if general && random.one_in(6) {
            case.mask = Some(Broadcast::random(random));
        }
        case.sinks = random.one_in(5);
        case.lse = !random.one_in(4);
        case.splits = random.of(&[1, 1, 2, 5, 9, 40]);
        case.pack = group > 1 && random.one_in(2);
        if k_length > 0 && random.one_in(3) {
            let value = random.of(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
            case.planted = (0..1 + random.below(3))
                .map(|_| (random.below(batches), random.below(k_length), value))
                .collect();
        }
        if which == Which::General && !case.is_general() {
            case.alibi = true;
        }
        case.slopes_of_batch = case.alibi && random.one_in(2);
        if random.one_in(4) {
            case.scale *= random.of(if general { &[0.5, 2.0, -1.0, 0.0] } else { &[0.5, 2.0, 0.5, 2.0] });
        }
        case
    }

    /// The same case with fewer queries and keys, for the simulator: at most a tile of queries and
    /// a part of one, and several tiles of keys. Rows that planted values reach are recomputed key
    /// by key, which takes far longer than the tiles.
    pub fn short(mut self) -> Self {
        // Each part of a row of results recomputes the scores over all columns.
        let [mut queries, keys] = match (self.planted.is_empty(), self.heads * self.d * self.d) {
            (true, _) if self.batches * self.heads <= 2 => [130, 257],
            (true, _) if self.batches * self.heads <= 6 => [130, 130],
            (true, _) => [34, 70],
            (false, 0..=0x4000) => [66, 130],
            (false, 0x4001..=0x1_0000) => [34, 66],
            (false, _) => [20, 34],
        };
        if self.order == Order::Packed {
            queries = keys;
        }
        (self.q_length, self.k_length) = (self.q_length.min(queries), self.k_length.min(keys));
        for lengths in self.lengths.iter_mut().flatten() {
            *lengths = (lengths.0.min(queries), lengths.1.min(keys));
        }
        self.k_lengths.iter_mut().flatten().for_each(|length| *length = (*length).min(keys));
        self.planted.iter_mut().for_each(|(_, key, _)| *key %= self.k_length);
        self
    }

    /// The key lengths, if neither offsets nor the tensor contain them.
    pub fn numbers_of_keys(&self) -> Vec<i32> {
        match (&self.lengths, self.page) {
            (Some(lengths), Some(_)) => lengths.iter().map(|&(_, keys)| keys as i32).collect(),
            _ => self.k_lengths.iter().flatten().map(|&keys| keys as i32).collect(),
        }
    }

    pub fn kv_heads(&self) -> usize {
        self.heads / self.group
    }

    /// Query and key tokens of a batch.
    pub fn lengths_of(&self, batch: usize) -> (usize, usize) {
        match (&self.lengths, &self.k_lengths) {
            (Some(lengths), _) => lengths[batch],
            (_, Some(keys)) => (self.q_length, keys[batch]),
            _ => (self.q_length, self.k_length),
        }
    }

    /// Whether it needs a kernel with all options.
    pub fn is_general(&self) -> bool {
        self.decode || self.changes_scores() || self.page.is_some()
    }

    /// Whether an option changes single scores.
    pub fn changes_scores(&self) -> bool {
        self.softcap != 0.0 || self.alibi || self.bias.is_some() || self.mask.is_some() || self.scale <= 0.0
    }

    /// Adds options that change single scores: at least one of four.
    pub fn with_score_options(mut self, random: &mut Random) -> Self {
        let which = 1 + random.below(15);
        let is_on = |option: usize| which >> option & 1 == 1;
        self.softcap = if is_on(0) { random.of(&[3.0, 20.0, 1e5, 1e8]) } else { 0.0 };
        self.alibi = is_on(1);
        self.bias = is_on(2).then(|| Broadcast::random(random));
        self.mask = is_on(3).then(|| Broadcast::random(random));
        self.slopes_of_batch = self.alibi && random.one_in(2);
        self
    }
}
