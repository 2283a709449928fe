//! The time of a product over ranks, computed from measured rates: what more GPUs would give.

use crate::Form;

/// Rates of a GPU and of its link, in units per second.
#[derive(Clone, Copy, Debug)]
pub struct RankRates {
    /// Floating-point operations of a product without an exchange.
    pub product: f64,
    /// Bytes that the copy engine sends to the others.
    pub link: f64,
    /// Bytes that a kernel reads and writes in memory.
    pub memory: f64,
    /// Seconds of a call besides: flags, launches, and the wait for the last copy.
    pub call: f64,
}

impl RankRates {
    /// The time of a call in seconds: `extents` are M, N and K as of
    /// [`ParallelMatmul`](crate::ParallelMatmul), of 16-bit elements in equal shards. The product
    /// of a shard begins when its rows have come, copies begin when the rows are multiplied, and
    /// one copy at a time has the whole link.
    ///
    /// ```
    /// use moye_parallel::{Form, RankRates};
    /// let rates = RankRates { product: 8e14, link: 4e11, memory: 4e12, call: 1e-5 };
    /// let [one, two] = [1, 2].map(|world| rates.time(Form::AllGather, [8192, 8192 / world, 8192], world));
    /// assert!(two < 0.6 * one);
    /// ```
    pub fn time(&self, form: Form, [m, n, k]: [usize; 3], world: usize) -> f64 {
        let all = 2.0 * m as f64 * n as f64 * k as f64 / self.product;
        let (shard, bytes) = (all / world as f64, |columns: usize| 2.0 * (m * columns) as f64);
        if world == 1 {
            return all;
        }
        // The sum reads the parts of all ranks, and writes one.
        let sum = |rows: f64, parts: f64| 2.0 * rows * n as f64 * (parts + 1.0) / self.memory;
        let others = world - 1;
        self.call
            + match form {
                Form::AllGather => {
                    let copy = bytes(k) / world as f64 / self.link;
                    (1..=others).fold(shard, |end, at| end.max(at as f64 * copy) + shard)
                }
                Form::ReduceScatter => {
                    let copy = bytes(n) / world as f64 / self.link;
                    let copied = (1..=others).fold(0.0, |end: f64, at| end.max(at as f64 * shard) + copy);
                    all.max(copied) + sum(m as f64 / world as f64, world as f64)
                }
                // The parts of the others come over the link while they are summed.
                Form::AllReduce => {
                    all + (others as f64 * bytes(n) / self.link).max(sum(m as f64, world as f64))
                }
            }
    }
}
