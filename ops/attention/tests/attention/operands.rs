//! Operands of a case in buffers, and the arguments that refer to them.

use crate::attention::{Arguments, Half, ScoreStrides, Strides, Window};
use crate::case::{Broadcast, Case, Order, Scores};
use crate::machine::{Buffer, Machine};
use crate::random::Random;
use moye_device::memory::{Global, GlobalMut};

/// A tested element type.
pub trait Tested: Half {
    /// Half the distance of the elements next to 1.
    const ROUNDING: f64;
    /// The smallest value with relative rounding.
    const SMALLEST: f64;

    fn of(value: f32) -> Self;
    fn value(self) -> f32;
}
impl Tested for half::bf16 {
    const ROUNDING: f64 = 1.0 / 256.0;
    const SMALLEST: f64 = 1.0e-38;

    fn of(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn value(self) -> f32 {
        self.to_f32()
    }
}
impl Tested for half::f16 {
    const ROUNDING: f64 = 1.0 / 2048.0;
    const SMALLEST: f64 = 6.2e-5;

    fn of(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn value(self) -> f32 {
        self.to_f32()
    }
}

/// A strided tensor in a buffer that is NaN elsewhere.
pub struct Laid<T> {
    pub values: Vec<T>,
    pub strides: Strides,
}

impl<T> Laid<T> {
    pub fn at(&self, batch: usize, row: usize, head: usize, column: usize) -> usize {
        let Strides { batch: b, row: r, head: h } = self.strides;
        (b * batch as i64 + r * row as i64 + h * head as i64) as usize + column
    }
}

/// The operands of a case; all of them are exact in the element type.
pub struct Operands<T> {
    pub q: Laid<T>,
    pub k: Laid<T>,
    pub v: Laid<T>,
    pub o: Laid<T>,
    pub bias: Vec<T>,
    pub mask: Vec<u8>,
    pub stride_bias: ScoreStrides,
    pub stride_mask: ScoreStrides,
    pub slopes: Vec<f32>,
    pub sinks: Vec<f32>,
    pub q_offsets: Vec<i32>,
    pub k_offsets: Vec<i32>,
    /// The page index of each page of each sequence.
    pub pages: Vec<i32>,
    pub pages_per_sequence: usize,
}

/// The gap between rows and heads, which must not be accessed, in elements.
const GAP: usize = 8;

impl<T: Tested> Operands<T> {
    pub fn new(case: &Case, random: &mut Random) -> Self {
        let Case { d, dv, batches, heads, q_length, k_length, .. } = *case;
        let kv_heads = case.kv_heads();
        let nan = T::of(f32::NAN);
        let offsets = |of: fn(&(usize, usize)) -> usize| -> Vec<i32> {
            let Some(lengths) = &case.lengths else { return vec![] };
            let mut all = vec![0];
            for length in lengths {
                all.push(all[all.len() - 1] + of(length) as i32);
            }
            all
        };
        let q_offsets = offsets(|l| l.0);
        let k_offsets = if case.page.is_some() { vec![] } else { offsets(|l| l.1) };
        let laid = |rows: usize, batches: usize, heads: usize, columns: usize| -> Laid<T> {
            let (row, head, batch);
            match case.order {
                Order::HeadFirst => {
                    row = columns + GAP;
                    head = rows * row;
                    batch = heads * head;
                }
                Order::TokenFirst => {
                    head = columns;
                    row = heads * head + GAP;
                    batch = rows * row;
                }
                Order::Packed => {
                    head = columns;
                    row = 3 * heads * head;
                    batch = rows * row;
                }
            }
            let strides = Strides { batch: batch as i64, row: row as i64, head: head as i64 };
            Laid { values: vec![nan; batches * batch + 64], strides }
        };
        // With variable length, all rows belong to one sequence, as far as the buffers reach.
        let rows_of = |offsets: &[i32], length: usize| match offsets.last() {
            Some(&end) => (end as usize, 1),
            None => (length, batches),
        };
        let (q_rows, q_batches) = rows_of(&q_offsets, q_length);
        let (mut k_rows, mut k_batches) = rows_of(&k_offsets, k_length);
        let mut pages = vec![];
        let mut pages_per_sequence = 0;
        if let Some(page) = case.page {
            pages_per_sequence = k_length.div_ceil(page);
            let count = batches * pages_per_sequence;
            pages = (0..count as i32).collect();
            for i in (1..count).rev() {
                pages.swap(i, random.below(i + 1));
            }
            (k_rows, k_batches) = (page, count);
        }
        let mut q = laid(q_rows, q_batches, heads, d);
        let mut k = laid(k_rows, k_batches, kv_heads, d);
        let mut v = laid(k_rows, k_batches, kv_heads, dv);
        let mut o = laid(q_rows, q_batches, heads, dv);
        for laid in [&mut q, &mut o] {
            if case.lengths.is_some() {
                laid.strides.batch = 0;
            }
        }
        for laid in [&mut k, &mut v] {
            if case.lengths.is_some() && case.page.is_none() {
                laid.strides.batch = 0;
            }
        }
        let scores = |broadcast: Option<Broadcast>| {
            let Some(broadcast) = broadcast else { return (0, ScoreStrides::default()) };
            let rows = if broadcast.row { 1 } else { q_length };
            // Pages have room for keys past the end.
            let keys = case.page.map_or(k_length, |page| k_length.next_multiple_of(page));
            let pitch = if broadcast.padded { keys.next_multiple_of(8) } else { keys };
            let (row, column) = if broadcast.transposed { (1, rows) } else { (pitch, 1) };
            let (head_count, batch_count) =
                (if broadcast.head { 1 } else { heads }, if broadcast.batch { 1 } else { batches });
            let head = rows * pitch;
            let batch = head * head_count;
            let if_not = |broadcast: bool, stride: usize| if broadcast { 0 } else { stride as i64 };
            let strides = ScoreStrides {
                batch: if_not(broadcast.batch, batch),
                head: if_not(broadcast.head, head),
                row: if_not(broadcast.row, row),
                column: column as i64,
            };
            (batch * batch_count, strides)
        };
        let ((bias_size, stride_bias), (mask_size, stride_mask)) = (scores(case.bias), scores(case.mask));
        let mut all = Self {
            q,
            k,
            v,
            o,
            bias: (0..bias_size)
                .map(|_| T::of(if random.one_in(9) { f32::NEG_INFINITY } else { random.normal() }))
                .collect(),
            mask: (0..mask_size).map(|_| u8::from(!random.one_in(3))).collect(),
            stride_bias,
            stride_mask,
            slopes: (0..match (case.alibi, case.slopes_of_batch) {
                (false, _) => 0,
                (true, false) => heads,
                (true, true) => batches * heads,
            })
                .map(|_| random.normal().abs() * 0.1)
                .collect(),
            sinks: (0..if case.sinks { heads } else { 0 }).map(|_| random.normal()).collect(),
            q_offsets,
            k_offsets,
            pages,
            pages_per_sequence,
        };
        if let Some(Scores::Bias(of)) = case.scores {
            // One row for all queries.
            for (key, bias) in all.bias.iter_mut().enumerate() {
                *bias = T::of(of(key));
            }
        }
        for batch in 0..batches {
            let (queries, keys) = case.lengths_of(batch);
            for head in 0..heads {
                for token in 0..queries {
                    for column in 0..d {
                        let at = all.q_at(case, batch, token, head) + column;
                        all.q.values[at] = T::of(match (case.scores, column) {
                            (Some(Scores::Product(first, _)), 0) => first,
                            (Some(Scores::Product(..)), 1) => 1.0,
                            (Some(Scores::Alike(number)), _) => number,
                            (Some(_), _) => 0.0,
                            (None, _) => random.normal(),
                        });
                    }
                }
            }
            for head in 0..kv_heads {
                for key in 0..keys {
                    let planted = case.planted.iter().find(|p| (p.0, p.1) == (batch, key)).map(|p| p.2);
                    for column in 0..d {
                        let at = all.k_at(case, &all.k, batch, key, head) + column;
                        // The row of V has all of them; every second leaves K finite, so that the
                        // other columns of the rows that see it are compared.
                        all.k.values[at] = T::of(match planted {
                            Some(value) if column == 3 && (value.is_nan() || key % 2 == 1) => value,
                            _ => match case.scores {
                                Some(Scores::Alike(number)) => number,
                                Some(Scores::Product(_, of)) => *of(key).get(column).unwrap_or(&0.0),
                                _ => random.normal(),
                            },
                        });
                    }
                    for column in 0..dv {
                        let at = all.k_at(case, &all.v, batch, key, head) + column;
                        all.v.values[at] = T::of(match planted {
                            Some(value) if column % 3 == 0 => value,
                            _ => random.normal(),
                        });
                    }
                }
            }
        }
        all
    }

    /// One buffer of all three if packed: for each token `heads * d` elements of queries, then of
    /// keys, then of values.
    pub fn packed(&self, case: &Case) -> Option<Vec<T>> {
        if case.order != Order::Packed || case.page.is_some() {
            return None;
        }
        let width = case.heads * case.d;
        let mut together = self.q.values.clone();
        for (i, laid) in [&self.q, &self.k, &self.v].into_iter().enumerate() {
            for (at, value) in laid.values.iter().enumerate() {
                if at % (3 * width) < width && at + i * width < together.len() {
                    together[at + i * width] = *value;
                }
            }
        }
        Some(together)
    }

    fn first(offsets: &[i32], batch: usize) -> usize {
        offsets.get(batch).map_or(0, |&first| first as usize)
    }

    /// The offset of a row of queries or results.
    pub fn q_at(&self, _: &Case, batch: usize, token: usize, head: usize) -> usize {
        self.q.at(batch, Self::first(&self.q_offsets, batch) + token, head, 0)
    }

    pub fn o_at(&self, batch: usize, token: usize, head: usize) -> usize {
        self.o.at(batch, Self::first(&self.q_offsets, batch) + token, head, 0)
    }

    /// The offset of a row of keys or values.
    pub fn k_at(&self, case: &Case, laid: &Laid<T>, batch: usize, key: usize, head: usize) -> usize {
        match case.page {
            Some(page) => {
                let number = self.pages[batch * self.pages_per_sequence + key / page];
                laid.at(number as usize, key % page, head, 0)
            }
            None => laid.at(batch, Self::first(&self.k_offsets, batch) + key, head, 0),
        }
    }

    /// The offset of a row's logarithm, `(head, batch, token)` with a gap, or `(head, row)`.
    pub fn lse_at(&self, case: &Case, batch: usize, token: usize, head: usize) -> usize {
        let strides = self.lse_strides(case);
        let row = Self::first(&self.q_offsets, batch) + token;
        (strides.head * head as i64 + strides.batch * batch as i64) as usize + row
    }

    fn lse_strides(&self, case: &Case) -> Strides {
        match self.q_offsets.last() {
            Some(&rows) => Strides { batch: 0, row: 1, head: i64::from(rows) + 3 },
            None => {
                let batch = case.q_length as i64 + 3;
                Strides { batch, row: 1, head: batch * case.batches as i64 }
            }
        }
    }

    fn lse_size(&self, case: &Case) -> usize {
        self.lse_strides(case).head as usize * case.heads
    }
}

/// The buffers of a case on a machine.
pub struct Buffers<B> {
    pub o: B,
    pub lse: B,
    all: Vec<B>,
}

/// A byte pattern that is NaN in every element type.
pub const POISON: u8 = 0xff;

impl<B: Buffer> Buffers<B> {
    pub fn new<T: Tested, M: Machine<Buffer = B>>(
        machine: &M,
        case: &Case,
        operands: &Operands<T>,
    ) -> (Self, Arguments<T>) {
        let mut all = vec![];
        let mut upload = |bytes: &[u8]| {
            if bytes.is_empty() {
                return 0;
            }
            all.push(machine.upload(bytes));
            all[all.len() - 1].address()
        };
        let halves = |values: &[T]| -> Vec<u8> {
            values.iter().flat_map(|v| crate::bytes::bytes(&[*v]).to_vec()).collect()
        };
        let floats = |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
        let ints = |values: &[i32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
        let (q, k, v);
        if let Some(together) = operands.packed(case) {
            let base = upload(&halves(&together));
            [q, k, v] = [0, 1, 2].map(|i| base + (2 * i * case.heads * case.d) as u64);
        } else {
            q = upload(&halves(&operands.q.values));
            k = upload(&halves(&operands.k.values));
            v = upload(&halves(&operands.v.values));
        }
        let bias = upload(&halves(&operands.bias));
        let mask = upload(&operands.mask);
        let slopes = upload(&floats(&operands.slopes));
        let sinks = upload(&floats(&operands.sinks));
        let (q_offsets, k_offsets) = (upload(&ints(&operands.q_offsets)), upload(&ints(&operands.k_offsets)));
        let k_lengths = upload(&ints(&case.numbers_of_keys()));
        let pages = upload(&ints(&operands.pages));
        let rows = case.batches * case.heads * case.q_length;
        let (mut partial_o, mut partial_sums) = (0, 0);
        if case.splits > 1 {
            partial_o = upload(&vec![POISON; (rows * case.dv * 4 * case.splits as usize).max(16)]);
            partial_sums = upload(&vec![POISON; (rows * 8 * case.splits as usize).max(16)]);
        }
        let o = machine.upload(&vec![POISON; operands.o.values.len() * T::BYTES]);
        let lse = machine.upload(&vec![POISON; 4 * operands.lse_size(case)]);
        let arguments = Arguments {
            q: Global::from_address(q),
            k: Global::from_address(k),
            v: Global::from_address(v),
            o: GlobalMut::from_address(o.address()),
            stride_q: operands.q.strides,
            stride_k: operands.k.strides,
            stride_v: operands.v.strides,
            stride_o: operands.o.strides,
            lse: GlobalMut::from_address(if case.lse { lse.address() } else { 0 }),
            stride_lse: operands.lse_strides(case),
            bias: Global::from_address(bias),
            stride_bias: operands.stride_bias,
            mask: Global::from_address(mask),
            stride_mask: operands.stride_mask,
            slopes: Global::from_address(slopes),
            stride_slopes: if case.slopes_of_batch { case.heads as i64 } else { 0 },
            sinks: Global::from_address(sinks),
            q_offsets: Global::from_address(q_offsets),
            k_offsets: Global::from_address(k_offsets),
            k_lengths: Global::from_address(k_lengths),
            pages: Global::from_address(pages),
            stride_pages: operands.pages_per_sequence as i64,
            partial_o: GlobalMut::from_address(partial_o),
            partial_sums: GlobalMut::from_address(partial_sums),
            pack: if case.pack { case.group as u32 } else { 1 },
            window: Window { left: case.window[0], right: case.window[1] },
            page: case.page.unwrap_or(0) as u32,
            splits: case.splits,
            scale: case.scale,
            softcap: case.softcap,
            batches: case.batches as u32,
            heads: case.heads as u32,
            group: case.group as u32,
            q_length: case.q_length as u32,
            k_length: case.k_length as u32,
            ..Arguments::none()
        };
        (Self { o, lse, all }, arguments)
    }

    /// The number of operands; keeps them alive until here.
    pub fn len(&self) -> usize {
        self.all.len()
    }
}
