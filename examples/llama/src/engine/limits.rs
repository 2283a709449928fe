//! An engine's sizes, and the sampling of tokens.

use crate::error::{Error, Result};

/// The sizes of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The maximum number of concurrent sequences.
    pub sequences: usize,
    /// Tokens of a page, a power of two.
    pub page: usize,
    /// Pages of the cache.
    pub pages: usize,
    /// The maximum number of prompt tokens that a step reads.
    pub chunk: usize,
    /// Tokens of each sequence that are computed before the host reads them, at least 1, so that
    /// the host does not wait for each. They are recomputed if sequences join or leave in between.
    pub ahead: usize,
    /// Whether a token is launched as a graph or kernel by kernel.
    pub graphs: bool,
}

impl Limits {
    /// Limits for sequences of `context` tokens each.
    pub fn new(sequences: usize, context: usize) -> Self {
        let page = 64;
        Self {
            sequences,
            page,
            pages: sequences * context.div_ceil(page),
            chunk: 512,
            ahead: 4,
            graphs: true,
        }
    }
}

/// The sampling of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The divisor of the logits; 0 selects the most probable token.
    pub temperature: f32,
    /// The total probability of the most probable tokens that are kept.
    pub top_p: f32,
    /// The seed of every sequence: alone and in a batch it draws the same tokens.
    pub seed: u64,
}

impl Sampling {
    /// Checks the temperature and the probability.
    ///
    /// # Errors
    /// [`Error::Request`] unless the temperature is finite and from 0, and `top_p` from 0 to 1.
    pub fn check(&self) -> Result<()> {
        let Self { temperature, top_p, .. } = *self;
        if !(temperature.is_finite() && temperature >= 0.0 && (0.0..=1.0).contains(&top_p)) {
            let wanted = "a temperature from 0 and a probability from 0 to 1 are supported";
            return Err(Error::Request(format!("temperature {temperature} and top-p {top_p}: {wanted}")));
        }
        Ok(())
    }
}
