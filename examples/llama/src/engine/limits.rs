//! What an engine is made for.

/// The sizes of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The most sequences at a time.
    pub sequences: usize,
    /// Tokens of a page, a power of two.
    pub page: usize,
    /// Pages of the cache.
    pub pages: usize,
    /// The most tokens of prompts that a step reads.
    pub chunk: usize,
    /// Tokens of each sequence that are computed before the host reads them, 1 or more: it does
    /// not wait for each. They are computed again where sequences join or leave in between.
    pub ahead: usize,
    /// Whether a token is launched as a graph; otherwise kernel by kernel.
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

/// How tokens are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 for the most probable token.
    pub temperature: f32,
    /// The probability of the most probable tokens that are left.
    pub top_p: f32,
    /// The seed of every sequence: alone and in a batch it draws the same tokens.
    pub seed: u64,
}
