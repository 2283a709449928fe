//! A model's folder as sentence-transformers writes it: `config.json`, `model.safetensors`,
//! `tokenizer.json`, and `sentence_bert_config.json` for the longest sentence.

use crate::error::{Error, Result};
use crate::kernels::HEAD;
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tokenizers::{PostProcessor as _, Tokenizer, TruncationParams};

/// Sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The number of layers.
    pub layers: usize,
    /// Elements of a token's state.
    pub width: usize,
    /// Heads of [`HEAD`] elements.
    pub heads: usize,
    /// Elements of the feed-forward block's inner state.
    pub inner: usize,
    /// The number of embeddings of positions, which limits the tokens of a sentence.
    pub positions: usize,
    /// The maximum number of tokens to which the tokeniser truncates a sentence.
    pub longest: usize,
    /// The number of tokens.
    pub vocabulary: usize,
    /// Kinds of tokens; sentences use the first.
    pub kinds: usize,
    /// The epsilon that LayerNorm adds to the variance.
    pub epsilon: f32,
}

/// A model's folder, from which sizes and weights are read.
pub struct Folder {
    path: PathBuf,
    /// The contents of `model.safetensors`.
    weights: Vec<u8>,
    /// Sizes.
    pub config: Config,
}

impl Folder {
    /// Reads a folder.
    ///
    /// # Errors
    /// A file cannot be read or is damaged, or the model is of another kind.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let weights = read(&path.join("model.safetensors"))?;
        let config = config(&path)?;
        Ok(Self { path, weights, config })
    }

    /// A tensor of this shape as f32.
    ///
    /// # Errors
    /// A tensor is missing, has another shape, or has elements other than F32, F16 or BF16.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let file = self.path.join("model.safetensors");
        let refuse = |detail: String| Error::Format { file: file.clone(), detail };
        let tensors = SafeTensors::deserialize(&self.weights).map_err(|error| refuse(error.to_string()))?;
        let tensor = tensors.tensor(name).map_err(|error| refuse(format!("tensor {name}: {error}")))?;
        if tensor.shape() != shape {
            let is = tensor.shape();
            return Err(refuse(format!("tensor {name}: its shape is {is:?}, and by config.json {shape:?}")));
        }
        let (words, halves) = (tensor.data().as_chunks::<4>().0, tensor.data().as_chunks::<2>().0);
        match tensor.dtype() {
            Dtype::F32 => Ok(words.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()),
            Dtype::F16 => Ok(halves.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f32()).collect()),
            Dtype::BF16 => Ok(halves.iter().map(|&bytes| bf16::from_le_bytes(bytes).to_f32()).collect()),
            other => Err(refuse(format!("tensor {name}: {other:?}; F32, F16 and BF16 are supported"))),
        }
    }

    /// The tokeniser, which truncates a sentence to [`Config::longest`] tokens and does not pad.
    ///
    /// # Errors
    /// A file cannot be read, or has tokens that the model lacks.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        let file = self.path.join("tokenizer.json");
        let bytes = read(&file)?;
        let refuse = |detail: String| Error::Format { file: file.clone(), detail };
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| refuse(error.to_string()))?;
        let (tokens, vocabulary) = (tokenizer.get_vocab_size(true), self.config.vocabulary);
        if tokens > vocabulary {
            return Err(refuse(format!("{tokens} tokens, and the model has {vocabulary}")));
        }
        // The tokeniser subtracts its special tokens from the limit.
        let (most, special) = (self.config.longest, tokenizer.get_post_processor());
        let special = special.map_or(0, |special| special.added_tokens(false));
        if most <= special {
            return Err(refuse(format!("{special} special tokens, and a sentence has at most {most} tokens")));
        }
        let truncation = TruncationParams { max_length: most, ..TruncationParams::default() };
        tokenizer.with_padding(None);
        tokenizer.with_truncation(Some(truncation)).map_err(|error| refuse(error.to_string()))?;
        Ok(tokenizer)
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).map_err(|source| Error::File { file: file.to_owned(), source })
}

fn json(file: &Path) -> Result<Value> {
    let refuse =
        |error: serde_json::Error| Error::Format { file: file.to_owned(), detail: error.to_string() };
    serde_json::from_slice(&read(file)?).map_err(refuse)
}

/// The sizes of a folder's model.
fn config(folder: &Path) -> Result<Config> {
    let file = folder.join("config.json");
    let json = json(&file)?;
    let refuse = |detail: String| Error::Format { file: file.clone(), detail };
    for (key, wanted) in [
        ("model_type", "bert"),
        ("hidden_act", "gelu"),
        // Older files lack this key.
        ("position_embedding_type", "absolute"),
    ] {
        if let Some(is) = json.get(key)
            && is != wanted
        {
            return Err(refuse(format!("{key}: {is}; \"{wanted}\" is supported")));
        }
    }
    let number = |key: &str| match json.get(key).and_then(Value::as_u64).filter(|&number| number > 0) {
        // Sizes are extents of matrices, which the device's kernels limit further.
        Some(number) if number <= i32::MAX as u64 => Ok(number as usize),
        _ => Err(refuse(format!("{key}: {:?}; a number from 1 to {}", json.get(key), i32::MAX))),
    };
    let (width, heads) = (number("hidden_size")?, number("num_attention_heads")?);
    if width != heads * HEAD as usize {
        return Err(refuse(format!(
            "hidden_size {width} and num_attention_heads {heads}: heads of {HEAD} elements are supported"
        )));
    }
    let epsilon = match json.get("layer_norm_eps").and_then(Value::as_f64) {
        Some(epsilon) if epsilon >= 0.0 => epsilon as f32,
        other => return Err(refuse(format!("layer_norm_eps: {other:?}; a number from 0"))),
    };
    let positions = number("max_position_embeddings")?;
    Ok(Config {
        layers: number("num_hidden_layers")?,
        width,
        heads,
        inner: number("intermediate_size")?,
        positions,
        longest: longest(folder)?.unwrap_or(positions).min(positions),
        vocabulary: number("vocab_size")?,
        kinds: number("type_vocab_size")?,
        epsilon,
    })
}

/// The maximum number of tokens of a sentence, if the folder states it.
fn longest(folder: &Path) -> Result<Option<usize>> {
    let file = folder.join("sentence_bert_config.json");
    if !file.is_file() {
        return Ok(None);
    }
    Ok(json(&file)?.get("max_seq_length").and_then(Value::as_u64).map(|longest| longest as usize))
}
