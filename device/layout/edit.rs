//! Layouts with modes added, taken out and rearranged.

use super::builder::LayoutBuilder;
use super::error::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::layout::Layout;
use super::profile::ROOT;

/// Adds the modes of `layout`, of which an integer is its own only one.
const fn modes_into(builder: &mut LayoutBuilder, layout: &Layout) -> Result<(), Fault> {
    let rank = layout.rank();
    let mut mode = layout.profile.first(ROOT);
    let mut i = 0;
    while i < rank {
        tri!(builder.copy(layout, mode));
        if i + 1 < rank {
            mode = layout.profile.next(mode);
        }
        i += 1;
    }
    Ok(())
}

/// The layout with modes `1:0` at its end up to `rank`. A layout of that rank already stays as it is.
pub(crate) const fn padded(layout: &Layout, rank: usize) -> Result<Layout, Fault> {
    if layout.rank() >= rank {
        return Ok(*layout);
    }
    let mut builder = LayoutBuilder::new();
    tri!(builder.open(rank));
    tri!(modes_into(&mut builder, layout));
    let mut i = layout.rank();
    while i < rank {
        tri!(builder.leaf(1, 0, NO_BASIS));
        i += 1;
    }
    builder.finish()
}
