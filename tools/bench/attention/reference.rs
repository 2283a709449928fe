//! Attention in float64, for some rows.

use super::case::{Case, Order};
use super::operands::Operands;
use half::bf16;
use moye::number::Scalar;

impl Case {
    /// The index of a token's row in the queries and results.
    fn query_row(&self, batch: usize, head: usize, token: usize) -> usize {
        let Self { batches, heads, queries, .. } = *self;
        match self.order {
            Order::Offsets => (head * batches + batch) * queries + token,
            _ => (batch * heads + head) * queries + token,
        }
    }

    /// The index of a token's row in the keys and values; `table` has the page numbers.
    fn key_row(&self, table: &[i32], batch: usize, head: usize, key: usize) -> usize {
        let Self { batches, kv_heads, keys, .. } = *self;
        match self.order {
            Order::Batches => (batch * kv_heads + head) * keys + key,
            Order::Offsets => (head * batches + batch) * keys + key,
            Order::Pages(page) => {
                let number = table[batch * (keys / page) + key / page] as usize;
                (number * kv_heads + head) * page + key % page
            }
        }
    }
}

/// The relative norm error against float64, for some rows.
pub fn relative_error<T: Scalar>(case: &Case, of: &Operands<T>, o: &[bf16]) -> f64 {
    const ROWS: usize = 24;
    let Case { batches, heads, kv_heads, queries, keys, d, dv, options, .. } = *case;
    let rows = batches * heads * queries;
    let (mut squares, mut norm) = (0.0, 0.0);
    for i in 0..ROWS.min(rows) {
        // Spread over all rows, including the last.
        let row = rows - 1 - i * (rows / ROWS.min(rows));
        let (token, head, batch) = (row % queries, row / queries % heads, row / queries / heads);
        let at = case.query_row(batch, head, token);
        let key_row = |key: usize| case.key_row(&of.table, batch, head / (heads / kv_heads), key);
        let (begin, end) = case.visible(token);
        let score = |key: usize| -> f64 {
            let (q, k) = (&of.q[at * d..][..d], &of.k[key_row(key) * d..][..d]);
            let dot = q.iter().zip(k).map(|(q, k)| q.to_f64() * k.to_f64()).sum::<f64>();
            let mut score = dot / (d as f64).sqrt();
            if options.softcap != 0.0 {
                let cap = f64::from(options.softcap);
                score = cap * (score / cap).tanh();
            }
            if options.alibi {
                let distance = (key + queries).abs_diff(token + keys);
                score -= f64::from(of.slopes[head]) * distance as f64;
            }
            if options.bias {
                score += of.bias[token * keys + key].to_f64();
            }
            if options.mask && of.mask[token * keys + key] == 0 {
                score = f64::NEG_INFINITY;
            }
            score
        };
        let scores: Vec<f64> = (begin..end).map(score).collect();
        let sink = if options.sinks { f64::from(of.sinks[head]) } else { f64::NEG_INFINITY };
        let max = scores.iter().copied().fold(sink, f64::max);
        // A row without visible keys is zero.
        let max = if max == f64::NEG_INFINITY { 0.0 } else { max };
        let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let total = weights.iter().sum::<f64>() + (sink - max).exp();
        for column in 0..dv {
            let value = |key: usize| of.v[key_row(key) * dv + column].to_f64();
            let sum: f64 = weights.iter().zip(begin..).map(|(weight, key)| weight * value(key)).sum();
            let want = if total == 0.0 { 0.0 } else { sum / total };
            squares += (o[at * dv + column].to_f64() - want).powi(2);
            norm += want * want;
        }
    }
    (squares / norm).sqrt()
}
