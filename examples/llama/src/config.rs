//! The sizes and variants of a model, from its file's metadata.

use crate::error::Result;
use crate::gguf::Gguf;

/// Sizes and variants.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Layers.
    pub layers: usize,
    /// Elements of a token's state.
    pub width: usize,
    /// Elements of the feed-forward block's inner state.
    pub inner: usize,
    /// Query heads.
    pub heads: usize,
    /// Heads of keys and values, each for `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head: usize,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// The maximum number of tokens of a sequence, from training.
    pub context: usize,
    /// The epsilon that RMSNorm adds to the mean square.
    pub epsilon: f32,
    /// The rotation of queries and keys.
    pub rotation: Rotation,
}

/// The rotation of queries and keys by their position.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    /// Rotated elements of a head.
    pub elements: usize,
    /// Whether pairs are adjacent elements; otherwise element `i` of each half.
    pub adjacent: bool,
    /// The angle of each pair at position 1.
    pub angles: Vec<f64>,
}

/// Head sizes that the attention kernels support.
const HEADS: [usize; 6] = [64, 80, 96, 128, 192, 256];
/// Architectures, and whether the file stores the elements of a rotated pair adjacently.
const ARCHITECTURES: [(&str, bool); 3] = [("llama", true), ("qwen2", false), ("qwen3", false)];
/// The number of rotated elements of a head is a multiple of this.
const ROTATED: usize = 2 * crate::attend::kernel::VECTOR as usize;
/// The embedding, which has a row for each token of the vocabulary.
const EMBEDDING: &str = "token_embd.weight";
/// The rotation's factors for Llama 3: the tensor in which converters store its scaling.
const FACTORS: &str = "rope_freqs.weight";

impl Config {
    /// The sizes and variants of a file's model.
    ///
    /// # Errors
    /// [`Error::Key`](crate::Error::Key) or [`Error::Tensor`](crate::Error::Tensor) for an
    /// unsupported model.
    pub fn of(file: &Gguf) -> Result<Self> {
        let key = "general.architecture";
        let name = file.string(key)?.unwrap_or_default();
        let Some(&(architecture, adjacent)) = ARCHITECTURES.iter().find(|known| known.0 == name) else {
            let names = ARCHITECTURES.map(|known| known.0).join(", ");
            return Err(file.key_error(key, format!("it is {name:?}; supported are {names} (Mistral is llama)")));
        };
        let key = |key: &str| format!("{architecture}.{key}");
        let number = |name: &str, default: Option<usize>| match file.number(&key(name))?.or(default) {
            None | Some(0) => Err(file.key_error(&key(name), "a whole number from 1 is expected")),
            Some(number) => Ok(number),
        };
        let heads = number("attention.head_count", None)?;
        let width = number("embedding_length", None)?;
        let head = number("attention.key_length", Some(width / heads))?;
        for name in ["attention.key_length", "attention.value_length"] {
            let is = number(name, Some(head))?;
            if is != head || !HEADS.contains(&is) {
                let detail = format!("heads have {is} elements; supported are {HEADS:?}, of keys and values alike");
                return Err(file.key_error(&key(name), detail));
            }
        }
        let config = Self {
            layers: number("block_count", None)?,
            width,
            inner: number("feed_forward_length", None)?,
            heads,
            kv_heads: number("attention.head_count_kv", Some(heads))?,
            head,
            vocabulary: file.tensor(EMBEDDING)?.shape[0],
            context: number("context_length", None)?,
            epsilon: above_0(file, &key("attention.layer_norm_rms_epsilon"), 1e-5)? as f32,
            rotation: rotation(file, key, head, number("rope.dimension_count", Some(head))?, adjacent)?,
        };
        if config.vocabulary == 0 {
            return Err(file.tensor_error(EMBEDDING, "it has no rows"));
        }
        if !heads.is_multiple_of(config.kv_heads) {
            let detail = format!("{heads} query heads are not a multiple of {} key heads", config.kv_heads);
            return Err(file.key_error(&key("attention.head_count"), detail));
        }
        // A window as long as the context hides no token.
        for (name, none) in [("expert_count", usize::MAX), ("attention.sliding_window", config.context)] {
            if file.number(&key(name))?.is_some_and(|value| (1..none).contains(&value)) {
                return Err(file.key_error(&key(name), "models with it are not supported"));
            }
        }
        Ok(config)
    }

    /// Rows of the product that computes queries, keys and values.
    pub fn qkv(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head
    }

    /// Cosines and sines of the rotation at positions below `positions`, one row for each position.
    pub fn tables(&self, positions: usize) -> [Vec<f32>; 2] {
        let angles = (0..positions).flat_map(|at| self.rotation.angles.iter().map(move |angle| at as f64 * angle));
        angles.map(|angle| (angle.cos() as f32, angle.sin() as f32)).unzip::<_, _, Vec<_>, Vec<_>>().into()
    }
}

/// A metadata value above 0, if there is one.
fn above_0(file: &Gguf, key: &str, default: f64) -> Result<f64> {
    match file.float(key)?.unwrap_or(default) {
        value if value > 0.0 => Ok(value),
        value => Err(file.key_error(key, format!("a number above 0 is expected, not {value}"))),
    }
}

/// The rotation of the first `elements` of a head of `head`.
fn rotation(
    file: &Gguf,
    key: impl Fn(&str) -> String,
    head: usize,
    elements: usize,
    adjacent: bool,
) -> Result<Rotation> {
    if elements > head || !elements.is_multiple_of(ROTATED) {
        let detail = format!(
            "{elements} of a head's {head} elements are rotated; supported are multiples of {ROTATED} up to {head}"
        );
        return Err(file.key_error(&key("rope.dimension_count"), detail));
    }
    let base = above_0(file, &key("rope.freq_base"), 10_000.0)?;
    let scaling = key("rope.scaling.type");
    let factor = match file.string(&scaling)? {
        Some("none") => 1.0,
        None | Some("linear") => {
            // The name of the factor until November 2023.
            let former = key("rope.scale_linear");
            let is_former = file.metadata.contains_key(&former);
            above_0(file, &if is_former { former } else { key("rope.scaling.factor") }, 1.0)?
        }
        Some(other) => {
            let detail = format!("it is {other:?}; supported are none, linear, and Llama 3's factors ({FACTORS})");
            return Err(file.key_error(&scaling, detail));
        }
    };
    let pairs = elements / 2;
    let mut angles: Vec<f64> =
        (0..pairs).map(|pair| base.powf(-((2 * pair) as f64) / elements as f64) / factor).collect();
    if file.has(FACTORS) {
        let factors = file.tensor(FACTORS)?.format.dequantize(&file.read(FACTORS)?);
        if factors.len() != pairs || factors.iter().any(|factor| factor.is_nan() || *factor <= 0.0) {
            let detail = format!("{} factors instead of {pairs}, each above 0", factors.len());
            return Err(file.tensor_error(FACTORS, detail));
        }
        angles.iter_mut().zip(factors).for_each(|(angle, factor)| *angle /= f64::from(factor));
    }
    Ok(Rotation { elements, adjacent, angles })
}
