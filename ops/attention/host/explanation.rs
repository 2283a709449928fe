//! The plan of a call.

/// The kernel that [`Attention::run`](crate::Attention::run) would launch, and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionExplanation {
    /// The kernel's name; `None` if there are no queries.
    pub kernel: Option<&'static str>,
    /// Query rows of a tile.
    pub rows: u32,
    /// Query heads of one KV head that share a tile (GQA packing).
    pub pack: u32,
    /// Splits of the keys.
    pub splits: u32,
    /// Thread blocks of the grid.
    pub blocks: u32,
    /// The workspace in bytes.
    pub workspace_bytes: usize,
}
