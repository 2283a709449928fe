//! Weights on a device, and a pass over sentences.
//!
//! The tokens of all sentences follow each other without padding: a product has one row for each
//! token, and attention and the mean read where each sentence starts.

use crate::error::{Error, Result};
use crate::files::{Config, Folder};
use crate::kernels::{BLK, BLK_N, HEAD};
use crate::real::Real;
use moye::{Buffer, Device, Grid, Matmul, Matrix, MatrixMut, Module};
use moye_rows::embedding::Embedding;
use moye_rows::norm::Norm;

static PTX: moye::Ptx = moye::include_ptx!("moye_minilm");

/// The maximum number of sentences of a batch: blocks along the grid's z axis.
const MOST_SENTENCES: usize = 65_535;

/// `x w^T + bias`.
struct Linear<T: Real> {
    weight: Buffer<T>,
    bias: Buffer<T>,
    /// Rows and columns of the weight.
    shape: [usize; 2],
}

impl<T: Real> Linear<T> {
    /// The stacked weights of linear layers, each of shape `shape`.
    fn load(device: &Device, folder: &Folder, names: &[String], shape: [usize; 2]) -> Result<Self> {
        let (mut weight, mut bias) = (Vec::new(), Vec::new());
        for name in names {
            weight.extend(folder.tensor(&format!("{name}.weight"), &shape)?);
            bias.extend(folder.tensor(&format!("{name}.bias"), &shape[..1])?);
        }
        let [rows, columns] = shape;
        let (weight, bias) = (upload(device, &weight)?, upload(device, &bias)?);
        Ok(Self { weight, bias, shape: [names.len() * rows, columns] })
    }

    /// `x w^T + bias`, one row for each token.
    fn of<'a>(&'a self, x: &'a Buffer<T>, tokens: usize) -> Result<Matmul<'a, T>> {
        let [rows, columns] = self.shape;
        let x = Matrix::row_major(x.slice(..tokens * columns)?, tokens, columns)?;
        let weight = Matrix::row_major(&self.weight, rows, columns)?;
        Ok(Matmul::new(x, weight.t()).bias(&self.bias))
    }
}

/// LayerNorm's weight and bias.
struct LayerNorm<T: Real>([Buffer<T>; 2]);

impl<T: Real> LayerNorm<T> {
    fn load(device: &Device, folder: &Folder, name: &str) -> Result<Self> {
        let part = |part| upload(device, &folder.tensor(&format!("{name}.{part}"), &[folder.config.width])?);
        Ok(Self([part("weight")?, part("bias")?]))
    }

    /// LayerNorm of the rows of `x`.
    fn of<'a>(&'a self, x: Matrix<'a, T>, epsilon: f32) -> Result<Norm<'a, T>> {
        let [weight, bias] = &self.0;
        let row = |buffer| Matrix::row_major(buffer, 1, x.cols());
        let (weight, bias) = (row(weight)?, row(bias)?);
        Ok(Norm::layer(x).weight(weight).bias(bias).eps(epsilon))
    }
}

/// The weights of a layer.
struct Layer<T: Real> {
    qkv: Linear<T>,
    attention_out: Linear<T>,
    attention_norm: LayerNorm<T>,
    inner: Linear<T>,
    out: Linear<T>,
    norm: LayerNorm<T>,
}

impl<T: Real> Layer<T> {
    fn load(device: &Device, folder: &Folder, number: usize) -> Result<Self> {
        let Config { width, inner, .. } = folder.config;
        let name = |part: &str| format!("encoder.layer.{number}.{part}");
        let linear = |parts: &[&str], shape| {
            let names: Vec<_> = parts.iter().map(|part| name(part)).collect();
            Linear::load(device, folder, &names, shape)
        };
        let norm = |part| LayerNorm::load(device, folder, &name(part));
        let qkv = ["attention.self.query", "attention.self.key", "attention.self.value"];
        Ok(Self {
            qkv: linear(&qkv, [width, width])?,
            attention_out: linear(&["attention.output.dense"], [width, width])?,
            attention_norm: norm("attention.output.LayerNorm")?,
            inner: linear(&["intermediate.dense"], [inner, width])?,
            out: linear(&["output.dense"], [width, inner])?,
            norm: norm("output.LayerNorm")?,
        })
    }
}

/// A model on a device.
pub struct Model<T: Real> {
    device: Device,
    module: Module,
    config: Config,
    words: Buffer<T>,
    /// The embeddings of positions, plus that of the first kind of token.
    positions: Buffer<T>,
    norm: LayerNorm<T>,
    layers: Vec<Layer<T>>,
    /// A weight with which RMSNorm divides a row by its length.
    unit: Buffer<T>,
}

/// Sentences on a device, and memory for a pass over them.
pub struct Batch<T: Real> {
    sentences: usize,
    tokens: usize,
    longest: usize,
    /// The tokens, and their positions.
    numbers: Buffer<i32>,
    /// The first token of each sentence, and the end.
    offsets: Buffer<i32>,
    /// States of the tokens, before and after a norm.
    states: [Buffer<T>; 2],
    /// Queries, keys and values, and the results of attention.
    qkv: Buffer<T>,
    attended: Buffer<T>,
    inner: Buffer<T>,
    means: Buffer<T>,
    vectors: Buffer<T>,
}

impl<T: Real> Batch<T> {
    /// The vectors of the last pass, one row for each sentence.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn vectors(&self) -> Result<Vec<Vec<f32>>> {
        let (vectors, width) = (self.vectors.download()?, self.vectors.len() / self.sentences);
        Ok(vectors.chunks(width).map(|row| row.iter().map(|element| element.value()).collect()).collect())
    }
}

impl<T: Real> Model<T> {
    /// Loads a model.
    ///
    /// # Errors
    /// The errors of the folder and of device memory.
    pub fn load(device: &Device, folder: &Folder) -> Result<Self> {
        let config = folder.config;
        let Config { width, vocabulary, positions, kinds, .. } = config;
        let name = |part: &str| format!("embeddings.{part}");
        let words = folder.tensor(&name("word_embeddings.weight"), &[vocabulary, width])?;
        let mut places = folder.tensor(&name("position_embeddings.weight"), &[positions, width])?;
        let kinds = folder.tensor(&name("token_type_embeddings.weight"), &[kinds, width])?;
        for row in places.chunks_mut(width) {
            row.iter_mut().zip(&kinds).for_each(|(place, kind)| *place += kind);
        }
        let layers = (0..config.layers).map(|number| Layer::load(device, folder, number));
        Ok(Self {
            device: device.clone(),
            module: device.load(&PTX)?,
            config,
            words: upload(device, &words)?,
            positions: upload(device, &places)?,
            norm: LayerNorm::load(device, folder, &name("LayerNorm"))?,
            layers: layers.collect::<Result<_>>()?,
            unit: upload(device, &vec![1.0 / (width as f32).sqrt(); width])?,
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Uploads the tokens of sentences, and allocates memory for a pass over them.
    ///
    /// # Errors
    /// [`Error::Request`] for no sentence or too many, for a sentence with no token, with too many,
    /// or with a token outside the vocabulary; the errors of device memory.
    pub fn batch(&self, sentences: &[Vec<u32>]) -> Result<Batch<T>> {
        let Config { width, inner, positions, vocabulary, .. } = self.config;
        let refuse = |detail| Err(Error::Request(detail));
        if sentences.is_empty() || sentences.len() > MOST_SENTENCES {
            return refuse(format!("{} sentences: a batch has 1 to {MOST_SENTENCES}", sentences.len()));
        }
        let (mut offsets, mut tokens, mut places) = (vec![0], Vec::new(), Vec::new());
        for (number, sentence) in sentences.iter().enumerate() {
            let count = sentence.len();
            if count == 0 || count > positions {
                return refuse(format!("sentence {number}: {count} tokens; 1 to {positions} are supported"));
            }
            if let Some(token) = sentence.iter().find(|&&token| token as usize >= vocabulary) {
                return refuse(format!(
                    "sentence {number} has token {token}, and the vocabulary {vocabulary}"
                ));
            }
            tokens.extend(sentence.iter().map(|&token| token as i32));
            places.extend(0..count as i32);
            // At most 65,535 sentences of `positions` tokens, which the check below limits.
            offsets.push(tokens.len() as i32);
        }
        let count = tokens.len();
        if count.saturating_mul(inner.max(3 * width)) > i32::MAX as usize {
            return refuse(format!("{count} tokens: embed fewer sentences at a time"));
        }
        tokens.extend(places);
        let rows = |columns: usize| self.device.alloc_uninit(count * columns);
        let row_of_each = || self.device.alloc_uninit(sentences.len() * width);
        Ok(Batch {
            sentences: sentences.len(),
            tokens: count,
            longest: sentences.iter().map(Vec::len).max().unwrap_or(0),
            numbers: self.device.upload(&tokens)?,
            offsets: self.device.upload(&offsets)?,
            states: [rows(width)?, rows(width)?],
            qkv: rows(3 * width)?,
            attended: rows(width)?,
            inner: rows(inner)?,
            means: row_of_each()?,
            vectors: row_of_each()?,
        })
    }

    /// Launches a pass over a batch on the device's default stream: 7 kernels for each layer.
    ///
    /// # Errors
    /// The errors of the launches.
    pub fn run(&self, batch: &mut Batch<T>) -> Result<()> {
        let Config { width, inner, epsilon, heads, vocabulary, positions, .. } = self.config;
        let (device, m) = (&self.device, batch.tokens);
        let [state, added] = &mut batch.states;
        let rows = |table, count| Matrix::row_major(table, count, width);
        let numbers = |range| Matrix::row_major(batch.numbers.slice(range)?, 1, m);
        Embedding::new(rows(&self.words, vocabulary)?, numbers(0..m)?)
            .run(device, &mut MatrixMut::row_major(&mut *added, m, width)?)?;
        Embedding::new(rows(&self.positions, positions)?, numbers(m..2 * m)?)
            .run(device, &mut MatrixMut::row_major(&mut batch.attended, m, width)?)?;
        let places = Matrix::row_major(&batch.attended, m, width)?;
        self.norm
            .of(Matrix::row_major(&*added, m, width)?, epsilon)?
            .residual(places)
            .run(device, &mut MatrixMut::row_major(&mut *state, m, width)?)?;

        let (attention, threads) = T::ATTENTION;
        let blocks = ((batch.longest as u32).div_ceil(BLK), self.config.heads as u32, batch.sentences as u32);
        let scale = 1.0 / (HEAD as f32).sqrt();
        for layer in &self.layers {
            let mut qkv = MatrixMut::row_major(&mut batch.qkv, m, 3 * width)?;
            layer.qkv.of(state, m)?.run(device, &mut qkv)?;
            let arguments = (&batch.qkv, &batch.offsets, &mut batch.attended, heads as u32, scale);
            // SAFETY: the buffers have a row for each token, and `batch` built the offsets.
            unsafe { self.module.launch(&attention, Grid::new(blocks, threads), arguments)? };
            // Products are added to the state, whose norm is the next state.
            let mut to = MatrixMut::row_major(&mut *state, m, width)?;
            layer.attention_out.of(&batch.attended, m)?.beta(1.0).run(device, &mut to)?;
            let mut normed = MatrixMut::row_major(&mut *added, m, width)?;
            layer.attention_norm.of(to.as_matrix(), epsilon)?.run(device, &mut normed)?;

            let mut to = MatrixMut::row_major(&mut batch.inner, m, inner)?;
            layer.inner.of(added, m)?.gelu().run(device, &mut to)?;
            let mut to = MatrixMut::row_major(&mut *added, m, width)?;
            layer.out.of(&batch.inner, m)?.beta(1.0).run(device, &mut to)?;
            let mut normed = MatrixMut::row_major(&mut *state, m, width)?;
            layer.norm.of(to.as_matrix(), epsilon)?.run(device, &mut normed)?;
        }

        let grid = Grid::new(((width as u32).div_ceil(BLK_N), batch.sentences as u32), Self::MEAN_THREADS);
        let arguments = (&*state, &batch.offsets, &mut batch.means, width as u32);
        // SAFETY: `batch` built the offsets, and there is a mean for each sentence.
        unsafe { self.module.launch(&T::MEAN, grid, arguments)? };
        // Divides by the root of the mean square, and by the root of the number of elements.
        Norm::rms(Matrix::row_major(&batch.means, batch.sentences, width)?)
            .weight(Matrix::row_major(&self.unit, 1, width)?)
            .eps(f32::MIN_POSITIVE)
            .run(device, &mut MatrixMut::row_major(&mut batch.vectors, batch.sentences, width)?)?;
        Ok(())
    }

    /// A warp.
    const MEAN_THREADS: u32 = 32;
}

fn upload<T: Real>(device: &Device, elements: &[f32]) -> Result<Buffer<T>> {
    Ok(device.upload(&elements.iter().map(|&element| T::of(element)).collect::<Vec<_>>())?)
}
