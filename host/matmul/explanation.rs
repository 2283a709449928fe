//! How a product would be computed, for whoever asks.

use std::fmt;

/// How a product is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The kernel; `None` where nothing is multiplied: M, N, K, the number of batches or `alpha`
    /// is 0.
    pub kernel: Option<&'static str>,
    /// The tile of C of a block, M x N.
    pub tile: (u32, u32),
    /// The parts that K is cut into.
    pub splits: u32,
    /// The last tiles, each of which several blocks sum up in pieces of K, where a last round of
    /// tiles would leave many multiprocessors idle; of kernels with clusters, tiles of a cluster.
    pub shared_tiles: u32,
    /// None of those has more pieces than so many.
    pub pieces: u32,
    /// Whether `a`, and whether `b`, is rearranged first.
    pub rearranged: [bool; 2],
    /// What the call takes from the device's memory while it runs, in bytes.
    pub workspace_bytes: usize,
}

/// The kernel, and how K is cut: `wgmma_f16_tn, 12 tiles in up to 5 pieces each`.
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
