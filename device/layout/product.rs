//! Products: a layout repeated over another.

use super::by_mode::{Each, Form, by_mode_into, gathered_into};
use super::complement::{Gaps, places_into};
use super::compose::compose_into;
use super::edit::padded;
use super::fault::{Fault, tri};
use super::int_tuple::arithmetic::{each_product, ordered};
use super::int_tuple::{IntTuple, NO_BASIS};
use super::layout::{Layout, of_shape_and_stride};
use super::operation::operation;
use super::profile::{At, ROOT};
use super::tiler::Tiler;

operation! {
    /// The layout repeated: by a layout `B`, `(block, complement(block) after B)`, where element
    /// `j` of mode 1 moves the block to its `B(j)`-th free place; by a tuple, the same in each
    /// mode. Copies never overlap. Copies that do not fit in the gaps follow the block.
    ///
    /// ```
    /// use moye_device::layout::{layout, logical_product, tiler};
    /// let copies = logical_product(layout!((2, 2):(4, 1)), tiler!(6:1));
    /// assert_eq!(copies, layout!(((2, 2), (2, 3)):((4, 1), (2, 8))));
    /// ```
    logical_product / try_logical_product(block: Layout, tiler: Tiler) -> Layout => logical;

    /// [`logical_product`] with the blocks gathered in mode 0.
    zipped_product / try_zipped_product(block: Layout, tiler: Tiler) -> Layout => zipped;

    /// [`zipped_product`] with the second mode unpacked.
    tiled_product / try_tiled_product(block: Layout, tiler: Tiler) -> Layout => tiled;

    /// [`zipped_product`] with both modes unpacked.
    flat_product / try_flat_product(block: Layout, tiler: Tiler) -> Layout => flat;

    /// The block repeated over `tiler`, mode by mode:
    /// `((block_m, tiler_m), (block_n, tiler_n), ...)`. Each block stays contiguous. The operand of
    /// lower rank is padded with trailing modes `1:0`.
    ///
    /// ```
    /// use moye_device::layout::{blocked_product, layout};
    /// let tiles = blocked_product(layout!((2, 5):(5, 1)), layout!((3, 4)));
    /// assert_eq!(tiles, layout!(((2, 3), (5, 4)):((5, 10), (1, 30))));
    /// ```
    blocked_product / try_blocked_product(block: Layout, tiler: Layout) -> Layout => blocked_into;

    /// [`blocked_product`] with the blocks interleaved:
    /// `((tiler_m, block_m), (tiler_n, block_n), ...)`.
    ///
    /// ```
    /// use moye_device::layout::{layout, raked_product};
    /// let tiles = raked_product(layout!((2, 5):(5, 1)), layout!((3, 4)));
    /// assert_eq!(tiles, layout!(((3, 2), (4, 5)):((10, 5), (30, 1))));
    /// ```
    raked_product / try_raked_product(block: Layout, tiler: Layout) -> Layout => raked_into;

    /// The block repeated up to the size `shape`, mode by mode; consecutive blocks are along mode 0
    /// first.
    ///
    /// ```
    /// use moye_device::layout::{layout, tile_to_shape, tuple};
    /// let tiles = tile_to_shape(layout!((2, 3)), tuple!((4, 9)));
    /// assert_eq!(tiles, layout!(((2, 2), (3, 3)):((1, 6), (2, 12))));
    /// ```
    tile_to_shape / try_tile_to_shape(block: Layout, shape: IntTuple) -> Layout = to_shape;

    /// [`tile_to_shape`] with consecutive blocks along the mode with the smallest `order` first,
    /// then the next smallest.
    ///
    /// ```
    /// use moye_device::layout::{layout, tile_to_shape_ordered, tuple};
    /// let tiles = tile_to_shape_ordered(layout!((2, 3)), tuple!((4, 9)), tuple!((2, 1)));
    /// assert_eq!(tiles, layout!(((2, 2), (3, 3)):((1, 18), (2, 6))));
    /// ```
    tile_to_shape_ordered / try_tile_to_shape_ordered(block: Layout, shape: IntTuple, order: IntTuple) -> Layout
        = to_shape_ordered;
}

/// Adds `(block, complement of the block after tile)`, for the modes of `blocks` at `at` and of
/// `tiles` at `by`.
pub(crate) const fn multiply_into(
    out: &mut Layout,
    blocks: &Layout,
    at: At,
    tiles: &Layout,
    by: At,
) -> Result<(), Fault> {
    tri!(out.push_tuple(2));
    tri!(out.push_copy(blocks, at));
    copies_into(out, blocks, at, tiles, by)
}

/// Adds the places of the copies of a block: the complement of the block after the tile.
const fn copies_into(out: &mut Layout, blocks: &Layout, at: At, tiles: &Layout, by: At) -> Result<(), Fault> {
    if tiles.is_coordinate_at(by) {
        return Err(Fault::HasBasis);
    }
    let places = tiles.cosize_at(by);
    let size = blocks.size_at(at);
    let Some(cotarget) = size.checked_mul(places) else {
        return Err(Fault::TooLarge {
            what: "the block's size",
            left: size,
            by: "the tiler's cosize",
            right: places,
        });
    };
    let mut free = Layout::start();
    tri!(places_into(&mut free, blocks, at, cotarget, places, Gaps::Rounded));
    tri!(free.check());
    compose_into(out, &free, ROOT, tiles, by)
}

const fn logical(out: &mut Layout, block: &Layout, tiler: &Tiler) -> Result<(), Fault> {
    by_mode_into(out, Each::Multiply, block, ROOT, tiler, ROOT)
}

const fn zipped(out: &mut Layout, block: &Layout, tiler: &Tiler) -> Result<(), Fault> {
    gathered_into(out, Each::Multiply, block, tiler, Form::Zipped)
}

const fn tiled(out: &mut Layout, block: &Layout, tiler: &Tiler) -> Result<(), Fault> {
    gathered_into(out, Each::Multiply, block, tiler, Form::Tiled)
}

const fn flat(out: &mut Layout, block: &Layout, tiler: &Tiler) -> Result<(), Fault> {
    gathered_into(out, Each::Multiply, block, tiler, Form::Flat)
}

pub(crate) const fn blocked_into(out: &mut Layout, block: &Layout, tiler: &Layout) -> Result<(), Fault> {
    interleaved_into(out, block, tiler, true)
}

pub(crate) const fn raked_into(out: &mut Layout, block: &Layout, tiler: &Layout) -> Result<(), Fault> {
    interleaved_into(out, block, tiler, false)
}

/// Zips mode `i` of the block with mode `i` of the tiler in the logical product.
const fn interleaved_into(
    out: &mut Layout,
    block: &Layout,
    tiler: &Layout,
    block_first: bool,
) -> Result<(), Fault> {
    let mut copies = Layout::start();
    tri!(copies_into(&mut copies, block, ROOT, tiler, ROOT));
    let (blocks, tiles) = (block.rank(), tiler.rank());
    let rank = if blocks > tiles { blocks } else { tiles };
    tri!(out.push_tuple(rank));
    let mut piece = block.profile.first(ROOT);
    // The copies over an integer mode may be a tuple, which is still one mode.
    let mut copy = if tiler.profile.is_leaf(ROOT) { ROOT } else { copies.profile.first(ROOT) };
    let mut i = 0;
    while i < rank {
        tri!(out.push_tuple(2));
        if block_first {
            tri!(mode_or_one(out, block, piece, i < blocks));
        }
        tri!(mode_or_one(out, &copies, copy, i < tiles));
        if !block_first {
            tri!(mode_or_one(out, block, piece, i < blocks));
        }
        i += 1;
        if i < blocks {
            piece = block.profile.next(piece);
        }
        if i < tiles {
            copy = copies.profile.next(copy);
        }
    }
    Ok(())
}

/// Adds the mode of `layout` at `at` if it exists, otherwise `1:0`.
const fn mode_or_one(out: &mut Layout, layout: &Layout, at: At, is_there: bool) -> Result<(), Fault> {
    if is_there { out.push_copy(layout, at) } else { out.push_leaf(1, 0, NO_BASIS) }
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
    let times = tri!(repeats(&block, shape, order));
    let mut out = Layout::start();
    tri!(blocked_into(&mut out, &block, &times));
    out.finish()
}

/// How often a block with the rank of `shape` is repeated in it, and in which order.
pub(crate) const fn repeats(block: &Layout, shape: &IntTuple, order: &IntTuple) -> Result<Layout, Fault> {
    let rank = shape.rank();
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
    of_shape_and_stride(&times, &stride)
}
