//! A model on a device: its weights, and passes over tokens.

use crate::cache::Cache;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::gguf::Gguf;
use crate::layer::{Batch, Layer, Pass, Scratch};
use crate::linear::{Loader, Rows, Weight, linear};
use crate::ranks::Ranks;
use half::f16;
use moye::{Buffer, BufferSlice, Device, Matrix, MatrixMut, Stream};
use moye_rows::embedding::Embedding;
use std::sync::Arc;

/// A model on a device.
pub struct Model {
    device: Device,
    config: Config,
    embedding: Arc<Buffer<f16>>,
    layers: Vec<Layer>,
    norm: Buffer<f16>,
    /// The output matrix: a tensor of the file, or the embedding.
    output: Weight,
    /// Cosines and sines of the rotation, one row for each position.
    tables: [Buffer<f32>; 2],
    context: usize,
    ranks: Option<Ranks>,
}

impl Model {
    /// Loads a model for sequences of `context` tokens. `progress` receives the number of loaded
    /// layers and of all layers.
    ///
    /// # Errors
    /// The errors of the file and of device memory.
    pub fn load(
        device: &Device,
        file: &Gguf,
        context: usize,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let config = Config::of(file)?;
        // Elements of the rotation's tables are counted in i32.
        let most = config.context.min(i32::MAX as usize / config.head);
        if context == 0 || context > most {
            return Err(Error::Request(format!(
                "a context of {context} tokens: the model takes 1 to {most}"
            )));
        }
        let shape = [config.vocabulary, config.width];
        let mut loader = Loader::new(device, file);
        let (tied, embedding) = Weight::embedding(&mut loader, "token_embd.weight", shape)?;
        progress(0, config.layers);
        // Without a capacity: a damaged file may claim any number of layers.
        let mut layers = Vec::new();
        for number in 0..config.layers {
            layers.push(Layer::load(&mut loader, &config, number)?);
            progress(number + 1, config.layers);
        }
        let output = if file.has("output.weight") {
            Weight::load(&mut loader, &[("output".to_owned(), config.vocabulary)], config.width, false)?
        } else {
            tied
        };
        let norm = loader.vector("output_norm.weight", config.width)?;
        let [cos, sin] = config.tables(context);
        let tables = [device.upload(&cos)?, device.upload(&sin)?];
        Ok(Self {
            device: device.clone(),
            config,
            embedding,
            layers,
            norm,
            output,
            tables,
            context,
            ranks: None,
        })
    }

    /// Sets the ranks over which the model is cut: this model is the [part](Gguf::cut) of one of
    /// them.
    #[must_use]
    pub fn ranks(self, ranks: Option<Ranks>) -> Self {
        Self { ranks, ..self }
    }

    /// Whether a token may be a graph: calls over several ranks cannot be captured.
    pub fn allows_graphs(&self) -> bool {
        self.ranks.is_none()
    }

    /// Waits for the stream's work, with a timeout if other ranks take part in it.
    ///
    /// # Errors
    /// Same as [`moye_parallel::Group::wait`].
    pub fn wait(&self, stream: &Stream) -> moye::Result<()> {
        self.ranks.as_ref().map_or(Ok(()), |ranks| ranks.wait(stream))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Sizes and variants.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The maximum number of tokens of a sequence.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Bytes of the weights that a token reads.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(Layer::bytes).sum::<usize>() + self.output.bytes()
    }

    /// Appends the keys and values of the batch's tokens to the cache. Afterwards `scratch.state`
    /// is the state of each token after the last layer.
    ///
    /// # Errors
    /// The errors of the launches.
    ///
    /// # Safety
    /// `tokens` are in the vocabulary and positions below the context; slots are in the cache or
    /// -1, pages in the cache, and lengths at most those of the pages. No other stream uses the
    /// buffers until the work is complete.
    pub unsafe fn read(
        &self,
        stream: &Stream,
        tokens: BufferSlice<'_, i32>,
        batch: &Batch<'_>,
        scratch: &mut Scratch,
        cache: &mut Cache,
    ) -> moye::Result<()> {
        let (m, width) = (batch.tokens, self.config.width);
        let pass =
            Pass { stream, config: &self.config, batch, tables: &self.tables, ranks: self.ranks.as_ref() };
        let table = Matrix::row_major(&*self.embedding, self.config.vocabulary, width)?;
        let embedding = Embedding::new(table, Matrix::row_major(tokens, 1, m)?);
        embedding.run_on(stream, &mut MatrixMut::row_major(&mut scratch.state, m, width)?)?;
        for (layer, cache) in self.layers.iter().zip(cache.layers()) {
            layer.run(&pass, scratch, cache)?;
        }
        Ok(())
    }

    /// The logits of each token's successor, after [`Model::read`] of the same batch.
    ///
    /// # Errors
    /// The errors of the launches.
    ///
    /// # Safety
    /// Same contract as [`Model::read`].
    pub unsafe fn logits(
        &self,
        stream: &Stream,
        batch: &Batch<'_>,
        scratch: &mut Scratch,
        logits: &mut Buffer<f16>,
    ) -> moye::Result<()> {
        let pass =
            Pass { stream, config: &self.config, batch, tables: &self.tables, ranks: self.ranks.as_ref() };
        let products = std::slice::from_ref(&self.output);
        let normed = pass.norm(&scratch.state, &mut scratch.normed, &self.norm, products)?;
        linear(stream, &self.output, &normed, Rows::all(logits, self.config.vocabulary), false)
    }
}
