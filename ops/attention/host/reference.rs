//! A declared call of attention in float64.

use super::declared::ATTENTION;
use super::oracle::{capped, distance, dot, row, sees};
use moye_runtime::operation::{ArrayType, Options};

/// The inputs of a call, by name.
struct Inputs<'a>(&'a [Option<(ArrayType, Vec<f64>)>]);

impl Inputs<'_> {
    fn get(&self, name: &str) -> Option<(&[usize], &[f64])> {
        let index = ATTENTION.operands.iter().position(|of| of.name == name)?;
        self.0[index].as_ref().map(|(ty, elements)| (&ty.shape[..], &elements[..]))
    }

    /// The shape and the elements of q, k or v.
    fn four(&self, name: &str) -> ([usize; 4], &[f64]) {
        let (shape, elements) = self.get(name).expect("it is not optional");
        (shape.try_into().expect("`results` has refused others"), elements)
    }

    /// The element of a tensor of scores; `None` without the tensor.
    fn score(&self, name: &str, at: [usize; 4]) -> Option<f64> {
        let (shape, elements) = self.get(name)?;
        let modes = shape.iter().zip(&at[4 - shape.len()..]);
        let place = modes.fold(0, |place, (&extent, &at)| place * extent + if extent == 1 { 0 } else { at });
        Some(elements[place])
    }

    /// The element of a head: of one for all, one for each head, or one for each of each batch.
    fn of_head(&self, name: &str, sequence: usize, head: usize, heads: usize) -> Option<f64> {
        let (_, elements) = self.get(name)?;
        Some(match elements.len() {
            1 => elements[0],
            len if len == heads => elements[head],
            _ => elements[sequence * heads + head],
        })
    }

    /// The tokens of a sequence of `q` or `k`.
    fn tokens(&self, offsets: &str, sequence: usize, all: usize) -> Tokens {
        match self.get(offsets) {
            Some((_, at)) => {
                let count = (at[sequence + 1] - at[sequence]) as usize;
                Tokens { batch: 0, first: at[sequence] as usize, count }
            }
            None => Tokens { batch: sequence, first: 0, count: all },
        }
    }
}

/// The tokens of a sequence.
struct Tokens {
    batch: usize,
    first: usize,
    count: usize,
}

/// The results and the log-sum-exps.
pub fn reference(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options) -> Vec<Vec<f64>> {
    let of = Inputs(inputs);
    let ([batches, heads, q_tokens, d], q) = of.four("q");
    let ([_, kv_heads, k_tokens, _], k) = of.four("k");
    let ([_, _, _, dv], v) = of.four("v");
    let sequences = of.get("q_offsets").map_or(batches, |(_, offsets)| offsets.len() - 1);
    let rows = batches * heads * q_tokens;
    let (mut out, mut lse) = (vec![0.0; rows * dv], vec![f64::NEG_INFINITY; rows]);
    let window = if options.is_set("window") { options.pair("window") } else { [None; 2] };
    let [left, right] = window.map(|side| side.map_or(i32::MAX, |side| side as i32));
    let right = if options.bool("causal") { right.min(0) } else { right };
    let scale = if options.is_set("scale") { options.float("scale") } else { 1.0 / (d as f64).sqrt() };
    let cap = if options.is_set("softcap") { options.float("softcap") } else { 0.0 };
    for sequence in 0..sequences {
        let Tokens { batch: q_batch, first: q_first, count: queries } =
            of.tokens("q_offsets", sequence, q_tokens);
        let Tokens { batch: k_batch, first: k_first, count: capacity } =
            of.tokens("k_offsets", sequence, k_tokens);
        let table = of.get("page_table").map(|(shape, table)| &table[sequence * shape[1]..][..shape[1]]);
        let capacity = table.map_or(capacity, |pages| pages.len() * k_tokens);
        let keys = of.get("key_lengths").map_or(capacity, |(_, lengths)| lengths[sequence] as usize);
        for head in 0..heads {
            let kv_head = head / (heads / kv_heads);
            let factor = |name, head, heads| of.of_head(name, sequence, head, heads).unwrap_or(1.0);
            let scale = scale * factor("q_scale", head, heads) * factor("k_scale", kv_head, kv_heads);
            let v_scale = factor("v_scale", kv_head, kv_heads);
            let sink = of.get("sinks").map_or(f64::NEG_INFINITY, |(_, sinks)| sinks[head]);
            let slope = of.of_head("alibi", sequence, head, heads).unwrap_or(0.0);
            let key_row = |key: usize| match table {
                Some(pages) => {
                    (pages[key / k_tokens] as usize * kv_heads + kv_head) * k_tokens + key % k_tokens
                }
                None => (k_batch * kv_heads + kv_head) * k_tokens + k_first + key,
            };
            for query in 0..queries {
                let at = (q_batch * heads + head) * q_tokens + q_first + query;
                let own = &q[at * d..][..d];
                let score = |key: usize| {
                    let apart = distance(query, key, [queries, keys]);
                    let place = [sequence, head, query, key];
                    let product = dot(own.iter().copied(), k[key_row(key) * d..][..d].iter().copied());
                    let score = capped(scale * product, cap) - slope * apart.unsigned_abs() as f64
                        + of.score("bias", place).unwrap_or(0.0);
                    let is_seen = sees(apart, [left, right]) && of.score("mask", place) != Some(0.0);
                    (key, if is_seen { score } else { f64::NEG_INFINITY })
                };
                let row = row((0..keys).map(score), sink, dv, |key| {
                    v[key_row(key) * dv..][..dv].iter().map(move |v| v * v_scale)
                });
                lse[at] = row.lse;
                out[at * dv..][..dv].copy_from_slice(&row.values);
            }
        }
    }
    vec![out, lse]
}
