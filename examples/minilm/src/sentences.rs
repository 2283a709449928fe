//! Text to vectors.

use crate::error::{Error, Result};
use crate::files::Folder;
use crate::model::Model;
use crate::real::Real;
use moye::Device;
use tokenizers::Tokenizer;

/// Tokens of a batch (a single sentence may have more): enough for any GPU.
const TOKENS: usize = 32_768;

/// A model with its tokeniser.
pub struct Embedder<T: Real> {
    tokenizer: Tokenizer,
    /// The model.
    pub model: Model<T>,
}

impl<T: Real> Embedder<T> {
    /// Loads a model.
    ///
    /// # Errors
    /// The errors of the folder and of device memory.
    pub fn load(device: &Device, folder: &Folder) -> Result<Self> {
        Ok(Self { tokenizer: folder.tokenizer()?, model: Model::load(device, folder)? })
    }

    /// The tokens of a sentence.
    ///
    /// # Errors
    /// [`Error::Request`] if the tokeniser rejects the text.
    pub fn tokens(&self, sentence: &str) -> Result<Vec<u32>> {
        let encoded = self.tokenizer.encode(sentence, true);
        let refuse = |error| Error::Request(format!("{sentence:?}: {error}"));
        Ok(encoded.map_err(refuse)?.get_ids().to_vec())
    }

    /// A vector of length 1 for each sentence: the dot product of two vectors is their similarity.
    ///
    /// # Errors
    /// The errors of [`tokens`](Self::tokens) and of the device.
    pub fn embed(&self, sentences: &[impl AsRef<str>]) -> Result<Vec<Vec<f32>>> {
        let tokens: Vec<_> =
            sentences.iter().map(|sentence| self.tokens(sentence.as_ref())).collect::<Result<_>>()?;
        let (mut vectors, mut from) = (Vec::with_capacity(tokens.len()), 0);
        while from < tokens.len() {
            let mut count = 0;
            let fits = |sentence: &&Vec<u32>| {
                count += sentence.len();
                count <= TOKENS
            };
            let to = from + tokens[from..].iter().take_while(fits).count().max(1);
            let mut batch = self.model.batch(&tokens[from..to])?;
            self.model.run(&mut batch)?;
            vectors.extend(batch.vectors()?);
            from = to;
        }
        Ok(vectors)
    }
}
