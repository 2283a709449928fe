//! The time of a product over ranks, computed from measured rates, to predict the gain from more
//! GPUs.

use crate::Form;

/// Rates of a GPU and of its link, in units per second.
#[derive(Clone, Copy, Debug)]
pub struct RankRates {
    /// Floating-point operations of a product without an exchange.
    pub product: f64,
    /// Bytes that a rank sends to the others.
    pub link: f64,
    /// Bytes that a product of few rows or an epilogue reads from memory.
    pub memory: f64,
    /// Further seconds of a call: flags, launches, and partial waves.
    pub call: f64,
}

impl RankRates {
    /// The time of a call in seconds: `extents` are M, N and K as in
    /// [`ParallelMatmul`](crate::ParallelMatmul), with 16-bit elements in equal shards. A gathered
    /// shard is multiplied after its rows have arrived, by one copy at a time. A scattered shard is
    /// stored over the link while it is multiplied; the rank's own shard is the last, and its
    /// epilogue reads what the others stored. The partial results of an all-reduce are read over
    /// the link after the product.
    ///
    /// ```
    /// use moye_parallel::{Form, RankRates};
    /// let rates = RankRates { product: 8e14, link: 4e11, memory: 4e12, call: 1e-5 };
    /// let [one, two] = [1, 2].map(|world| rates.time(Form::AllGather, [8192, 8192 / world, 8192], world));
    /// assert!(two < 0.6 * one);
    /// ```
    pub fn time(&self, form: Form, [m, n, k]: [usize; 3], world: usize) -> f64 {
        let bytes = |columns: usize| 2.0 * (m * columns) as f64;
        let operations = 2.0 * m as f64 * n as f64 * k as f64;
        // With few rows the time is that of reading B.
        let all = (operations / self.product).max(2.0 * (n * k) as f64 / self.memory);
        let shard = all / world as f64;
        if world == 1 {
            return all;
        }
        let others = world - 1;
        self.call
            + match form {
                Form::AllGather => {
                    let copy = bytes(k) / world as f64 / self.link;
                    (1..=others).fold(shard, |end, at| end.max(at as f64 * copy) + shard)
                }
                Form::ReduceScatter => {
                    let stored = bytes(n) / world as f64;
                    let others = others as f64;
                    others * shard.max(stored / self.link) + shard + others * stored / self.memory
                }
                Form::AllReduce => all + others as f64 * bytes(n) / self.link,
            }
    }
}
