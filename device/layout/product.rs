//! Products: a layout repeated over another.

use super::builder::LayoutBuilder;
use super::by_mode::{Each, Form, by_mode, gathered};
use super::complement::complemented;
use super::compose::composed;
use super::edit::padded;
use super::error::{Fault, tri};
use super::int_tuple::IntTuple;
use super::int_tuple::arithmetic::{each_product, ordered};
use super::layout::{Layout, of_shape_and_stride};
use super::operation::operation;
use super::profile::ROOT;
use super::tiler::Tiler;

operation! {
    /// The layout repeated: by a layout `B`, `(block, complement(block) after B)`, where element `j` of mode 1 moves
    /// the block to its `B(j)`-th free place; by a tuple, that in each mode.
    ///
    /// ```
    /// use moye_device::layout::{layout, logical_product, tiler};
    /// let copies = logical_product(layout!((2, 2):(4, 1)), tiler!(6:1));
    /// assert_eq!(copies, layout!(((2, 2), (2, 3)):((4, 1), (2, 8))));
    /// ```
    logical_product / try_logical_product(block: Layout, tiler: Tiler) -> Layout = logical;

    /// [`logical_product`] with the blocks gathered in mode 0.
    zipped_product / try_zipped_product(block: Layout, tiler: Tiler) -> Layout = zipped;

    /// [`zipped_product`] with the second mode unpacked.
    tiled_product / try_tiled_product(block: Layout, tiler: Tiler) -> Layout = tiled;

    /// [`zipped_product`] with both modes unpacked.
    flat_product / try_flat_product(block: Layout, tiler: Tiler) -> Layout = flat;

    /// The block repeated over `tiler`, mode with mode: `((block_m, tiler_m), (block_n, tiler_n), ...)`. Each block
    /// stays together. The operand of lower rank gets modes `1:0` at the end.
    ///
    /// ```
    /// use moye_device::layout::{blocked_product, layout};
    /// let tiles = blocked_product(layout!((2, 5):(5, 1)), layout!((3, 4)));
    /// assert_eq!(tiles, layout!(((2, 3), (5, 4)):((5, 10), (1, 30))));
    /// ```
    blocked_product / try_blocked_product(block: Layout, tiler: Layout) -> Layout = blocked;

    /// [`blocked_product`] with the blocks interleaved: `((tiler_m, block_m), (tiler_n, block_n), ...)`.
    ///
    /// ```
    /// use moye_device::layout::{layout, raked_product};
    /// let tiles = raked_product(layout!((2, 5):(5, 1)), layout!((3, 4)));
    /// assert_eq!(tiles, layout!(((3, 2), (4, 5)):((10, 5), (30, 1))));
    /// ```
    raked_product / try_raked_product(block: Layout, tiler: Layout) -> Layout = raked;

    /// The block repeated until it has the size `shape`, mode by mode; blocks follow one another along mode 0 first.
    ///
    /// ```
    /// use moye_device::layout::{layout, tile_to_shape, tuple};
    /// let tiles = tile_to_shape(layout!((2, 3)), tuple!((4, 9)));
    /// assert_eq!(tiles, layout!(((2, 2), (3, 3)):((1, 6), (2, 12))));
    /// ```
    tile_to_shape / try_tile_to_shape(block: Layout, shape: IntTuple) -> Layout = to_shape;

    /// [`tile_to_shape`] with blocks that follow one another along the mode of the smallest `order` first, then the
    /// next smallest.
    ///
    /// ```
    /// use moye_device::layout::{layout, tile_to_shape_ordered, tuple};
    /// let tiles = tile_to_shape_ordered(layout!((2, 3)), tuple!((4, 9)), tuple!((2, 1)));
    /// assert_eq!(tiles, layout!(((2, 2), (3, 3)):((1, 18), (2, 6))));
    /// ```
    tile_to_shape_ordered / try_tile_to_shape_ordered(block: Layout, shape: IntTuple, order: IntTuple) -> Layout
        = to_shape_ordered;
}

/// `(block, complement of the block after tile)`.
pub(crate) const fn multiplied(block: &Layout, tile: &Layout) -> Result<Layout, Fault> {
    if tile.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    let Some(cotarget) = block.size().checked_mul(tile.cosize()) else { return Err(Fault::Overflow) };
    let free = tri!(complemented(block, cotarget));
    let mut builder = LayoutBuilder::new();
    tri!(builder.open(2));
    tri!(builder.mode(block));
    tri!(builder.mode(&tri!(composed(&free, tile))));
    builder.finish()
}

const fn logical(block: &Layout, tiler: &Tiler) -> Result<Layout, Fault> {
    by_mode(Each::Multiply, block, tiler)
}

const fn zipped(block: &Layout, tiler: &Tiler) -> Result<Layout, Fault> {
    gathered(&tri!(logical(block, tiler)), tiler, Form::Zipped)
}

const fn tiled(block: &Layout, tiler: &Tiler) -> Result<Layout, Fault> {
    gathered(&tri!(logical(block, tiler)), tiler, Form::Tiled)
}

const fn flat(block: &Layout, tiler: &Tiler) -> Result<Layout, Fault> {
    gathered(&tri!(logical(block, tiler)), tiler, Form::Flat)
}

pub(crate) const fn blocked(block: &Layout, tiler: &Layout) -> Result<Layout, Fault> {
    zipped_modes(block, tiler, true)
}

pub(crate) const fn raked(block: &Layout, tiler: &Layout) -> Result<Layout, Fault> {
    zipped_modes(block, tiler, false)
}

/// The logical product with mode `i` of the block and mode `i` of the tiler side by side.
const fn zipped_modes(block: &Layout, tiler: &Layout, block_first: bool) -> Result<Layout, Fault> {
    let rank = if block.rank() > tiler.rank() { block.rank() } else { tiler.rank() };
    let product = tri!(multiplied(&tri!(padded(block, rank)), &tri!(padded(tiler, rank))));
    let blocks = product.profile.mode(ROOT, 0);
    let copies = product.profile.mode(ROOT, 1);
    let mut builder = LayoutBuilder::new();
    tri!(builder.open(rank));
    let mut left = product.profile.first(if block_first { blocks } else { copies });
    let mut right = product.profile.first(if block_first { copies } else { blocks });
    let mut i = 0;
    while i < rank {
        tri!(builder.open(2));
        tri!(builder.copy(&product, left));
        tri!(builder.copy(&product, right));
        if i + 1 < rank {
            left = product.profile.next(left);
            right = product.profile.next(right);
        }
        i += 1;
    }
    builder.finish()
}

const fn to_shape(block: &Layout, shape: &IntTuple) -> Result<Layout, Fault> {
    to_shape_ordered(block, shape, &IntTuple::int(0))
}

pub(crate) const fn to_shape_ordered(
    block: &Layout,
    shape: &IntTuple,
    order: &IntTuple,
) -> Result<Layout, Fault> {
    let rank = shape.rank();
    if block.rank() > rank {
        return Err(Fault::TooManyModes { what: "block", modes: block.rank(), rank });
    }
    let block = tri!(padded(block, rank));
    let mut times = tri!(each_product(shape));
    let mut i = 0;
    while i < rank {
        let (whole, part) = (times.value[i], block.extent(i));
        if whole % part != 0 {
            return Err(Fault::NotAMultiple { what: "extent", left: whole, right: part });
        }
        times.value[i] = whole / part;
        i += 1;
    }
    let stride = tri!(ordered(&times, order));
    blocked(&block, &tri!(of_shape_and_stride(&times, &stride)))
}
