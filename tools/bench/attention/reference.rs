//! Some rows of a case's results compared with float64.

use super::case::{Case, Order};
use super::operands::Operands;
use half::bf16;
use moye::number::Scalar;
use moye_attention::oracle::{capped, dot, row};

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
        // Spread over all rows, the last one included.
        let number = rows - 1 - i * (rows / ROWS.min(rows));
        let (token, head, batch) = (number % queries, number / queries % heads, number / queries / heads);
        let at = case.query_row(batch, head, token);
        let key_row = |key: usize| case.key_row(&of.table, batch, head / (heads / kv_heads), key);
        let values = |values: &'_ [T], from: usize, count: usize| -> Vec<f64> {
            values[from..][..count].iter().map(|x| x.to_f64()).collect()
        };
        let q = values(&of.q, at * d, d);
        let score = |key: usize| -> (usize, f64) {
            let scaled = dot(q.iter().copied(), values(&of.k, key_row(key) * d, d)) / (d as f64).sqrt();
            let mut score = capped(scaled, options.softcap.into());
            if options.alibi {
                let distance = (key + queries).abs_diff(token + keys);
                score -= f64::from(of.slopes[head]) * distance as f64;
            }
            if options.bias {
                score += of.bias[token * keys + key].to_f64();
            }
            let hidden = options.mask && of.mask[token * keys + key] == 0;
            (key, if hidden { f64::NEG_INFINITY } else { score })
        };
        let sink = if options.sinks { f64::from(of.sinks[head]) } else { f64::NEG_INFINITY };
        let want = row(case.visible(token).map(score), sink, dv, |key| values(&of.v, key_row(key) * dv, dv));
        for (column, want) in want.values.into_iter().enumerate() {
            squares += (o[at * dv + column].to_f64() - want).powi(2);
            norm += want * want;
        }
    }
    (squares / norm).sqrt()
}
