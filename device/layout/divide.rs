//! Divides: a layout cut into tiles.

use super::builder::LayoutBuilder;
use super::by_mode::{Each, Form, by_mode, gathered};
use super::complement::complemented;
use super::compose::composed;
use super::error::{Fault, tri};
use super::layout::Layout;
use super::operation::operation;
use super::tiler::Tiler;

operation! {
    /// The layout cut into tiles: by a layout `B`, `(tile, rest)`, which is `layout` after
    /// `(B, complement(B, size(layout)))`; by a tuple, that in each mode: `((tile_m, rest_m), (tile_n, rest_n), ...)`.
    ///
    /// Tiles that do not divide the layout's size reach beyond it; coordinates tell which elements are in it (see
    /// [`identity_layout`](super::identity_layout)).
    ///
    /// ```
    /// use moye_device::layout::{layout, logical_divide, tiler};
    /// let tiles = logical_divide(layout!((4, 2, 3):(2, 1, 8)), tiler!(4:2));
    /// assert_eq!(tiles, layout!(((2, 2), (2, 3)):((4, 1), (2, 8))));
    /// ```
    logical_divide / try_logical_divide(layout: Layout, tiler: Tiler) -> Layout = logical;

    /// [`logical_divide`] with the tiles gathered in mode 0: `((tile_m, tile_n, ...), (rest_m, rest_n, ...))`.
    ///
    /// ```
    /// use moye_device::layout::{layout, tiler, zipped_divide};
    /// let blocks = zipped_divide(layout!((256, 64)), tiler!((64, 16)));
    /// assert_eq!(blocks, layout!(((64, 16), (4, 4)):((1, 256), (64, 4096))));
    /// ```
    zipped_divide / try_zipped_divide(layout: Layout, tiler: Tiler) -> Layout = zipped;

    /// [`zipped_divide`] with the rest unpacked: `((tile_m, tile_n, ...), rest_m, rest_n, ...)`.
    tiled_divide / try_tiled_divide(layout: Layout, tiler: Tiler) -> Layout = tiled;

    /// [`zipped_divide`] with everything unpacked: `(tile_m, tile_n, ..., rest_m, rest_n, ...)`.
    flat_divide / try_flat_divide(layout: Layout, tiler: Tiler) -> Layout = flat;
}

/// `layout` after `(tile, complement of the tile)`.
pub(crate) const fn divided(layout: &Layout, tile: &Layout) -> Result<Layout, Fault> {
    let rest = tri!(complemented(tile, layout.size()));
    let mut builder = LayoutBuilder::new();
    tri!(builder.open(2));
    tri!(builder.mode(tile));
    tri!(builder.mode(&rest));
    composed(layout, &tri!(builder.finish()))
}

pub(crate) const fn logical(layout: &Layout, tiler: &Tiler) -> Result<Layout, Fault> {
    by_mode(Each::Divide, layout, tiler)
}

pub(crate) const fn zipped(layout: &Layout, tiler: &Tiler) -> Result<Layout, Fault> {
    gathered(&tri!(logical(layout, tiler)), tiler, Form::Zipped)
}

const fn tiled(layout: &Layout, tiler: &Tiler) -> Result<Layout, Fault> {
    gathered(&tri!(logical(layout, tiler)), tiler, Form::Tiled)
}

const fn flat(layout: &Layout, tiler: &Tiler) -> Result<Layout, Fault> {
    gathered(&tri!(logical(layout, tiler)), tiler, Form::Flat)
}
