//! Operations with a tiler, mode by mode.

use super::compose::compose_into;
use super::divide::divide_into;
use super::fault::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::layout::Layout;
use super::product::multiply_into;
use super::profile::{At, ROOT};
use super::tiler::Tiler;

/// The operation at each terminal of a tiler.
#[derive(Clone, Copy)]
pub(crate) enum Each {
    Compose,
    Divide,
    Multiply,
}

/// [`by_mode_into`] as a separate layout.
pub(crate) const fn by_mode(each: Each, layout: &Layout, tiler: &Tiler) -> Result<Layout, Fault> {
    let mut out = Layout::start();
    tri!(by_mode_into(&mut out, each, layout, ROOT, tiler, ROOT));
    out.finish()
}

/// Adds the results of `each` for the modes of `layout` and the layouts of `tiler`. Modes past the
/// tiler's stay unchanged, except in a composition, which drops them.
pub(crate) const fn by_mode_into(
    out: &mut Layout,
    each: Each,
    layout: &Layout,
    at: At,
    tiler: &Tiler,
    guide: At,
) -> Result<(), Fault> {
    if tiler.is_any(guide) {
        return out.push_copy(layout, at);
    }
    if !tiler.is_by_mode(guide) {
        return match each {
            Each::Compose => compose_into(out, layout, at, &tiler.layout, guide),
            Each::Divide => divide_into(out, layout, at, &tiler.layout, guide),
            Each::Multiply => multiply_into(out, layout, at, &tiler.layout, guide),
        };
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
    tri!(out.push_tuple(kept));
    let mut mode = layout.profile.first(at);
    let mut part = tiler.layout.profile.first(guide);
    let mut i = 0;
    while i < kept {
        if i < modes {
            tri!(by_mode_into(out, each, layout, mode, tiler, part));
            part = tiler.layout.profile.next(part);
        } else {
            tri!(out.push_copy(layout, mode));
        }
        mode = layout.profile.next(mode);
        i += 1;
    }
    Ok(())
}

/// The form in which the two parts of a zipped result, the tiles and the rest, are combined.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// `((tile, tile, ...), (rest, rest, ...))`
    Zipped,
    /// `((tile, tile, ...), rest, rest, ...)`
    Tiled,
    /// `(tile, tile, ..., rest, rest, ...)`
    Flat,
}

/// [`gathered_into`] as a separate layout.
pub(crate) const fn gathered(
    each: Each,
    layout: &Layout,
    tiler: &Tiler,
    form: Form,
) -> Result<Layout, Fault> {
    let mut out = Layout::start();
    tri!(gathered_into(&mut out, each, layout, tiler, form));
    out.finish()
}

/// A divide or product by `tiler`, with the tiles gathered in one mode and the rest in another;
/// `form` selects which of these are unpacked. A mode under the wildcard counts as rest, with a
/// tile of `1:0`.
pub(crate) const fn gathered_into(
    out: &mut Layout,
    each: Each,
    layout: &Layout,
    tiler: &Tiler,
    form: Form,
) -> Result<(), Fault> {
    let mut pairs = Layout::start();
    tri!(by_mode_into(&mut pairs, each, layout, ROOT, tiler, ROOT));
    if let Form::Zipped = form {
        tri!(out.push_tuple(2));
        tri!(part_into(out, Part::Tile, &pairs, ROOT, tiler, ROOT));
        return part_into(out, Part::Rest, &pairs, ROOT, tiler, ROOT);
    }
    let mut tiles = Layout::start();
    tri!(part_into(&mut tiles, Part::Tile, &pairs, ROOT, tiler, ROOT));
    let mut rest = Layout::start();
    tri!(part_into(&mut rest, Part::Rest, &pairs, ROOT, tiler, ROOT));
    let node = tri!(out.push_tuple(0));
    let mut rank = tri!(unpacked_into(out, &tiles, matches!(form, Form::Flat)));
    rank += tri!(unpacked_into(out, &rest, true));
    out.set_rank(node, rank);
    Ok(())
}

/// Adds `part` as one mode, or its modes if it is unpacked. A tuple of one mode stays a tuple, as
/// in CuTe.
const fn unpacked_into(out: &mut Layout, part: &Layout, unpack: bool) -> Result<usize, Fault> {
    let rank = part.rank();
    if !unpack || rank == 1 {
        tri!(out.push_layout(part));
        return Ok(1);
    }
    let mut mode = part.profile.first(ROOT);
    let mut i = 0;
    while i < rank {
        tri!(out.push_copy(part, mode));
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
    out: &mut Layout,
    part: Part,
    layout: &Layout,
    at: At,
    tiler: &Tiler,
    guide: At,
) -> Result<(), Fault> {
    if tiler.is_any(guide) {
        return match part {
            Part::Tile => out.push_leaf(1, 0, NO_BASIS),
            Part::Rest => out.push_copy(layout, at),
        };
    }
    if !tiler.is_by_mode(guide) {
        let index = match part {
            Part::Tile => 0,
            Part::Rest => 1,
        };
        return out.push_copy(layout, layout.profile.mode(at, index));
    }
    let modes = tiler.layout.profile.rank(guide);
    let rank = match part {
        Part::Tile => modes,
        Part::Rest => layout.profile.rank(at),
    };
    tri!(out.push_tuple(rank));
    let mut mode = layout.profile.first(at);
    let mut inner = tiler.layout.profile.first(guide);
    let mut i = 0;
    while i < rank {
        if i < modes {
            tri!(part_into(out, part, layout, mode, tiler, inner));
            inner = tiler.layout.profile.next(inner);
        } else {
            tri!(out.push_copy(layout, mode));
        }
        mode = layout.profile.next(mode);
        i += 1;
    }
    Ok(())
}
