//! A rank's part of a model over several GPUs: heads, and columns of the inner state.
//!
//! The part is a model with fewer heads and a smaller inner state. Its products after attention and
//! of the feed-forward block return one summand of a sum over the ranks.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::gguf::{Gguf, Tensor, Value};
use half::f16;
use std::ops::Range;

/// A range of a stored tensor's columns.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// Columns and format of the stored tensor.
    of: (usize, Format),
    taken: Range<usize>,
}

impl Columns {
    /// The blocks of the columns, converted to f16 if the range does not consist of whole blocks.
    pub fn of(&self, blocks: &[u8]) -> Vec<u8> {
        let (columns, format) = self.of;
        let bytes = |columns: usize| columns / format.elements() * format.bytes();
        let rows = blocks.chunks_exact(bytes(columns));
        if self.is_whole() {
            return rows
                .flat_map(|row| &row[bytes(self.taken.start)..bytes(self.taken.end)])
                .copied()
                .collect();
        }
        let halves = |row| {
            format.dequantize(row)[self.taken.clone()]
                .iter()
                .flat_map(|&x| f16::from_f32(x).to_le_bytes())
                .collect()
        };
        rows.flat_map(|row| -> Vec<u8> { halves(row) }).collect()
    }

    fn is_whole(&self) -> bool {
        let elements = self.of.1.elements();
        self.taken.start.is_multiple_of(elements) && self.taken.end.is_multiple_of(elements)
    }
}

impl Tensor {
    /// Restricts the tensor to these rows, or a vector to these elements.
    fn rows(&mut self, taken: Range<usize>) {
        // An empty tensor has no bytes either.
        let of = (self.shape[0] * self.shape[1]).max(1);
        let across = if self.shape[0] == 1 { 1 } else { self.shape[1] };
        let bytes = |elements: usize| (self.place.1 as u128 * elements as u128 / of as u128) as usize;
        self.place = (self.place.0 + bytes(taken.start * across) as u64, bytes(taken.len() * across));
        self.shape[usize::from(self.shape[0] == 1)] = taken.len();
    }

    fn columns(&mut self, taken: Range<usize>) {
        let columns = Columns { of: (self.shape[1], self.format), taken };
        self.shape[1] = columns.taken.len();
        if !columns.is_whole() {
            self.format = Format::F16;
        }
        self.columns = Some(columns);
    }
}

impl Gguf {
    /// The part of rank `rank` of `world`. With fewer key-value heads than ranks, ranks share a
    /// head.
    ///
    /// # Errors
    /// [`Error::Request`] if `world` does not divide the model, and as for [`Config::of`].
    pub fn cut(mut self, rank: usize, world: usize) -> Result<Self> {
        let Config { heads, kv_heads, head, inner, .. } = Config::of(&self)?;
        let is_shared = world.is_multiple_of(kv_heads);
        let divides = heads.is_multiple_of(world) && inner.is_multiple_of(world);
        if rank >= world || !divides || !(kv_heads.is_multiple_of(world) || is_shared) {
            return Err(Error::Request(format!(
                "{heads} heads, {kv_heads} of keys and values, and an inner state of {inner} cannot be cut over {world} GPUs"
            )));
        }
        let share = |all: usize| rank * all / world..(rank * all / world + all.div_ceil(world));
        let (own, own_kv, own_inner) = (share(heads), share(kv_heads), share(inner));
        let elements = |heads: &Range<usize>| heads.start * head..heads.end * head;
        for (name, tensor) in &mut self.tensors {
            let (Some(part), Ok(tensor)) =
                (name.strip_prefix("blk.").and_then(|name| name.split('.').nth(1)), tensor)
            else {
                continue;
            };
            let whole = [heads, kv_heads].map(|heads| heads * head);
            let is = |rows: usize| tensor.shape[0] == rows || tensor.shape == [1, rows];
            match part {
                "attn_q" if is(whole[0]) => tensor.rows(elements(&own)),
                "attn_k" | "attn_v" if is(whole[1]) => tensor.rows(elements(&own_kv)),
                "ffn_gate" | "ffn_up" if is(inner) => tensor.rows(own_inner.clone()),
                "attn_output" if tensor.shape[1] == whole[0] => tensor.columns(elements(&own)),
                "ffn_down" if tensor.shape[1] == inner => tensor.columns(own_inner.clone()),
                _ => {}
            }
        }
        let architecture = self.string("general.architecture")?.unwrap_or_default().to_owned();
        for (key, number) in [
            ("attention.head_count", own.len()),
            ("attention.head_count_kv", own_kv.len()),
            ("attention.key_length", head),
            ("attention.value_length", head),
            ("feed_forward_length", own_inner.len()),
        ] {
            self.metadata.insert(format!("{architecture}.{key}"), Value::Integer(number as i128));
        }
        Ok(self)
    }
}
