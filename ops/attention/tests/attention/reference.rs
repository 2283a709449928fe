//! A case's rows in float64, and how far a result may be from them.

use crate::attention::ScoreStrides;
use crate::case::Case;
use crate::operands::{Operands, Tested};
use crate::oracle;
use std::num::NonZero;
use std::thread;

/// One row of results, and the bounds of its error.
pub struct Row {
    pub results: oracle::Row,
    /// The largest magnitude of a score.
    pub largest_score: f64,
    /// The largest magnitude of a score after the soft cap, before bias and ALiBi; 0 without one.
    pub largest_capped: f64,
    pub largest_value: f64,
    /// Whether the row sees an infinite key: its score is infinite, and the softmax is undefined.
    pub undefined: bool,
}

fn at(strides: &ScoreStrides, batch: usize, head: usize, row: usize, column: usize) -> usize {
    let ScoreStrides { batch: b, head: h, row: r, column: c } = *strides;
    (b * batch as i64 + h * head as i64 + r * row as i64 + c * column as i64) as usize
}

/// Query `token` of head `head` of sequence `batch`.
pub fn row<T: Tested>(case: &Case, operands: &Operands<T>, batch: usize, token: usize, head: usize) -> Row {
    let (queries, keys) = case.lengths_of(batch);
    let kv_head = head / case.group;
    let values = |values: &[T]| values.iter().map(|x| f64::from(x.value())).collect::<Vec<_>>();
    let value = |key: usize| {
        values(&operands.v.values[operands.k_at(case, &operands.v, batch, key, kv_head)..][..case.dv])
    };
    let q = values(&operands.q.values[operands.q_at(case, batch, token, head)..][..case.d]);
    let mut scores = vec![];
    let (mut undefined, mut largest_capped) = (false, 0.0f64);
    for key in 0..keys {
        let distance = oracle::distance(token, key, [queries, keys]);
        if !oracle::sees(distance, case.window)
            || case.mask.is_some() && operands.mask[at(&operands.stride_mask, batch, head, token, key)] == 0
        {
            continue;
        }
        let k =
            &operands.k.values[operands.k_at(case, &operands.k, batch, key, head.min(kv_head))..][..case.d];
        undefined |= k.iter().any(|k| k.value().is_infinite());
        let scaled = oracle::dot(q.iter().copied(), values(k)) * f64::from(case.scale);
        let mut score = oracle::capped(scaled, case.softcap.into());
        if case.softcap != 0.0 {
            largest_capped = largest_capped.max(score.abs());
        }
        if case.alibi {
            let first = if case.slopes_of_batch { batch * case.heads } else { 0 };
            score -= f64::from(operands.slopes[first + head]) * distance.abs() as f64;
        }
        if case.bias.is_some() {
            score += f64::from(operands.bias[at(&operands.stride_bias, batch, head, token, key)].value());
        }
        if score != f64::NEG_INFINITY {
            scores.push((key, score));
        }
    }
    let sink = if case.sinks { f64::from(operands.sinks[head]) } else { f64::NEG_INFINITY };
    let largest = |values: &mut dyn Iterator<Item = f64>| values.map(f64::abs).fold(0.0, f64::max);
    let largest_score = largest(&mut scores.iter().map(|&(_, score)| score));
    let largest_value = largest(&mut scores.iter().flat_map(|&(key, _)| value(key)));
    let mut results = oracle::row(scores, sink, case.dv, value);
    if undefined {
        results.lse = f64::NAN;
    }
    Row { results, largest_score, largest_capped, largest_value, undefined }
}

/// The errors of results.
#[derive(Default)]
pub struct Errors {
    pub squares: f64,
    pub of: f64,
    /// The largest error relative to its bound.
    pub largest: f64,
    pub rows: usize,
}

impl Errors {
    /// Adds the errors of one row.
    ///
    /// Probabilities and results are rounded to the element type; scores are off by f32's rounding
    /// of a sum of `d` products, and move the probabilities by as much; small probabilities of f16
    /// lose bits.
    pub fn add<T: Tested>(&mut self, what: &str, case: &Case, want: &Row, got: &[T]) {
        self.rows += 1;
        if want.undefined {
            return;
        }
        // Given scores are exact.
        let largest_score = if case.scores.is_some() { 0.0 } else { want.largest_score };
        let f32_share = 2.0e-6 * (1.0 + largest_score) * (1.0 + (case.d as f64).sqrt())
            + 2.0 * case.tanh_error * want.largest_capped;
        let lost = case.k_length as f64 * T::SMALLEST * T::ROUNDING * want.largest_value.min(1e6);
        for (column, (want_value, got)) in want.results.values.iter().zip(got).enumerate() {
            let got = f64::from(got.value());
            if !want_value.is_finite() {
                assert!(!got.is_finite(), "{what}, column {column}: {got}, expected {want_value}");
                continue;
            }
            let error = (got - want_value).abs();
            let magnitude = want.results.magnitudes[column];
            let bound =
                1.02 * T::ROUNDING * (want_value.abs() + magnitude) + f32_share * magnitude + lost + 1e-30;
            assert!(
                error <= bound,
                "{what}, column {column}: {got}, expected {want_value}, off by {error:e} > {bound:e}"
            );
            self.add_element(error, bound, *want_value);
        }
    }

    /// No errors, of this number of rows.
    pub fn of_rows(rows: usize) -> Self {
        Self { rows, ..Self::default() }
    }

    /// Adds the error of an element, which is within its bound.
    pub fn add_element(&mut self, error: f64, bound: f64, want: f64) {
        self.largest = self.largest.max(error / bound);
        self.squares += error * error;
        self.of += want * want;
    }

    /// Adds the errors of other rows.
    pub fn merge(&mut self, other: &Self) {
        self.squares += other.squares;
        self.of += other.of;
        self.largest = self.largest.max(other.largest);
        self.rows += other.rows;
    }

    /// The error by norm.
    pub fn relative(&self) -> f64 {
        if self.of == 0.0 { self.squares.sqrt() } else { (self.squares / self.of).sqrt() }
    }
}

impl std::fmt::Display for Errors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (largest, norm) = (self.largest, self.relative());
        write!(f, "{} rows: the largest error is {largest:.2} of its bound; {norm:.2e} by norm", self.rows)
    }
}

/// Asserts that the logarithm of a row's sum of exponentials is within the rounding of f32.
pub fn assert_lse(what: &str, case: &Case, got: f64, want: &Row) {
    let columns = if case.scores.is_some() { 0.0 } else { (case.d as f64).sqrt() };
    let bound = 4e-6 * (1.0 + want.largest_score) * (1.0 + columns) + case.tanh_error * want.largest_capped;
    let lse = want.results.lse;
    let same = want.undefined || got == lse || lse.is_nan() && got.is_nan() || (got - lse).abs() <= bound;
    assert!(same, "{what}: lse {got}, expected {lse}");
}

/// Calls `check` with batch, head and token of each row of results, on all processors: the
/// reference takes much longer than a GPU.
pub fn each_row(case: &Case, check: impl Fn(usize, usize, usize, &mut Errors) + Sync) -> Errors {
    let rows: Vec<_> = (0..case.batches)
        .flat_map(|batch| (0..case.heads).map(move |head| (batch, head)))
        .flat_map(|(batch, head)| (0..case.lengths_of(batch).0).map(move |token| (batch, head, token)))
        .collect();
    // Under a causal mask, later tokens take longer, so each thread takes every n-th row.
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(rows.len()).max(1);
    let of_thread = |first: usize| {
        let mut errors = Errors::default();
        for &(batch, head, token) in rows.iter().skip(first).step_by(threads) {
            check(batch, head, token, &mut errors);
        }
        errors
    };
    let mut errors = Errors::default();
    thread::scope(|scope| {
        let of_thread = &of_thread;
        let workers: Vec<_> = (0..threads).map(|first| scope.spawn(move || of_thread(first))).collect();
        for worker in workers {
            errors.merge(&worker.join().expect("a row is wrong, see above"));
        }
    });
    errors
}
