//! The launches of the `repack` kernels, which products use too.

use crate::PTX;
use crate::kernels::repack::TILE;
use crate::kernels::{repack_u8, repack_u16, repack_u32, repack_u64, repack_u128};
use moye_device::kernel::Kernel;
use moye_device::memory::{Element, Global, GlobalMut};
use moye_runtime::{Error, Grid, MAX_BLOCKS, Result, Stream};

/// The source or the destination: its address, and its strides in elements.
#[derive(Clone, Copy, Debug)]
pub struct Strided {
    /// The address of the first element.
    pub address: u64,
    /// The distance of two rows.
    pub row: i64,
    /// The distance of two columns.
    pub k: i64,
    /// The distance of two batches.
    pub batch: i64,
}

/// The extents of a copy: `rows x k` elements of a batch, and zeros up to `rows x written`.
#[derive(Clone, Copy, Debug)]
pub struct Extents {
    /// Rows of a batch.
    pub rows: u32,
    /// Columns that are read.
    pub k: u32,
    /// Columns that are written; from `k` on they are zeros.
    pub written: u32,
    /// The number of batches.
    pub batches: u32,
}

/// Copies elements of this many bytes between any strides. It is fastest if K is the destination's
/// contiguous mode.
///
/// # Errors
/// [`Error::MatrixTooLarge`] if there are more tiles than a grid has blocks, and the errors of a
/// launch.
///
/// # Safety
/// Both sides are accessible with these extents and strides, and do not overlap, until the work has
/// completed.
pub unsafe fn repack(
    operation: &'static str,
    stream: &Stream,
    bytes: u64,
    from: Strided,
    to: Strided,
    extents: Extents,
) -> Result<()> {
    // SAFETY: the caller guarantees access to both sides, for elements of this size and any type.
    unsafe {
        match bytes {
            1 => repack_by(operation, stream, &repack_u8, from, to, extents),
            2 => repack_by(operation, stream, &repack_u16, from, to, extents),
            4 => repack_by(operation, stream, &repack_u32, from, to, extents),
            8 => repack_by(operation, stream, &repack_u64, from, to, extents),
            _ => repack_by(operation, stream, &repack_u128, from, to, extents),
        }
    }
}

/// The name of the kernel of [`repack`] for elements of this many bytes.
pub(super) fn kernel(bytes: u64) -> &'static str {
    match bytes {
        1 => repack_u8.name(),
        2 => repack_u16.name(),
        4 => repack_u32.name(),
        8 => repack_u64.name(),
        _ => repack_u128.name(),
    }
}

/// A kernel that repacks elements `B`.
type Repack<B> = Kernel<(Global<B>, GlobalMut<B>, u32, u32, u32, i64, i64, i64, i64, i64, i64)>;

/// [`repack`], for elements that are copied as `B`.
///
/// # Safety
/// Same contract as [`repack`]; the elements have the size of `B`.
unsafe fn repack_by<B: Element>(
    operation: &'static str,
    stream: &Stream,
    kernel: &Repack<B>,
    from: Strided,
    to: Strided,
    Extents { rows, k, written, batches }: Extents,
) -> Result<()> {
    let tiles = blocks(operation, rows.div_ceil(TILE), written.div_ceil(TILE))?;
    let (src, dst) = (Global::from_address(from.address), GlobalMut::from_address(to.address));
    let arguments = (src, dst, rows, k, written, from.row, from.k, from.batch, to.row, to.k, to.batch);
    // SAFETY: both sides are accessible, with elements of the size of `B`.
    unsafe { PTX.launch(stream, kernel, Grid::new((tiles, batches), 256).dependent(), arguments) }
}

/// The blocks of a grid of this many tiles.
pub(super) fn blocks(operation: &'static str, along: u32, across: u32) -> Result<u32> {
    grid_blocks(operation, "tiles", u64::from(along) * u64::from(across))
}

/// A number of blocks along the grid's x; `what` is their name in the error.
pub fn grid_blocks(operation: &'static str, what: &'static str, count: u64) -> Result<u32> {
    let limit = u64::from(MAX_BLOCKS[0]);
    if count > limit {
        return Err(Error::MatrixTooLarge { operation, what, value: count as usize, limit });
    }
    Ok(count as u32)
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn more_tiles_than_a_grid_has_blocks_are_refused() {
        assert_eq!(blocks("copy", 65_536, 32_767).unwrap(), 2_147_418_112);
        let error = blocks("copy", 65_536, 32_768).unwrap_err().to_string();
        assert!(error.contains("2147483648") && error.contains("2147483647"), "{error}");
    }
}
