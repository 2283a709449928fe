//! A layer: RMSNorm, attention, RMSNorm, gated feed-forward.
//!
//! The products after attention and of the feed-forward block add to the state. For a token with
//! quantised weights a layer is five kernels: products that start with the norm, and attention that
//! rotates and appends.

use crate::attend::{Attend, Place, TokenBuffers};
use crate::cache::LayerCache;
use crate::config::Config;
use crate::error::Result;
use crate::linear::{Input, Loader, Rows, Weight, gated, linear};
use crate::ranks::Ranks;
use half::f16;
use moye::{Attention, Buffer, BufferSlice, Device, Heads, HeadsMut, Matrix, MatrixMut, Stream};
use moye_rows::append::Append;
use moye_rows::norm::Norm;
use moye_rows::rope::Rope;

/// The weights of a layer.
pub struct Layer {
    attention_norm: Buffer<f16>,
    /// Queries, keys and values: one weight, or three if queries and keys have norms.
    qkv: Vec<Weight>,
    /// The norms of a head's queries and keys.
    head_norms: Option<[Buffer<f16>; 2]>,
    attention_out: Weight,
    inner_norm: Buffer<f16>,
    gate_up: Weight,
    down: Weight,
}

/// The tokens of a pass, and their indices, which are in device memory.
pub struct Batch<'a> {
    /// The number of tokens.
    pub tokens: usize,
    /// Their positions.
    pub positions: BufferSlice<'a, i32>,
    /// Their slots in the cache; -1 for a token without a slot.
    pub slots: BufferSlice<'a, i32>,
    /// The number of sequences.
    pub sequences: usize,
    /// The first token of each sequence and the end, and the maximum number of tokens of one;
    /// `None` if each has one token.
    pub offsets: Option<(BufferSlice<'a, i32>, usize)>,
    /// Tokens of each sequence in the cache, including this pass.
    pub lengths: BufferSlice<'a, i32>,
    /// The pages of each sequence, and the number of pages of a sequence in this table.
    pub pages: (BufferSlice<'a, i32>, usize),
}

/// Memory for intermediate results, for the maximum number of tokens of a pass.
pub struct Scratch {
    /// The state of each token.
    pub(crate) state: Buffer<f16>,
    /// The state after its norm.
    pub(crate) normed: Buffer<f16>,
    qkv: Buffer<f16>,
    attended: Buffer<f16>,
    gate_up: Buffer<f16>,
    inner: Buffer<f16>,
    attend: Attend,
}

impl Scratch {
    /// Memory for passes of `chunk` tokens of prompts, and of one token of each of at most
    /// `sequences` sequences of `context` tokens.
    ///
    /// # Errors
    /// [`moye::Error::OutOfMemory`].
    pub fn new(
        device: &Device,
        config: &Config,
        chunk: usize,
        sequences: usize,
        context: usize,
    ) -> moye::Result<Self> {
        let tokens = chunk.max(sequences);
        let rows = |columns: usize| device.alloc_uninit(tokens * columns);
        Ok(Self {
            state: rows(config.width)?,
            normed: rows(config.width)?,
            qkv: rows(config.qkv())?,
            attended: rows(config.heads * config.head)?,
            gate_up: rows(2 * config.inner)?,
            inner: rows(config.inner)?,
            attend: Attend::new(device, config, sequences, context)?,
        })
    }
}

/// Maximum tokens of a pass and rows of a weight for which each block of a product recomputes the
/// norm: the blocks are then about one wave. Above these the norm is a separate kernel.
const NORMED_IN_PRODUCTS: (usize, usize) = (16, 8448);

/// Data that all layers of a pass share.
pub(crate) struct Pass<'a> {
    pub stream: &'a Stream,
    pub config: &'a Config,
    pub batch: &'a Batch<'a>,
    /// Cosines and sines, one row for each position.
    pub tables: &'a [Buffer<f32>; 2],
    /// The ranks whose results are summed.
    pub ranks: Option<&'a Ranks>,
}

impl Layer {
    /// Loads the weights of layer `number`.
    ///
    /// # Errors
    /// The errors of the file and of device memory.
    pub fn load(loader: &mut Loader<'_>, config: &Config, number: usize) -> Result<Self> {
        let name = |part: &str| format!("blk.{number}.{part}");
        let weight = |loader: &mut Loader<'_>, parts: &[(&str, usize)], columns, biased| {
            let tensors: Vec<_> = parts.iter().map(|(part, rows)| (name(part), *rows)).collect();
            Weight::load(loader, &tensors, columns, biased)
        };
        let norm = |loader: &Loader<'_>, part: &str, elements| loader.vector(&name(part), elements);
        let &Config { width, inner, heads, kv_heads, head, .. } = config;
        let has_norms = loader.has(&name("attn_q_norm.weight"));
        let parts = [("attn_q", heads * head), ("attn_k", kv_heads * head), ("attn_v", kv_heads * head)];
        let qkv = if has_norms {
            parts.into_iter().map(|part| weight(loader, &[part], width, true)).collect::<Result<_>>()?
        } else {
            vec![weight(loader, &parts, width, true)?]
        };
        let norms = |loader: &Loader<'_>| {
            let [q, k] = ["attn_q_norm.weight", "attn_k_norm.weight"].map(|part| norm(loader, part, head));
            Ok::<_, crate::Error>([q?, k?])
        };
        Ok(Self {
            attention_norm: norm(loader, "attn_norm.weight", width)?,
            qkv,
            head_norms: has_norms.then(|| norms(loader)).transpose()?,
            attention_out: weight(loader, &[("attn_output", width)], heads * head, false)?,
            inner_norm: norm(loader, "ffn_norm.weight", width)?,
            gate_up: Weight::gated(loader, ["ffn_gate", "ffn_up"].map(&name), inner, width)?,
            down: weight(loader, &[("ffn_down", width)], inner, false)?,
        })
    }

    /// Bytes of the weights on the device.
    pub fn bytes(&self) -> usize {
        let weights = self.qkv.iter().chain([&self.attention_out, &self.gate_up, &self.down]);
        weights.map(Weight::bytes).sum()
    }

    /// Adds the layer's results to the state.
    ///
    /// # Safety
    /// The indices of the batch are within the cache and the tables, and no other stream uses the
    /// buffers until the work is complete.
    pub(crate) unsafe fn run(
        &self,
        pass: &Pass<'_>,
        scratch: &mut Scratch,
        cache: LayerCache<'_>,
    ) -> moye::Result<()> {
        let &Config { width, inner, .. } = pass.config;
        let (stream, m) = (pass.stream, pass.batch.tokens);
        self.attend(pass, scratch, cache)?;
        let attended = Matrix::row_major(&scratch.attended, m, self.attention_out.columns())?;
        let adds = pass.ranks.is_none_or(Ranks::adds);
        linear(stream, &self.attention_out, &attended.into(), Rows::all(&mut scratch.state, width), adds)?;
        pass.ranks.map_or(Ok(()), |ranks| ranks.sum(stream, &mut scratch.state, m * width))?;

        let products = std::slice::from_ref(&self.gate_up);
        let normed = pass.norm(&scratch.state, &mut scratch.normed, &self.inner_norm, products)?;
        let mut y = MatrixMut::row_major(&mut scratch.inner, m, inner)?;
        gated(stream, &self.gate_up, &normed, &mut scratch.gate_up, &mut y)?;
        linear(stream, &self.down, &y.as_matrix().into(), Rows::all(&mut scratch.state, width), adds)?;
        pass.ranks.map_or(Ok(()), |ranks| ranks.sum(stream, &mut scratch.state, m * width))
    }

    /// Computes queries, keys and values of the normalised state, and attention over the cache
    /// including them.
    ///
    /// # Safety
    /// Same contract as [`Layer::run`].
    unsafe fn attend(
        &self,
        pass: &Pass<'_>,
        scratch: &mut Scratch,
        cache: LayerCache<'_>,
    ) -> moye::Result<()> {
        let Pass { stream, config, batch, .. } = pass;
        let &Config { heads, kv_heads, head, .. } = *config;
        let (m, of_kv) = (batch.tokens, kv_heads * head);
        // The offsets of queries, keys and values, and the stride between tokens of each.
        let starts = [0, heads * head, heads * head + of_kv];
        let [q, k, v] = match self.qkv.len() {
            1 => starts.map(|start| Place { start, stride: config.qkv() }),
            _ => [
                Place { start: 0, stride: heads * head },
                Place { start: m * starts[1], stride: of_kv },
                Place { start: m * starts[2], stride: of_kv },
            ],
        };
        let qkv = &mut scratch.qkv;
        let normed = pass.norm(&scratch.state, &mut scratch.normed, &self.attention_norm, &self.qkv)?;
        for (weight, Place { start, stride }) in self.qkv.iter().zip([q, k, v]) {
            linear(stream, weight, &normed, Rows { buffer: qkv, start, stride }, false)?;
        }
        if let Some(norms) = &self.head_norms {
            for (weight, (Place { start, .. }, heads)) in norms.iter().zip([(q, heads), (k, kv_heads)]) {
                let all = m * heads * head;
                // RMSNorm in place: a block reads a row before writing it.
                let rows =
                    Buffer::<f16>::from_raw_parts(qkv.address() + 2 * start as u64, all, qkv.device())?;
                let mut y = MatrixMut::row_major(qkv.slice_mut(start..)?, m * heads, head)?;
                Norm::rms(Matrix::row_major(&rows, m * heads, head)?)
                    .weight(Matrix::row_major(weight, 1, head)?)
                    .eps(config.epsilon)
                    .run_on(stream, &mut y, None)?;
            }
        }
        let Some((offsets, longest)) = &batch.offsets else {
            let buffers = TokenBuffers { qkv, places: [q, k, v], o: &mut scratch.attended };
            return scratch.attend.run(stream, config, batch, buffers, pass.tables, cache);
        };
        // Adjacent queries and keys are the heads of one rotation.
        let rotated = match self.qkv.len() {
            1 => vec![(q, heads + kv_heads)],
            _ => vec![(q, heads), (k, kv_heads)],
        };
        for (Place { start, stride }, heads) in rotated {
            let mut x = MatrixMut::new(qkv.slice_mut(start..)?, m, heads * head, (stride, 1))?;
            pass.rotate(&mut x)?;
        }
        let LayerCache { buffer: cache, pages, page } = cache;
        // Adjacent keys and values are one row of the cache.
        let slots = Matrix::row_major(batch.slots.clone(), 1, m)?;
        let appended = match self.qkv.len() {
            1 => vec![(k, 0, 2 * of_kv)],
            _ => vec![(k, 0, of_kv), (v, of_kv, of_kv)],
        };
        for (Place { start, stride }, column, columns) in appended {
            let rows = Matrix::new(qkv.slice(start..)?, m, columns, (stride, 1))?;
            let to = cache.slice_mut(column..)?;
            let mut to = MatrixMut::new(to, pages * page, columns, (2 * of_kv, 1))?;
            Append::new(rows, slots.clone()).run_on(stream, &mut to)?;
        }

        let extents = [1, heads, m, head];
        let queries = Heads::strided(qkv.slice(q.start..)?, extents, [q.stride, head, q.stride])?;
        let of_page = [page * 2 * of_kv, head, 2 * of_kv];
        let cached =
            |column: usize| Heads::strided(cache.slice(column..)?, [pages, kv_heads, page, head], of_page);
        let mut o = HeadsMut::strided(&mut scratch.attended, extents, [heads * head, head, heads * head])?;
        let (table, of_sequence) = &batch.pages;
        Attention::new(queries, cached(0)?, cached(of_kv)?)
            .causal()
            .pages(table.clone(), *of_sequence)
            .key_lengths(batch.lengths.clone())
            .variable_queries(offsets.clone(), *longest)
            .run_on(stream, &mut o)
    }
}

impl Pass<'_> {
    /// The operand of `products`: the state if they start with its norm, otherwise the norm's
    /// result in `normed`.
    ///
    /// # Safety
    /// Same contract as [`Layer::run`].
    pub unsafe fn norm<'s>(
        &self,
        state: &'s Buffer<f16>,
        normed: &'s mut Buffer<f16>,
        weight: &'s Buffer<f16>,
        products: &[Weight],
    ) -> moye::Result<Input<'s>> {
        let (m, width) = (self.batch.tokens, self.config.width);
        let (state, weight) = (Matrix::row_major(state, m, width)?, Matrix::row_major(weight, 1, width)?);
        let fits = |weight: &Weight| weight.is_packed() && weight.rows() <= NORMED_IN_PRODUCTS.1;
        if m <= NORMED_IN_PRODUCTS.0 && products.iter().all(fits) {
            return Ok(Input { x: state, norm: Some((weight, self.config.epsilon)) });
        }
        let norm = Norm::rms(state).weight(weight).eps(self.config.epsilon);
        norm.run_on(self.stream, &mut MatrixMut::row_major(&mut *normed, m, width)?, None)?;
        Ok(Matrix::row_major(&*normed, m, width)?.into())
    }

    /// Rotates heads in place by the positions of their tokens.
    ///
    /// # Safety
    /// Same contract as [`Layer::run`].
    unsafe fn rotate(&self, x: &mut MatrixMut<'_, f16>) -> moye::Result<()> {
        let rotation = &self.config.rotation;
        let pairs = rotation.angles.len();
        let [cos, sin] = self.tables;
        let table = |table| Matrix::row_major(table, cos.len() / pairs, pairs);
        let positions = Matrix::row_major(self.batch.positions.clone(), 1, self.batch.tokens)?;
        let mut rope = Rope::new(self.config.head)
            .positions(positions)
            .tables(table(cos)?, table(sin)?)
            .rotary(rotation.elements);
        if rotation.adjacent {
            rope = rope.interleaved();
        }
        rope.run_on(self.stream, x)
    }
}
