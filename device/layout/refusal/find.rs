//! Looking for the mode that a fault is about.

use super::super::by_mode::Each;
use super::super::complement::{Gaps, covering_into, places_into};
use super::super::compose::compose_into;
use super::super::divide::divide_into;
use super::super::edit::padded;
use super::super::int_tuple::{IntTuple, NO_BASIS, arithmetic, coordinate};
use super::super::layout::Layout;
use super::super::make::col_major;
use super::super::product::{multiply_into, repeats};
use super::super::profile::{At, ROOT};
use super::super::tiler::Tiler;
use super::{Part, Place, Within};

impl Place {
    /// A mode of the operand `whose`, where `steps` go through another operand.
    const fn of(whose: &'static str, steps: &'static str) -> Self {
        Self { whose, steps, ..Self::whole() }
    }
}

/// Where a composition of two layouts fails.
pub(crate) const fn of_composition(a: &Layout, b: &Layout) -> Place {
    let mut place = Place::of("second layout", "the second layout");
    find_leaf(&mut place, a, ROOT, b, ROOT);
    place
}

/// The first integer mode of `b` under `by` after which `a` is no layout, whether there is one.
const fn find_leaf(place: &mut Place, a: &Layout, at: At, b: &Layout, by: At) -> bool {
    if b.profile.is_leaf(by) {
        if compose_into(&mut Layout::start(), a, at, b, by).is_ok() {
            return false;
        }
        place.part = Some(Part::Mode(b.sub(by)));
        let basis = b.basis[by.leaf];
        if basis != NO_BASIS
            && let Ok(mode) = a.mode_along(at, basis)
        {
            // It steps through that mode of `a`, and the fault counts the modes in it.
            place.within = Some(Within::Mode(a.sub(mode)));
        }
        return true;
    }
    let mut mode = b.profile.first(by);
    let mut i = 0;
    while i < b.profile.rank(by) {
        place.enter(i);
        if find_leaf(place, a, at, b, mode) {
            return true;
        }
        place.leave();
        mode = b.profile.next(mode);
        i += 1;
    }
    false
}

/// Where a layout has no other shape.
pub(crate) const fn of_reshaped(layout: &Layout, shape: &IntTuple) -> Place {
    let Ok(compact) = col_major(shape) else { return Place::whole() };
    if compact.size() != layout.size() {
        return Place::whole();
    }
    let mut place = Place::of("shape", "the shape's compact layout");
    find_leaf(&mut place, layout, ROOT, &compact, ROOT);
    place
}

/// Where a composition with a tiler fails.
pub(crate) const fn of_tiler(layout: &Layout, tiler: &Tiler) -> Place {
    of_modes(Each::Compose, layout, tiler, "tiler", "the tiler")
}

/// Where a divide fails.
pub(crate) const fn of_divide(layout: &Layout, tiler: &Tiler) -> Place {
    of_modes(Each::Divide, layout, tiler, "tiler", "the tiler")
}

/// Where a product by a tiler fails.
pub(crate) const fn of_product(block: &Layout, tiler: &Tiler) -> Place {
    of_modes(Each::Multiply, block, tiler, "tiler", "the tiler")
}

/// Where a product by a layout fails.
pub(crate) const fn of_repeats(block: &Layout, tiler: &Layout) -> Place {
    of_product(block, &Tiler::layout(*tiler))
}

/// Where the product of a block that is repeated up to a shape fails.
pub(crate) const fn of_shape(block: &Layout, shape: &IntTuple) -> Place {
    of_ordered_shape(block, shape, &IntTuple::int(0))
}

/// [`of_shape`] with an order.
pub(crate) const fn of_ordered_shape(block: &Layout, shape: &IntTuple, order: &IntTuple) -> Place {
    let Ok(block) = padded(block, shape.rank()) else { return Place::whole() };
    if block.rank() != shape.rank() {
        return Place::whole();
    }
    let Ok(extents) = arithmetic::each_product(shape) else { return Place::whole() };
    if let Ok(tiler) = repeats(&block, shape, order) {
        let tiler = Tiler::layout(tiler);
        return of_modes(Each::Multiply, &block, &tiler, "block's repeats", "the block's repeats");
    }
    let mut place = Place::of("shape", "");
    let mut mode = 0;
    while mode < shape.rank() && extents.value[mode] % block.extent(mode) == 0 {
        mode += 1;
    }
    if mode < shape.rank() {
        place.enter(mode);
    }
    place
}

const fn of_modes(
    each: Each,
    layout: &Layout,
    tiler: &Tiler,
    whose: &'static str,
    steps: &'static str,
) -> Place {
    let mut place = Place::of(whose, steps);
    find_tile(&mut place, each, layout, ROOT, tiler, ROOT);
    place
}

/// The first mode of the tiler that does not fit, whether there is one.
const fn find_tile(place: &mut Place, each: Each, layout: &Layout, at: At, tiler: &Tiler, guide: At) -> bool {
    if tiler.is_any(guide) {
        return false;
    }
    if !tiler.is_by_mode(guide) {
        return find_in_tile(place, each, layout, at, &tiler.layout, guide);
    }
    let modes = tiler.layout.profile.rank(guide);
    if modes > layout.profile.rank(at) {
        return true;
    }
    let mut mode = layout.profile.first(at);
    let mut part = tiler.layout.profile.first(guide);
    let mut i = 0;
    while i < modes {
        place.enter(i);
        if find_tile(place, each, layout, mode, tiler, part) {
            return true;
        }
        place.leave();
        mode = layout.profile.next(mode);
        part = tiler.layout.profile.next(part);
        i += 1;
    }
    false
}

/// Where the mode of `layout` at `at` and the tile at `by` do not fit, whether they do not.
const fn find_in_tile(
    place: &mut Place,
    each: Each,
    layout: &Layout,
    at: At,
    tiles: &Layout,
    by: At,
) -> bool {
    let mut out = Layout::start();
    let fits = match each {
        Each::Compose => compose_into(&mut out, layout, at, tiles, by).is_ok(),
        Each::Divide => divide_into(&mut out, layout, at, tiles, by).is_ok(),
        Each::Multiply => multiply_into(&mut out, layout, at, tiles, by).is_ok(),
    };
    if fits {
        return false;
    }
    if place.depth > 0 {
        place.within = Some(Within::Mode(layout.sub(at)));
    }
    place.part = Some(Part::Mode(tiles.sub(by)));
    match each {
        Each::Compose => {
            find_leaf(place, layout, at, tiles, by);
        }
        Each::Divide => {
            let mut rest = Layout::start();
            if covering_into(&mut rest, tiles, by, layout.size_at(at)).is_ok()
                && !find_leaf(place, layout, at, tiles, by)
            {
                place.steps = "the tile and its complement";
                if compose_into(&mut Layout::start(), layout, at, &rest, ROOT).is_err() {
                    place.part = Some(Part::Rest { tile: tiles.sub(by), rest });
                }
            }
        }
        Each::Multiply => {
            let places = tiles.cosize_at(by);
            let Some(cotarget) = layout.size_at(at).checked_mul(places) else { return true };
            let mut free = Layout::start();
            if places_into(&mut free, layout, at, cotarget, places, Gaps::Rounded).is_err() {
                place.whose = "block";
                place.part = Some(Part::Mode(layout.sub(at)));
            } else {
                place.within = Some(Within::Complement(free));
                find_leaf(place, &free, ROOT, tiles, by);
            }
        }
    }
    true
}

/// The first place at which two tuples nest differently.
pub(crate) const fn of_difference(a: &IntTuple, b: &IntTuple) -> Place {
    let mut place = Place::whole();
    find_difference(&mut place, a, ROOT, b, ROOT);
    place
}

const fn find_difference(place: &mut Place, a: &IntTuple, at: At, b: &IntTuple, bt: At) -> bool {
    let rank = a.profile.rank(at);
    if a.profile.is_leaf(at) && b.profile.is_leaf(bt) {
        return false;
    }
    if a.profile.is_leaf(at) != b.profile.is_leaf(bt) || rank != b.profile.rank(bt) {
        place.part = Some(Part::Tuples(a.sub(at), b.sub(bt)));
        return true;
    }
    let (mut mode, mut other) = (a.profile.first(at), b.profile.first(bt));
    let mut i = 0;
    while i < rank {
        place.enter(i);
        if find_difference(place, a, mode, b, other) {
            return true;
        }
        place.leave();
        mode = a.profile.next(mode);
        other = b.profile.next(other);
        i += 1;
    }
    false
}

/// Where a coordinate and a shape nest differently, or the first integer of the coordinate that is
/// not within its extent.
pub(crate) const fn of_coordinate(coord: &IntTuple, shape: &IntTuple) -> Place {
    let mut place = of_difference(coord, shape);
    if place.part.is_none()
        && let Some(leaf) = coordinate::beyond(coord, shape)
    {
        place.whose = "coordinate";
        find_number(&mut place, coord, ROOT, leaf);
    }
    place
}

/// The modes that integer `leaf` is in.
const fn find_number(place: &mut Place, tuple: &IntTuple, at: At, leaf: usize) {
    if tuple.profile.is_leaf(at) {
        return;
    }
    let mut mode = tuple.profile.first(at);
    let mut i = 0;
    while tuple.profile.next(mode).leaf <= leaf {
        mode = tuple.profile.next(mode);
        i += 1;
    }
    place.enter(i);
    find_number(place, tuple, mode, leaf);
}
