//! Operations with a tiler, mode by mode.

use super::builder::LayoutBuilder;
use super::compose::composed;
use super::divide::divided;
use super::error::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::layout::Layout;
use super::product::multiplied;
use super::profile::{At, ROOT};
use super::tiler::Tiler;

/// What is done at each terminal of a tiler.
#[derive(Clone, Copy)]
pub(crate) enum Each {
    Compose,
    Divide,
    Multiply,
}

/// Does `each` with the modes of `layout` and the layouts of `tiler`. Modes beyond the tiler stay as they are, except
/// in a composition, which drops them.
pub(crate) const fn by_mode(each: Each, layout: &Layout, tiler: &Tiler) -> Result<Layout, Fault> {
    let mut builder = LayoutBuilder::new();
    tri!(by_mode_into(&mut builder, each, layout, ROOT, tiler, ROOT));
    builder.finish()
}

const fn by_mode_into(
    builder: &mut LayoutBuilder,
    each: Each,
    layout: &Layout,
    at: At,
    tiler: &Tiler,
    guide: At,
) -> Result<(), Fault> {
    if tiler.is_any(guide) {
        return builder.copy(layout, at);
    }
    if !tiler.is_by_mode(guide) {
        let left = layout.sub(at);
        let right = tiler.layout.sub(guide);
        let result = match each {
            Each::Compose => tri!(composed(&left, &right)),
            Each::Divide => tri!(divided(&left, &right)),
            Each::Multiply => tri!(multiplied(&left, &right)),
        };
        return builder.mode(&result);
    }
    let modes = tiler.layout.profile.rank(guide);
    let rank = layout.profile.rank(at);
    if modes > rank {
        return Err(Fault::TooManyModes { what: "tiler", modes, rank });
    }
    let kept = match each {
        Each::Compose => modes,
        Each::Divide | Each::Multiply => rank,
    };
    tri!(builder.open(kept));
    let mut mode = layout.profile.first(at);
    let mut part = tiler.layout.profile.first(guide);
    let mut i = 0;
    while i < kept {
        if i < modes {
            tri!(by_mode_into(builder, each, layout, mode, tiler, part));
            part = tiler.layout.profile.next(part);
        } else {
            tri!(builder.copy(layout, mode));
        }
        mode = layout.profile.next(mode);
        i += 1;
    }
    Ok(())
}

/// How the two parts of a zipped result, the tiles and the rest, are put together.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// `((tile, tile, ...), (rest, rest, ...))`
    Zipped,
    /// `((tile, tile, ...), rest, rest, ...)`
    Tiled,
    /// `(tile, tile, ..., rest, rest, ...)`
    Flat,
}

/// `layout`, the result of a logical divide or product by `tiler`, with the tiles gathered in one mode and the rest in
/// another, and these unpacked as `form` says. A mode under the wildcard counts as rest, with a tile of `1:0`.
pub(crate) const fn gathered(layout: &Layout, tiler: &Tiler, form: Form) -> Result<Layout, Fault> {
    if let Form::Zipped = form {
        let mut builder = LayoutBuilder::new();
        tri!(builder.open(2));
        tri!(part_into(&mut builder, Part::Tile, layout, ROOT, tiler, ROOT));
        tri!(part_into(&mut builder, Part::Rest, layout, ROOT, tiler, ROOT));
        return builder.finish();
    }
    let mut tiles = LayoutBuilder::new();
    tri!(part_into(&mut tiles, Part::Tile, layout, ROOT, tiler, ROOT));
    let tiles = tri!(tiles.finish());
    let mut rest = LayoutBuilder::new();
    tri!(part_into(&mut rest, Part::Rest, layout, ROOT, tiler, ROOT));
    let rest = tri!(rest.finish());
    let mut builder = LayoutBuilder::new();
    let node = tri!(builder.open(0));
    let mut rank = tri!(unpacked_into(&mut builder, &tiles, matches!(form, Form::Flat)));
    rank += tri!(unpacked_into(&mut builder, &rest, true));
    builder.set_rank(node, rank);
    builder.finish()
}

/// Adds `part` as one mode, or its modes where it is unpacked. A tuple of one mode stays a tuple, as in CuTe.
const fn unpacked_into(builder: &mut LayoutBuilder, part: &Layout, unpack: bool) -> Result<usize, Fault> {
    let rank = part.rank();
    if !unpack || rank == 1 {
        tri!(builder.mode(part));
        return Ok(1);
    }
    let mut mode = part.profile.first(ROOT);
    let mut i = 0;
    while i < rank {
        tri!(builder.copy(part, mode));
        mode = part.profile.next(mode);
        i += 1;
    }
    Ok(rank)
}

#[derive(Clone, Copy)]
enum Part {
    Tile,
    Rest,
}

const fn part_into(
    builder: &mut LayoutBuilder,
    part: Part,
    layout: &Layout,
    at: At,
    tiler: &Tiler,
    guide: At,
) -> Result<(), Fault> {
    if tiler.is_any(guide) {
        return match part {
            Part::Tile => builder.leaf(1, 0, NO_BASIS),
            Part::Rest => builder.copy(layout, at),
        };
    }
    if !tiler.is_by_mode(guide) {
        let index = match part {
            Part::Tile => 0,
            Part::Rest => 1,
        };
        return builder.copy(layout, layout.profile.mode(at, index));
    }
    let modes = tiler.layout.profile.rank(guide);
    let rank = match part {
        Part::Tile => modes,
        Part::Rest => layout.profile.rank(at),
    };
    tri!(builder.open(rank));
    let mut mode = layout.profile.first(at);
    let mut inner = tiler.layout.profile.first(guide);
    let mut i = 0;
    while i < rank {
        if i < modes {
            tri!(part_into(builder, part, layout, mode, tiler, inner));
            inner = tiler.layout.profile.next(inner);
        } else {
            tri!(builder.copy(layout, mode));
        }
        mode = layout.profile.next(mode);
        i += 1;
    }
    Ok(())
}
