//! The plan of a product, for callers and for `moye matmul --explain`.

use std::fmt;

/// The plan of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The kernel; `None` if there is nothing to multiply: M, N, K, the number of batches or
    /// `alpha` is 0.
    pub kernel: Option<&'static str>,
    /// The block's tile of C, M x N.
    pub tile: (u32, u32),
    /// The number of split-K slices.
    pub splits: u32,
    /// The number of stream-K tiles: the last tiles, divided along K among several blocks, because
    /// their wave would leave many multiprocessors idle. For kernels with clusters, tiles of a
    /// cluster.
    pub shared_tiles: u32,
    /// The largest number of pieces of such a tile.
    pub pieces: u32,
    /// Whether `a` and `b` are rearranged first.
    pub rearranged: [bool; 2],
    /// The workspace in bytes.
    pub workspace_bytes: usize,
}

/// The kernel and how K is split: `wgmma_f16_tn, 12 tiles in up to 5 pieces each`.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel.unwrap_or("none"))?;
        match (self.splits, self.shared_tiles) {
            (0 | 1, 0) => Ok(()),
            (0 | 1, 1) => write!(f, ", 1 tile in {} pieces", self.pieces),
            (0 | 1, tiles) => write!(f, ", {tiles} tiles in up to {} pieces each", self.pieces),
            (parts, _) => write!(f, ", K in {parts} parts"),
        }
    }
}
