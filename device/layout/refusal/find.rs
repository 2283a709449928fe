//! Finds the mode that causes a fault.

use super::super::by_mode::{Each, by_mode_into};
use super::super::complement::{Gaps, covering_into, places_into};
use super::super::compose::compose_into;
use super::super::edit::padded;
use super::super::int_tuple::{IntTuple, NO_BASIS, arithmetic, coordinate};
use super::super::layout::Layout;
use super::super::make::col_major;
use super::super::product::repeats;
use super::super::profile::{At, Profile, ROOT};
use super::super::tiler::Tiler;
use super::Place;

/// The place at which a composition of two layouts fails.
pub(crate) const fn of_composition(a: &Layout, b: &Layout) -> Place {
    of_modes(Each::Compose, "second layout", a, &Tiler::layout(*b))
}

/// The place at which the reshape of a layout fails.
pub(crate) const fn of_reshaped(layout: &Layout, shape: &IntTuple) -> Place {
    match col_major(shape) {
        Ok(compact) if compact.size() == layout.size() => {
            of_modes(Each::Compose, "shape", layout, &Tiler::layout(compact))
        }
        _ => Place::whole(),
    }
}

/// The place at which a product by a layout fails.
pub(crate) const fn of_repeats(block: &Layout, tiler: &Layout) -> Place {
    of_modes(Each::Multiply, "tiler", block, &Tiler::layout(*tiler))
}

/// The place at which the product that repeats a block up to a shape, in some order, fails.
pub(crate) const fn of_shape(block: &Layout, shape: &IntTuple, order: &IntTuple) -> Place {
    let mut place = Place::of("shape");
    let (Ok(block), Ok(extents)) = (padded(block, shape.rank()), arithmetic::each_product(shape)) else {
        return place;
    };
    if block.rank() != shape.rank() {
        return place;
    }
    if let Ok(tiler) = repeats(&block, shape, order) {
        return of_modes(Each::Multiply, "block's repeats", &block, &Tiler::layout(tiler));
    }
    let mut mode = 0;
    while mode < shape.rank() && extents.value[mode] % block.extent(mode) == 0 {
        mode += 1;
    }
    if mode < shape.rank() {
        place.enter(mode);
    }
    place
}

/// The place at which an operation with a tiler, named `whose` in messages, fails.
pub(crate) const fn of_modes(each: Each, whose: &'static str, layout: &Layout, tiler: &Tiler) -> Place {
    let mut place = Place::of(whose);
    find(&mut place, each, layout, ROOT, tiler, ROOT);
    place
}

/// Finds the first mode of the tiler that alone does not fit; returns whether there is one. For a
/// composition it also descends into the modes of a tile.
const fn find(place: &mut Place, each: Each, layout: &Layout, at: At, tiler: &Tiler, guide: At) -> bool {
    let tiles = &tiler.layout;
    let (by_mode, is_leaf) = (tiler.is_by_mode(guide), tiles.profile.is_leaf(guide));
    if by_mode && tiles.profile.rank(guide) > layout.profile.rank(at) {
        return true;
    }
    if by_mode || matches!(each, Each::Compose) && !is_leaf {
        let mut mode = if by_mode { layout.profile.first(at) } else { at };
        let mut part = tiles.profile.first(guide);
        let mut i = 0;
        while i < tiles.profile.rank(guide) {
            place.enter(i);
            if find(place, each, layout, mode, tiler, part) {
                return true;
            }
            place.leave();
            mode = if by_mode { layout.profile.next(mode) } else { at };
            part = tiles.profile.next(part);
            i += 1;
        }
    }
    if by_mode || by_mode_into(&mut Layout::start(), each, layout, at, tiler, guide).is_ok() {
        return false;
    }
    place.mode = Some(tiles.sub(guide));
    if at.node > 0 {
        place.within = Some(("", layout.sub(at)));
    }
    let mut rest = Layout::start();
    match each {
        Each::Compose => {
            // It steps through one mode of the layout, and the fault counts that mode's modes.
            if is_leaf
                && tiles.basis[guide.leaf] != NO_BASIS
                && let Ok(mode) = layout.mode_along(at, tiles.basis[guide.leaf])
            {
                place.within = Some(("", layout.sub(mode)));
            }
        }
        Each::Divide => {
            if covering_into(&mut rest, tiles, guide, layout.size_at(at)).is_ok()
                && !find(place, Each::Compose, layout, at, tiler, guide)
                && compose_into(&mut Layout::start(), layout, at, &rest, ROOT).is_err()
            {
                place.rest = Some(rest);
            }
        }
        Each::Multiply => {
            let places = tiles.cosize_at(guide);
            let Some(cotarget) = layout.size_at(at).checked_mul(places) else { return true };
            if places_into(&mut rest, layout, at, cotarget, places, Gaps::Rounded).is_err() {
                place.whose = "block";
                place.mode = Some(layout.sub(at));
            } else {
                place.within = Some(("the complement ", rest));
                find(place, Each::Compose, &rest, ROOT, tiler, guide);
            }
        }
    }
    true
}

/// The first place at which two tuples nest differently.
pub(crate) const fn of_difference(a: &IntTuple, b: &IntTuple) -> Place {
    let mut place = Place::whole();
    let node = a.profile.first_difference(&b.profile);
    if node < a.profile.len() {
        // Both nest alike up to it.
        let at = go_to(&mut place, &a.profile, node);
        place.tuples = Some((a.sub(at), b.sub(at)));
    }
    place
}

/// The place where a coordinate and a shape nest differently, or the first integer of the
/// coordinate that is not within its extent.
pub(crate) const fn of_coordinate(coord: &IntTuple, shape: &IntTuple) -> Place {
    let mut place = of_difference(coord, shape);
    if place.tuples.is_none()
        && let Some(leaf) = coordinate::beyond(coord, shape)
    {
        place.whose = "coordinate";
        go_to(&mut place, &coord.profile, coord.profile.node_of(leaf));
    }
    place
}

/// Descends through the modes to a node.
const fn go_to(place: &mut Place, profile: &Profile, node: usize) -> At {
    let mut at = ROOT;
    while at.node < node {
        at = profile.first(at);
        let mut mode = 0;
        while profile.next(at).node <= node {
            at = profile.next(at);
            mode += 1;
        }
        place.enter(mode);
    }
    at
}
