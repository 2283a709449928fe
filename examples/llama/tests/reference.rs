//! The forward pass in float64, with the weights as candle dequantises them.

use crate::oracle;
use candle_core::Device;
use candle_core::quantized::gguf_file::Content;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// The weights of a file, and the sizes from its metadata.
pub struct Reference {
    architecture: String,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    head: usize,
    epsilon: f64,
    base: f64,
    weights: HashMap<String, Vec<f64>>,
}

type Rows = Vec<Vec<f64>>;

impl Reference {
    pub fn of(path: &Path) -> Self {
        let mut from = File::open(path).unwrap();
        let content = Content::read(&mut from).unwrap();
        let architecture = content.metadata["general.architecture"].to_string().unwrap().clone();
        let value = |key: &str| &content.metadata[&format!("{architecture}.{key}")];
        let number = |key: &str| value(key).to_u32().unwrap() as usize;
        let heads = number("attention.head_count");
        let of_heads = content.metadata.contains_key(&format!("{architecture}.attention.key_length"));
        let weights = content.tensor_infos.keys().map(|name| {
            let tensor = content.tensor(&mut from, name, &Device::Cpu).unwrap();
            let values = tensor.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap();
            (name.clone(), values.to_vec1::<f32>().unwrap().into_iter().map(f64::from).collect())
        });
        Self {
            layers: number("block_count"),
            heads,
            kv_heads: number("attention.head_count_kv"),
            head: if of_heads { number("attention.key_length") } else { number("embedding_length") / heads },
            epsilon: value("attention.layer_norm_rms_epsilon").to_f32().unwrap().into(),
            base: value("rope.freq_base").to_f32().unwrap().into(),
            weights: weights.collect(),
            architecture: architecture.clone(),
        }
    }

    fn weight(&self, name: &str) -> &[f64] {
        &self.weights[name]
    }

    /// `x w^T + bias`.
    fn linear(&self, x: &[Vec<f64>], name: &str) -> Rows {
        let (weight, columns) = (self.weight(&format!("{name}.weight")), x[0].len());
        let bias = self.weights.get(&format!("{name}.bias"));
        let row = &|x: &Vec<f64>| {
            let result = |(number, row): (usize, &[f64])| dot(x, row) + bias.map_or(0.0, |bias| bias[number]);
            weight.chunks(columns).enumerate().map(result).collect()
        };
        // Tokens are divided among threads, because a real model takes long.
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let chunks = x.chunks(x.len().div_ceil(threads));
        std::thread::scope(|scope| {
            let parts: Vec<_> =
                chunks.map(|chunk| scope.spawn(move || chunk.iter().map(row).collect::<Rows>())).collect();
            parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
        })
    }

    fn norm(&self, x: &[f64], name: &str) -> Vec<f64> {
        let factor = 1.0 / (dot(x, x) / x.len() as f64 + self.epsilon).sqrt();
        x.iter().zip(self.weight(name)).map(|(x, weight)| x * factor * weight).collect()
    }

    /// Rotates a head by a position.
    fn rotate(&self, head: &mut [f64], position: usize) {
        let factors = self.weights.get("rope_freqs.weight");
        for pair in 0..self.head / 2 {
            let angle = self.base.powf(-((2 * pair) as f64) / self.head as f64)
                / factors.map_or(1.0, |factors| factors[pair]);
            let (sin, cos) = (position as f64 * angle).sin_cos();
            let (i, j) = if self.architecture == "llama" {
                (2 * pair, 2 * pair + 1)
            } else {
                (pair, pair + self.head / 2)
            };
            (head[i], head[j]) = (head[i] * cos - head[j] * sin, head[j] * cos + head[i] * sin);
        }
    }

    /// A token's heads at its position, after their norm if there is one.
    fn heads(&self, x: &[f64], position: usize, norm: &str) -> Rows {
        let head = |head: &[f64]| {
            let mut head =
                if self.weights.contains_key(norm) { self.norm(head, norm) } else { head.to_vec() };
            self.rotate(&mut head, position);
            head
        };
        x.chunks(self.head).map(head).collect()
    }

    /// The logits after each token.
    pub fn logits(&self, tokens: &[u32]) -> Rows {
        let embedding = self.weight("token_embd.weight");
        let width = self.weight("output_norm.weight").len();
        let mut state: Rows =
            tokens.iter().map(|&token| embedding[token as usize * width..][..width].to_vec()).collect();
        for layer in 0..self.layers {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let normed: Rows = state.iter().map(|x| self.norm(x, &name("attn_norm.weight"))).collect();
            let [q, k, v] = ["attn_q", "attn_k", "attn_v"].map(|part| self.linear(&normed, &name(part)));
            let at = |x: &Rows, norm: &str| -> Vec<Rows> {
                x.iter().enumerate().map(|(position, x)| self.heads(x, position, &name(norm))).collect()
            };
            let (q, k) = (at(&q, "attn_q_norm.weight"), at(&k, "attn_k_norm.weight"));
            let attended: Rows =
                q.iter().enumerate().map(|(token, q)| self.attend(q, &k[..=token], &v)).collect();
            add(&mut state, &self.linear(&attended, &name("attn_output")));
            let normed: Rows = state.iter().map(|x| self.norm(x, &name("ffn_norm.weight"))).collect();
            let [gate, up] = ["ffn_gate", "ffn_up"].map(|part| self.linear(&normed, &name(part)));
            let silu = |(gate, up): (&f64, &f64)| gate / (1.0 + (-gate).exp()) * up;
            let inner: Rows =
                gate.iter().zip(&up).map(|(gate, up)| gate.iter().zip(up).map(silu).collect()).collect();
            add(&mut state, &self.linear(&inner, &name("ffn_down")));
        }
        let normed: Rows = state.iter().map(|x| self.norm(x, "output_norm.weight")).collect();
        self.linear(&normed, if self.weights.contains_key("output.weight") { "output" } else { "token_embd" })
    }

    /// The attention of a token's heads over the tokens up to it.
    fn attend(&self, q: &[Vec<f64>], k: &[Rows], v: &[Vec<f64>]) -> Vec<f64> {
        let (size, group) = (self.head, self.heads / self.kv_heads);
        let head = |(head, q): (usize, &Vec<f64>)| {
            let kv = head / group;
            let dot = |k: &Rows| oracle::dot(q.iter().copied(), k[kv].iter().copied());
            let scores = k.iter().map(|k| dot(k) / (size as f64).sqrt()).enumerate();
            let value = |key: usize| v[key][kv * size..][..size].iter().copied();
            oracle::row(scores, f64::NEG_INFINITY, size, value).values
        };
        q.iter().enumerate().flat_map(head).collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(state: &mut [Vec<f64>], delta: &[Vec<f64>]) {
    for (state, delta) in state.iter_mut().flatten().zip(delta.iter().flatten()) {
        *state += delta;
    }
}
