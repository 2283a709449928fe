//! Divides and products.

use moye_device::layout::{
    IntTuple, Layout, Tiler, try_blocked_product, try_flat_divide, try_flat_product, try_logical_divide,
    try_logical_product, try_raked_product, try_tile_to_shape, try_tile_to_shape_ordered, try_tiled_divide,
    try_tiled_product, try_zipped_divide, try_zipped_product,
};

use super::{Group, operations};
use crate::error::EvalError;
use crate::operand::AnyLayout;
use crate::value::{Answer, Value};

pub(super) const GROUP: Group = Group {
    title: "Divides and products",
    operations: operations! {
        logical_divide(layout: AnyLayout, tiler: Tiler) = match layout {
            AnyLayout::Layout(layout) => try_logical_divide(layout, tiler).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_logical_divide(tiler).answer(),
        }, "cut into tiles: (tile, rest), of each mode where the tiler is a tuple";
        zipped_divide(layout: AnyLayout, tiler: Tiler) = match layout {
            AnyLayout::Layout(layout) => try_zipped_divide(layout, tiler).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_zipped_divide(tiler).answer(),
        }, "logical_divide as ((tile, ...), (rest, ...))";
        tiled_divide(layout: AnyLayout, tiler: Tiler) = match layout {
            AnyLayout::Layout(layout) => try_tiled_divide(layout, tiler).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_tiled_divide(tiler).answer(),
        }, "logical_divide as ((tile, ...), rest, ...)";
        flat_divide(layout: AnyLayout, tiler: Tiler) = match layout {
            AnyLayout::Layout(layout) => try_flat_divide(layout, tiler).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_flat_divide(tiler).answer(),
        }, "logical_divide as (tile, ..., rest, ...)";
        logical_product(block: AnyLayout, tiler: Tiler) = match block {
            AnyLayout::Layout(block) => try_logical_product(block, tiler).answer(),
            AnyLayout::ComposedLayout(block) => block.try_logical_product(tiler).answer(),
        }, "repeated: (block, copies), of each mode where the tiler is a tuple";
        zipped_product(block: AnyLayout, tiler: Tiler) = match block {
            AnyLayout::Layout(block) => try_zipped_product(block, tiler).answer(),
            AnyLayout::ComposedLayout(block) => block.try_zipped_product(tiler).answer(),
        }, "logical_product as ((block, ...), (copies, ...))";
        tiled_product(block: AnyLayout, tiler: Tiler) = match block {
            AnyLayout::Layout(block) => try_tiled_product(block, tiler).answer(),
            AnyLayout::ComposedLayout(block) => block.try_tiled_product(tiler).answer(),
        }, "logical_product as ((block, ...), copies, ...)";
        flat_product(block: AnyLayout, tiler: Tiler) = match block {
            AnyLayout::Layout(block) => try_flat_product(block, tiler).answer(),
            AnyLayout::ComposedLayout(block) => block.try_flat_product(tiler).answer(),
        }, "logical_product as (block, ..., copies, ...)";
        blocked_product(block: AnyLayout, tiler: Layout) = match block {
            AnyLayout::Layout(block) => try_blocked_product(block, tiler).answer(),
            AnyLayout::ComposedLayout(block) => block.try_blocked_product(tiler).answer(),
        }, "repeated mode by mode, blocks kept together: ((block, copies), ...)";
        raked_product(block: AnyLayout, tiler: Layout) = match block {
            AnyLayout::Layout(block) => try_raked_product(block, tiler).answer(),
            AnyLayout::ComposedLayout(block) => block.try_raked_product(tiler).answer(),
        }, "repeated mode by mode, blocks interleaved: ((copies, block), ...)";
        tile_to_shape(block: AnyLayout, shape: IntTuple, order: Option<IntTuple>) =
            tile_to_shape(block, shape, order),
            "repeated up to a shape, along the mode of the smallest order first";
    },
};

fn tile_to_shape(block: AnyLayout, shape: IntTuple, order: Option<IntTuple>) -> Result<Value, EvalError> {
    match (block, order) {
        (AnyLayout::Layout(block), None) => try_tile_to_shape(block, shape).answer(),
        (AnyLayout::Layout(block), Some(order)) => try_tile_to_shape_ordered(block, shape, order).answer(),
        (AnyLayout::ComposedLayout(block), None) => block.try_tile_to_shape(shape).answer(),
        (AnyLayout::ComposedLayout(block), Some(order)) => {
            block.try_tile_to_shape_ordered(shape, order).answer()
        }
    }
}
