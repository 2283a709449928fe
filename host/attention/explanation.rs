//! What a call would do.

/// The kernel that [`Attention::run`](crate::Attention::run) would launch, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionExplanation {
    /// The kernel's name; `None` where there are no queries.
    pub kernel: Option<&'static str>,
    /// Query rows of a tile.
    pub rows: u32,
    /// Query heads of one KV head that share a tile.
    pub pack: u32,
    /// Splits of the keys.
    pub splits: u32,
    /// Thread blocks.
    pub blocks: u32,
    /// Memory that the call takes from the device and gives back, in bytes.
    pub workspace_bytes: usize,
}
