//! The pass over a sentence in float64.

use crate::oracle;
use moye_minilm::files::{Config, Folder};
use std::iter;

type Rows = Vec<Vec<f64>>;

/// The weights of a model's folder.
pub struct Reference<'a>(pub &'a Folder);

impl Reference<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> Vec<f64> {
        self.0.tensor(name, shape).unwrap().into_iter().map(f64::from).collect()
    }

    /// `x w^T + bias`.
    fn linear(&self, x: &Rows, name: &str, rows: usize) -> Rows {
        let weight = self.tensor(&format!("{name}.weight"), &[rows, x[0].len()]);
        let bias = self.tensor(&format!("{name}.bias"), &[rows]);
        let row = |x: &Vec<f64>| {
            weight.chunks(x.len()).zip(&bias).map(|(weight, bias)| dot(x, weight) + bias).collect()
        };
        x.iter().map(row).collect()
    }

    fn norm(&self, x: &Rows, name: &str) -> Rows {
        let width = self.0.config.width;
        let [weight, bias] = ["weight", "bias"].map(|part| self.tensor(&format!("{name}.{part}"), &[width]));
        let row = |x: &Vec<f64>| {
            let mean = x.iter().sum::<f64>() / width as f64;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
            let scale = 1.0 / (variance + f64::from(self.0.config.epsilon)).sqrt();
            x.iter().zip(iter::zip(&weight, &bias)).map(|(x, (w, b))| (x - mean) * scale * w + b).collect()
        };
        x.iter().map(row).collect()
    }

    /// The vector of a sentence.
    pub fn vector(&self, tokens: &[u32]) -> Vec<f64> {
        let Config { layers, width, heads, inner, positions, vocabulary, kinds, .. } = self.0.config;
        let name = |part: &str| format!("embeddings.{part}_embeddings.weight");
        let words = self.tensor(&name("word"), &[vocabulary, width]);
        let places = self.tensor(&name("position"), &[positions, width]);
        let kind = self.tensor(&name("token_type"), &[kinds, width]);
        let token = |(place, &token): (usize, &u32)| {
            let (word, place) = (&words[token as usize * width..], &places[place * width..]);
            (0..width).map(|i| word[i] + place[i] + kind[i]).collect()
        };
        let mut state = self.norm(&tokens.iter().enumerate().map(token).collect(), "embeddings.LayerNorm");
        for layer in 0..layers {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            let of = |part: &str| self.linear(&state, &name(&format!("attention.self.{part}")), width);
            let attended = attend(&of("query"), &of("key"), &of("value"), heads);
            let added = add(&self.linear(&attended, &name("attention.output.dense"), width), &state);
            let normed = self.norm(&added, &name("attention.output.LayerNorm"));
            let mut hidden = self.linear(&normed, &name("intermediate.dense"), inner);
            hidden.iter_mut().flatten().for_each(|x| *x *= 0.5 * (1.0 + libm::erf(*x / 2f64.sqrt())));
            let added = add(&self.linear(&hidden, &name("output.dense"), width), &normed);
            state = self.norm(&added, &name("output.LayerNorm"));
        }
        let mean = |i: usize| state.iter().map(|row| row[i]).sum::<f64>() / state.len() as f64;
        let mean: Vec<f64> = (0..width).map(mean).collect();
        let length = dot(&mean, &mean).sqrt();
        mean.into_iter().map(|x| x / length).collect()
    }
}

/// Attention of each token over the whole sentence.
fn attend(q: &Rows, k: &Rows, v: &Rows, heads: usize) -> Rows {
    let size = q[0].len() / heads;
    let row = |q: &Vec<f64>| {
        let head = |head: usize| {
            let at = head * size..(head + 1) * size;
            let part = |row: &[f64]| row[at.clone()].to_vec();
            let scores = k.iter().map(|k| oracle::dot(part(q), part(k)) / (size as f64).sqrt()).enumerate();
            oracle::row(scores, f64::NEG_INFINITY, size, |key| part(&v[key])).values
        };
        (0..heads).flat_map(head).collect()
    };
    q.iter().map(row).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    iter::zip(a, b).map(|(a, b)| a * b).sum()
}

fn add(a: &Rows, b: &Rows) -> Rows {
    iter::zip(a, b).map(|(a, b)| iter::zip(a, b).map(|(a, b)| a + b).collect()).collect()
}
