//! Divides: a layout divided into tiles.

use super::by_mode::{Each, Form, by_mode_into, gathered_into};
use super::complement::covering_into;
use super::compose::compose_into;
use super::fault::{Fault, tri};
use super::layout::Layout;
use super::operation::operation;
use super::profile::{At, ROOT};
use super::tiler::Tiler;

operation! {
    /// The layout divided into tiles: by a layout `B`, `(tile, rest)`, which is `layout` after
    /// `(B, complement(B, size(layout)))`; by a tuple, the same in each mode:
    /// `((tile_m, rest_m), (tile_n, rest_n), ...)`.
    ///
    /// Tiles that do not divide the layout's size reach past it; coordinates tell which elements
    /// are in bounds (see [`identity_layout`](super::identity_layout)).
    ///
    /// Every element of the layout is in a tile, and in exactly one if the tile has no element
    /// twice.
    ///
    /// # Errors
    /// If the tiles would leave elements out: a tile such as `(2,2):(1,3)`, whose stride 3 is not a
    /// multiple of 2, the reach of the modes of smaller stride, leaves gaps that no tile fills.
    /// CuTe leaves these elements out silently. Also if no layout has the function (see
    /// [`composition`](super::composition)).
    ///
    /// ```
    /// use moye_device::layout::{layout, logical_divide, tiler};
    /// let tiles = logical_divide(layout!((4, 2, 3):(2, 1, 8)), tiler!(4:2));
    /// assert_eq!(tiles, layout!(((2, 2), (2, 3)):((4, 1), (2, 8))));
    /// ```
    logical_divide / try_logical_divide(layout: Layout, tiler: Tiler) -> Layout => logical;

    /// [`logical_divide`] with the tiles gathered in mode 0:
    /// `((tile_m, tile_n, ...), (rest_m, rest_n, ...))`.
    ///
    /// ```
    /// use moye_device::layout::{layout, tiler, zipped_divide};
    /// let blocks = zipped_divide(layout!((256, 64)), tiler!((64, 16)));
    /// assert_eq!(blocks, layout!(((64, 16), (4, 4)):((1, 256), (64, 4096))));
    /// ```
    zipped_divide / try_zipped_divide(layout: Layout, tiler: Tiler) -> Layout => zipped;

    /// [`zipped_divide`] with the rest unpacked: `((tile_m, tile_n, ...), rest_m, rest_n, ...)`.
    tiled_divide / try_tiled_divide(layout: Layout, tiler: Tiler) -> Layout => tiled;

    /// [`zipped_divide`] with everything unpacked: `(tile_m, tile_n, ..., rest_m, rest_n, ...)`.
    flat_divide / try_flat_divide(layout: Layout, tiler: Tiler) -> Layout => flat;
}

/// Adds the mode of `layout` at `at` after `(tile, complement of the tile)`, where the tile is the
/// mode of `tiles` at `by`.
pub(crate) const fn divide_into(
    out: &mut Layout,
    layout: &Layout,
    at: At,
    tiles: &Layout,
    by: At,
) -> Result<(), Fault> {
    let mut both = Layout::start();
    tri!(both.push_tuple(2));
    tri!(both.push_copy(tiles, by));
    tri!(covering_into(&mut both, tiles, by, layout.size_at(at)));
    tri!(both.check());
    compose_into(out, layout, at, &both, ROOT)
}

const fn logical(out: &mut Layout, layout: &Layout, tiler: &Tiler) -> Result<(), Fault> {
    by_mode_into(out, Each::Divide, layout, ROOT, tiler, ROOT)
}

const fn zipped(out: &mut Layout, layout: &Layout, tiler: &Tiler) -> Result<(), Fault> {
    gathered_into(out, Each::Divide, layout, tiler, Form::Zipped)
}

const fn tiled(out: &mut Layout, layout: &Layout, tiler: &Tiler) -> Result<(), Fault> {
    gathered_into(out, Each::Divide, layout, tiler, Form::Tiled)
}

const fn flat(out: &mut Layout, layout: &Layout, tiler: &Tiler) -> Result<(), Fault> {
    gathered_into(out, Each::Divide, layout, tiler, Form::Flat)
}
