//! Helpers for the launches of operations.

use moye_runtime::operation::{self, Launcher, Operation};
use moye_runtime::{Arch, Error, Grid, Result, Stream};

/// The most tiles of a launch, which the kernels count in 32 bits.
const MOST: u32 = i32::MAX as u32;

/// Tiles, which the kernels count in 32 bits.
pub fn tiles_in_32_bits(operation: &'static str, tiles: u64) -> Result<u32> {
    u32::try_from(tiles).ok().filter(|&tiles| tiles <= MOST).ok_or_else(|| {
        let detail = format!("the call has {tiles} tiles, and may have {MOST}; divide it");
        Error::Unsupported { operation, detail }
    })
}

/// The tiles of `rows` rows of them, of results with `columns` columns.
pub fn tiles(rows: impl Into<u64>, columns: u32, tile: u32) -> u64 {
    rows.into().saturating_mul(columns.div_ceil(tile).into())
}

/// A persistent grid for `tiles` tiles, each of one cluster: at least one cluster, and no more than
/// run at a time or than there are tiles.
pub fn persistent(
    operation: &'static str,
    on: &Launcher<'_>,
    tiles: u64,
    cluster: u32,
    threads: u32,
) -> Result<Grid> {
    let tiles = tiles_in_32_bits(operation, tiles)?;
    let clusters = (on.stream().device().rates().multiprocessors / cluster).clamp(1, tiles.max(1));
    Ok(Grid::new(clusters * cluster, threads).clusters(cluster).dependent())
}

/// Whether the stream's device has TMA and `wgmma`.
pub fn check_hopper(operation: &'static str, stream: &Stream) -> Result<()> {
    let arch = stream.device().arch();
    if arch == Arch::new(9, 0) {
        return Ok(());
    }
    let detail = format!(
        "the kernels need TMA and wgmma (sm_90a: H100, H200), and the device is of {arch}; the simulator runs them"
    );
    Err(Error::Unsupported { operation, detail })
}

/// The kernel of an operation's plan for a problem.
pub fn kernel_of<O: Operation>(stream: &Stream, problem: &O::Problem) -> Result<&'static str> {
    Ok(O::kernel(&operation::plan::<O>(stream.device(), problem)?))
}
