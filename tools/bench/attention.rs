//! Attention benchmarks: prompts, decoding against a cache, chunks of a prompt.

use super::results::{Figure, Row};
use super::timing::in_turn;
use super::{Measure, Monitor, Seen};
use anyhow::{Result, bail};
use half::bf16;
use moye::number::{F8E4M3, Scalar};
use moye::{Attention, AttentionElement, Buffer, Heads, HeadsMut};

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Sequences.
    pub batches: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of the keys and values.
    pub kv_heads: usize,
    /// Queries of a sequence.
    pub queries: usize,
    /// Keys of a sequence.
    pub keys: usize,
    /// Columns of a head.
    pub d: usize,
    /// Whether a query sees only the keys up to its own.
    pub causal: bool,
    /// Measured in bytes: loading keys and values takes the time.
    pub by_bytes: bool,
    /// How sequences lie in memory.
    pub order: Order,
    /// Operands of e4m3 instead of bf16.
    pub e4m3: bool,
}

/// How sequences lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A tensor with a batch for each.
    Batches,
    /// One sequence after the other, with offsets on the device.
    Offsets,
    /// Keys and values in pages of this many tokens, in random order.
    Pages(usize),
}

/// 16,384 tokens in all with 2048 columns in all heads, as in FlashAttention's figures; then one
/// and a few tokens against caches; and a chunk of a prompt after 8192 tokens.
pub fn cases() -> Vec<Case> {
    const TOKENS: usize = 16384;
    let mut cases = Vec::new();
    for d in [64, 128, 256] {
        for s in [1024, 4096, TOKENS] {
            for causal in [false, true] {
                let heads = 2048 / d;
                let batches = TOKENS / s;
                cases.push(Case {
                    batches,
                    heads,
                    kv_heads: heads,
                    queries: s,
                    keys: s,
                    d,
                    causal,
                    by_bytes: false,
                    order: Order::Batches,
                    e4m3: false,
                });
            }
        }
    }
    // The same sequences by offsets, and their keys in pages.
    for order in [Order::Offsets, Order::Pages(64)] {
        let (s, d) = (4096, 128);
        let (batches, heads) = (TOKENS / s, 2048 / d);
        for causal in [false, true] {
            cases.push(Case {
                batches,
                heads,
                kv_heads: heads,
                queries: s,
                keys: s,
                d,
                causal,
                by_bytes: false,
                order,
                e4m3: false,
            });
        }
    }
    let decode = |batches, queries, keys| Case {
        batches,
        heads: 32,
        kv_heads: 8,
        queries,
        keys,
        d: 128,
        causal: true,
        by_bytes: true,
        order: Order::Batches,
        e4m3: false,
    };
    for (batches, keys) in [(1, 2048), (1, 8192), (1, 32768), (16, 2048), (16, 8192), (16, 32768)] {
        cases.push(decode(batches, 1, keys));
    }
    cases.extend([2, 4, 8, 16].map(|queries| decode(16, queries, 8192)));
    let chunk = Case { heads: 8, by_bytes: false, ..decode(1, 256, 8448) };
    cases.push(chunk);
    for page in [16, 64] {
        let order = Order::Pages(page);
        cases.extend([1, 8, 16].map(|queries| Case { order, ..decode(16, queries, 8192) }));
    }
    cases.extend([16, 64].map(|page| Case { order: Order::Pages(page), ..chunk }));
    cases
}

/// The prompts of [`cases`], of e4m3.
pub fn cases_of_e4m3() -> Vec<Case> {
    let prompts =
        cases().into_iter().filter(|case| case.order == Order::Batches && case.queries == case.keys);
    prompts.map(|case| Case { e4m3: true, ..case }).collect()
}

impl Case {
    /// Multiply-adds of the visible scores, counted as two operations.
    fn operations(&self) -> f64 {
        let (queries, keys) = (self.queries as f64, self.keys as f64);
        let seen =
            if self.causal { queries * keys - queries * (queries - 1.0) / 2.0 } else { queries * keys };
        4.0 * seen * (self.batches * self.heads * self.d) as f64
    }

    /// The element at which a row of queries begins.
    fn query_at(&self, batch: usize, head: usize, token: usize) -> usize {
        let Self { batches, heads, queries, d, .. } = *self;
        let row = match self.order {
            Order::Offsets => (head * batches + batch) * queries + token,
            _ => (batch * heads + head) * queries + token,
        };
        row * d
    }

    /// The element at which a row of keys begins, and of values; `table` has the page numbers.
    fn key_at(&self, table: &[i32], batch: usize, head: usize, key: usize) -> usize {
        let Self { batches, kv_heads, keys, d, .. } = *self;
        let row = match self.order {
            Order::Batches => (batch * kv_heads + head) * keys + key,
            Order::Offsets => (head * batches + batch) * keys + key,
            Order::Pages(page) => {
                let number = table[batch * (keys / page) + key / page] as usize;
                (number * kv_heads + head) * page + key % page
            }
        };
        row * d
    }

    /// Bytes of keys and values, queries and results, of bf16.
    fn bytes(&self) -> f64 {
        let rows = self.kv_heads * self.keys + self.heads * self.queries;
        (2 * 2 * self.batches * rows * self.d) as f64
    }
}

/// Checks and times a case.
///
/// # Errors
/// A wrong result, or an error of the device.
pub fn row(measure: &Measure<'_>, case: &Case) -> Result<Row> {
    // The weights are rounded to the type.
    if case.e4m3 { row_of::<F8E4M3>(measure, case, 4e-2) } else { row_of::<bf16>(measure, case, 6e-3) }
}

/// As [`row`], with the largest relative error.
fn row_of<T: AttentionElement<Output = bf16> + Scalar>(
    measure: &Measure<'_>,
    case: &Case,
    tolerance: f64,
) -> Result<Row> {
    let device = measure.device;
    let Case { batches, heads, kv_heads, queries, keys, d, causal, .. } = *case;
    let mut random = fastrand::Rng::with_seed(1);
    let mut draw = |elements: usize| -> Vec<T> {
        (0..elements).map(|_| T::nearest(f64::from(2.0 * random.f32() - 1.0))).collect()
    };
    let (of_q, of_k) = (batches * heads * queries * d, batches * kv_heads * keys * d);
    let host = [draw(of_q), draw(of_k), draw(of_k)];
    let data = [device.upload(&host[0])?, device.upload(&host[1])?, device.upload(&host[2])?];
    let mut o = device.alloc_uninit::<bf16>(of_q)?;
    o.fill_bytes(0xFF)?;
    let (mut q_shape, mut k_shape) = ([batches, heads, queries, d], [batches, kv_heads, keys, d]);
    let mut table: Vec<i32> = Vec::new();
    match case.order {
        Order::Batches => {}
        Order::Offsets => {
            (q_shape, k_shape) = ([1, heads, batches * queries, d], [1, kv_heads, batches * keys, d]);
        }
        Order::Pages(page) => {
            table = (0..(batches * keys / page) as i32).collect();
            random.shuffle(&mut table);
            k_shape = [table.len(), kv_heads, page, d];
        }
    }
    let offsets = |length: usize| (0..=batches).map(|i| (i * length) as i32).collect::<Vec<i32>>();
    let offsets = [device.upload(&offsets(queries))?, device.upload(&offsets(keys))?];
    let on_device = device.upload(&table)?;
    let call = || -> Result<Attention<'_, T>> {
        let call = Attention::new(
            Heads::head_first(&data[0], q_shape)?,
            Heads::head_first(&data[1], k_shape)?,
            Heads::head_first(&data[2], k_shape)?,
        );
        // SAFETY: the offsets end with the tensors, and the table has each page once.
        let call = match case.order {
            Order::Batches => call,
            Order::Offsets => unsafe { call.variable_length(&offsets[0], &offsets[1], [queries, keys]) },
            Order::Pages(page) => unsafe { call.pages(&on_device, keys / page) },
        };
        Ok(if causal { call.causal() } else { call })
    };
    let call = call()?;
    let run = |o: &mut Buffer<bf16>| -> Result<()> {
        Ok(call.run(device, &mut HeadsMut::head_first(o, q_shape)?)?)
    };
    let kernel = call.explain(device, &HeadsMut::head_first(&mut o, q_shape)?)?;
    run(&mut o)?;
    let error = relative_error(case, &table, &host, &o.download()?);
    if error.is_nan() || error > tolerance {
        bail!("attention {case:?} has the relative error {error:.1e}; it is not timed");
    }
    let mut seen = Vec::new();
    let mut watch = || seen.extend(measure.monitor.map(Monitor::look));
    let mut ours = || run(&mut o);
    let times = in_turn(device, &measure.plan, &mut [&mut ours], &mut watch)?;
    let (unit, amount) =
        if case.by_bytes { ("GB/s", case.bytes() / 1e9) } else { ("TFLOP/s", case.operations() / 1e12) };
    let order = match case.order {
        Order::Batches => String::new(),
        Order::Offsets => " by offsets".into(),
        Order::Pages(page) => format!(" pages of {page}"),
    };
    let of_heads = if heads == kv_heads { heads.to_string() } else { format!("{heads}/{kv_heads}") };
    Ok(Row {
        work: "attention",
        kind: format!(
            "{} B {batches} H {of_heads} D {d}{}{order}",
            if case.e4m3 { "e4m3" } else { "bf16" },
            if causal { " causal" } else { "" }
        ),
        majors: None,
        behind: None,
        by: None,
        rest_ms: measure.plan.rest.as_millis() as u64,
        m: queries,
        n: keys,
        k: None,
        unit,
        moye: Figure::new(&times[0], amount),
        peer: None,
        no_peer: None,
        limit: measure
            .facts
            .as_ref()
            .map(|facts| facts.memory_rate / 1e9)
            .filter(|&rate| case.by_bytes && rate > 0.0),
        relative_error: Some(error),
        kernel: format!("{}, splits {}", kernel.kernel.unwrap_or(""), kernel.splits),
        seen: Seen::typical(&seen),
    })
}

/// By norm, against float64, for some rows.
fn relative_error<T: Scalar>(case: &Case, table: &[i32], [q, k, v]: &[Vec<T>; 3], o: &[bf16]) -> f64 {
    const ROWS: usize = 24;
    let Case { batches, heads, kv_heads, queries, keys, d, causal, .. } = *case;
    let rows = batches * heads * queries;
    let (mut squares, mut of) = (0.0, 0.0);
    for i in 0..ROWS.min(rows) {
        // Spread over all rows, the last one included.
        let row = rows - 1 - i * (rows / ROWS.min(rows));
        let (token, head, batch) = (row % queries, row / queries % heads, row / queries / heads);
        let at = case.query_at(batch, head, token);
        let key_at = |key: usize| case.key_at(table, batch, head / (heads / kv_heads), key);
        let seen = if causal { (token + keys + 1).saturating_sub(queries) } else { keys };
        let dot = |key: usize| -> f64 {
            let (q, k) = (&q[at..][..d], &k[key_at(key)..][..d]);
            q.iter().zip(k).map(|(q, k)| q.to_f64() * k.to_f64()).sum::<f64>() / (d as f64).sqrt()
        };
        let scores: Vec<f64> = (0..seen).map(dot).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let total: f64 = weights.iter().sum();
        for column in 0..d {
            let sum: f64 =
                weights.iter().enumerate().map(|(key, w)| w * v[key_at(key) + column].to_f64()).sum();
            let want = if seen == 0 { 0.0 } else { sum / total };
            squares += (o[at + column].to_f64() - want).powi(2);
            of += want * want;
        }
    }
    (squares / of).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::on_simulator;

    #[test]
    fn attention_is_checked_and_told() {
        on_simulator(|measure| {
            let case = Case {
                batches: 1,
                heads: 2,
                kv_heads: 1,
                queries: 3,
                keys: 70,
                d: 64,
                causal: true,
                by_bytes: false,
                order: Order::Batches,
                e4m3: false,
            };
            let of_e4m3 = row(measure, &Case { e4m3: true, ..case }).unwrap();
            assert_eq!(of_e4m3.what(), "attention e4m3 B 1 H 2/1 D 64 causal 3 x 70");
            assert!(of_e4m3.relative_error.unwrap() < 4e-2, "{of_e4m3:?}");
            let row = row(measure, &case).unwrap();
            assert_eq!(row.what(), "attention bf16 B 1 H 2/1 D 64 causal 3 x 70");
            assert_eq!(case.operations(), 4.0 * (68 + 69 + 70) as f64 * 128.0);
            assert!(row.relative_error.unwrap() < 4e-3, "{row:?}");
        });
    }

    #[test]
    fn sequences_by_offsets_and_in_pages_are_checked_and_told() {
        on_simulator(|measure| {
            for (order, says) in [(Order::Offsets, " by offsets"), (Order::Pages(64), " pages of 64")] {
                let case = Case {
                    batches: 2,
                    heads: 4,
                    kv_heads: 2,
                    queries: 20,
                    keys: 128,
                    d: 64,
                    causal: true,
                    by_bytes: false,
                    order,
                    e4m3: false,
                };
                let row = row(measure, &case).unwrap();
                assert_eq!(row.what(), format!("attention bf16 B 2 H 4/2 D 64 causal{says} 20 x 128"));
                assert!(
                    row.relative_error.unwrap() < 4e-3 && row.kernel.starts_with("hopper_bf16_64_few"),
                    "{row:?}"
                );
            }
        });
    }
}
