//! Attention in float64, one query of one head at a time: the reference of all tests, which include
//! this file or take it from the crate.
#![allow(missing_docs, reason = "the fields and parameters are named in the functions' documentation")]

/// A query's row of results.
pub struct Row {
    pub values: Vec<f64>,
    /// The same sums of the values' magnitudes.
    pub magnitudes: Vec<f64>,
    /// The sum of exponentials relative to the largest score.
    pub total: f64,
    /// The natural logarithm of the sum of exponentials.
    pub lse: f64,
}

/// The row of a query with these scores of keys, minus infinity where a key is hidden. `sink` is a
/// score without a value, minus infinity for none; `value` returns the `columns` elements of a
/// key's value. A query that sees no key has zeros.
pub fn row<V: IntoIterator<Item = f64>>(
    scores: impl IntoIterator<Item = (usize, f64)>,
    sink: f64,
    columns: usize,
    value: impl Fn(usize) -> V,
) -> Row {
    let scores: Vec<_> = scores.into_iter().filter(|&(_, score)| score != f64::NEG_INFINITY).collect();
    let max = scores.iter().map(|&(_, score)| score).fold(sink, f64::max);
    // Without a sink the exponential of the difference is NaN, or 0.
    let of_sink = (sink - max).exp().max(0.0);
    let total = scores.iter().map(|&(_, score)| (score - max).exp()).sum::<f64>() + of_sink;
    let lse = match scores.iter().any(|(_, score)| score.is_nan()) {
        true => f64::NAN,
        false if max == f64::NEG_INFINITY => max,
        false => max + total.ln(),
    };
    let mut row = Row { values: vec![0.0; columns], magnitudes: vec![0.0; columns], total, lse };
    for (key, score) in scores {
        let p = (score - max).exp() / total;
        for (column, value) in value(key).into_iter().take(columns).enumerate() {
            row.values[column] += p * value;
            row.magnitudes[column] += p * value.abs();
        }
    }
    row
}

/// The product of a query and a key.
pub fn dot(q: impl IntoIterator<Item = f64>, k: impl IntoIterator<Item = f64>) -> f64 {
    q.into_iter().zip(k).map(|(q, k)| q * k).sum()
}

/// A score after the soft cap; 0 is none.
pub fn capped(score: f64, cap: f64) -> f64 {
    if cap == 0.0 { score } else { cap * (score / cap).tanh() }
}

/// The distance of a key before a query's position: the last query is at the position of the last
/// key.
pub fn distance(query: usize, key: usize, [queries, keys]: [usize; 2]) -> i64 {
    query as i64 + keys as i64 - queries as i64 - key as i64
}

/// Whether a query sees the key that is `distance` before its position: at most `left` before it
/// and `right` after it, without a limit where these are the largest `i32`.
pub fn sees(distance: i64, [left, right]: [i32; 2]) -> bool {
    let limit = |limit: i32| if limit == i32::MAX { i64::MAX } else { limit.into() };
    distance <= limit(left) && -distance <= limit(right)
}
