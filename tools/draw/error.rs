//! The errors of pictures, with the values and the way out.

use moye_device::atom::TilingError;
use moye_device::layout::LayoutError;
use std::path::PathBuf;
use thiserror::Error;

/// The maximum number of cells of a picture, over all its grids: larger ones are unreadable.
pub const MAX_CELLS: i64 = 16_384;

/// The reason why a picture cannot be drawn.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DrawError {
    /// An operation of the layout algebra is invalid, or a layout cannot be parsed.
    #[error(transparent)]
    Layout(Box<LayoutError>),
    /// A tiled copy or a tiled MMA has no thread-value layout.
    #[error(transparent)]
    Tiling(Box<TilingError>),
    /// The picture would have too many cells.
    #[error(
        "{what} has {cells} cells, and a picture holds at most {MAX_CELLS}; draw a part of it, such as one tile of \
         its zipped_divide or a slice"
    )]
    TooLarge {
        /// The object to draw.
        what: String,
        /// Its cells.
        cells: i64,
    },
    /// A thread's value is outside the tile.
    #[error(
        "the thread-value layout {layout} puts value {value} of thread {thread} at {index}, outside the tile of \
         {rows} x {columns} (0 to {last}, counted down the columns); give the tile that it was made for"
    )]
    OutsideTile {
        /// The thread-value layout.
        layout: String,
        /// The thread.
        thread: i64,
        /// The value.
        value: i64,
        /// The coordinates of the value.
        index: String,
        /// The tile's rows.
        rows: i64,
        /// The tile's columns.
        columns: i64,
        /// The tile's last index.
        last: i64,
    },
    /// A layout is unsuitable for this kind of picture.
    #[error("{layout} cannot be drawn {how}: {why}")]
    Unsuited {
        /// The layout.
        layout: String,
        /// The kind of picture.
        how: &'static str,
        /// What is wrong with it, and the way out.
        why: String,
    },
    /// A file name has no known format's suffix.
    #[error("{}: no format has this suffix; name the file .svg, .tex, .typ or .txt, or choose one with --format", path.display())]
    Suffix {
        /// The file.
        path: PathBuf,
    },
}

impl From<LayoutError> for DrawError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(Box::new(error))
    }
}

impl From<TilingError> for DrawError {
    fn from(error: TilingError) -> Self {
        Self::Tiling(Box::new(error))
    }
}

/// Rejects a picture of more than [`MAX_CELLS`] cells.
pub(super) fn check_cells(what: impl Into<String>, cells: i64) -> Result<(), DrawError> {
    if cells > MAX_CELLS {
        return Err(DrawError::TooLarge { what: what.into(), cells });
    }
    Ok(())
}
