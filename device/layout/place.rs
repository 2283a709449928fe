//! Where in the operands a fault is: looked for after the fact, so that the functions of the algebra carry nothing along.

use super::by_mode::{Each, by_mode};
use super::complement::{Gaps, covering_into, places_into};
use super::compose::compose_into;
use super::divide::divide_into;
use super::edit::padded;
use super::int_tuple::{IntTuple, NO_BASIS};
use super::layout::Layout;
use super::product::{multiply_into, repeats};
use super::profile::{At, MAX_NODES, ROOT};
use super::text::Text;
use super::tiler::Tiler;

/// How much of a message is kept free for the reason, behind the mode that it is about.
const REASON: usize = 250;

/// How much is kept free behind the layout whose mode is spoken of.
const ADVICE: usize = 130;

/// How many extents above and below one are tried, until one fits.
const TRIED: i64 = 64;

/// The mode that a fault is about, and what it was put together with.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The operand, as messages call it.
    whose: &'static str,
    /// The index of the mode, of the mode in it, and so on.
    path: [u8; MAX_NODES],
    depth: usize,
    /// The mode itself.
    part: Option<Part>,
    /// What the modes that the fault names are modes of, where that is not the first operand.
    within: Option<Within>,
    /// What steps through it, where that is not one mode alone.
    steps: &'static str,
    /// What would do.
    would: Option<Layout>,
    /// The divide that is refused, where it is one: what is advised of a tile is to fit its complement too.
    divide: Option<Divide>,
}

#[derive(Clone, Copy)]
struct Divide {
    layout: Layout,
    tiler: Tiler,
    /// The leaves of the tile that does not fit, or the one of them that does not.
    begin: usize,
    end: usize,
    /// Whether it is the complement of the tile that does not fit, whose numbers nobody chose.
    rest: bool,
}

impl Divide {
    /// Whether the divide as a whole has an answer where leaf `leaf` of the tiler is `extent:stride` instead.
    const fn takes(&self, leaf: usize, extent: i64, stride: i64) -> bool {
        let mut tiler = self.tiler;
        tiler.layout.shape[leaf] = extent;
        tiler.layout.stride[leaf] = stride;
        tiler.layout.check().is_ok() && by_mode(Each::Divide, &self.layout, &tiler).is_ok()
    }
}

// There is one at a time, on the way to a message, and no heap during constant evaluation.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy)]
enum Part {
    Mode(Layout),
    /// The complement of a tile.
    Rest {
        tile: Layout,
        rest: Layout,
    },
    /// What two tuples have there.
    Tuples(IntTuple, IntTuple),
}

#[derive(Clone, Copy)]
enum Within {
    Mode(Layout),
    Complement(Layout),
}

impl Place {
    /// The operands as a whole.
    pub const fn whole() -> Self {
        Self {
            whose: "",
            path: [0; MAX_NODES],
            depth: 0,
            part: None,
            within: None,
            steps: "the second layout",
            would: None,
            divide: None,
        }
    }

    /// Whether the operation is a divide: then advice is given as far as it [takes](Self::takes) it.
    pub const fn is_divide(&self) -> bool {
        self.divide.is_some()
    }

    /// Whether the divide as a whole has an answer where a mode `extent:stride` of the tile is `to` instead, an extent
    /// and a stride. Without an `extent`, it is a mode of any. Where the operation is no divide, it is taken to have one.
    pub const fn takes(&self, extent: Option<i64>, stride: i64, to: (Option<i64>, i64)) -> bool {
        let Some(divide) = &self.divide else { return true };
        if divide.rest {
            return false;
        }
        let mut i = divide.begin;
        while i < divide.end {
            let shape = divide.tiler.layout.shape[i];
            let is_it = match extent {
                Some(extent) => extent == shape,
                None => shape > 1,
            };
            if is_it && divide.tiler.layout.stride[i] == stride {
                return divide.takes(i, if let Some(extent) = to.0 { extent } else { shape }, to.1);
            }
            i += 1;
        }
        false
    }

    /// "; a tile of 2:1 or 4:1 would do": of a divide by a tile of one mode, the next smaller and larger extents that the
    /// divide [takes](Self::takes), a smaller one of 1 only where there is no other. Whether there are any.
    pub const fn write_tiles<const N: usize>(&self, text: &mut Text<N>) -> bool {
        let Some(divide) = &self.divide else { return false };
        if divide.end != divide.begin + 1 {
            return false;
        }
        let (extent, stride) =
            (divide.tiler.layout.shape[divide.begin], divide.tiler.layout.stride[divide.begin]);
        let (mut below, mut above) = (0, 0);
        let mut step = 1;
        while step <= TRIED && (below == 0 || above == 0) {
            if below == 0 && extent - step > 1 && divide.takes(divide.begin, extent - step, stride) {
                below = extent - step;
            }
            if above == 0
                && let Some(larger) = extent.checked_add(step)
                && divide.takes(divide.begin, larger, stride)
            {
                above = larger;
            }
            step += 1;
        }
        if below == 0 && above == 0 && extent > 1 && divide.takes(divide.begin, 1, stride) {
            below = 1;
        }
        if below == 0 && above == 0 {
            return false;
        }
        text.str("; a tile of ");
        if below > 0 {
            text.int(below);
            text.str(":");
            text.int(stride);
        }
        if above > 0 {
            text.str(if below > 0 { " or " } else { "" });
            text.int(above);
            text.str(":");
            text.int(stride);
        }
        text.str(" would do");
        true
    }

    const fn enter(&mut self, mode: usize) {
        self.path[self.depth] = mode as u8;
        self.depth += 1;
    }

    const fn leave(&mut self) {
        self.depth -= 1;
    }

    /// "mode 1", "mode (1,0)".
    const fn write_path<const N: usize>(&self, text: &mut Text<N>) {
        text.str("mode ");
        if self.depth > 1 {
            text.str("(");
        }
        let mut i = 0;
        while i < self.depth {
            if i > 0 {
                text.str(",");
            }
            text.size(self.path[i] as usize);
            i += 1;
        }
        if self.depth > 1 {
            text.str(")");
        }
    }

    /// "mode 1 of the second layout, 3:1: ", if the fault is about less than the whole.
    pub const fn write<const N: usize>(&self, text: &mut Text<N>) {
        let by_path = self.depth > 0 && !self.whose.is_empty();
        text.keep(REASON);
        match &self.part {
            Some(Part::Rest { tile, rest }) => {
                text.str("the complement ");
                text.layout(rest);
                text.str(" of the tile ");
                text.layout(tile);
                if by_path {
                    text.str(" (");
                    self.write_path(text);
                    text.str(" of the tiler)");
                }
                text.str(": ");
            }
            part if by_path => {
                self.write_path(text);
                text.str(" of the ");
                text.str(self.whose);
                if let Some(Part::Mode(mode)) = part {
                    text.str(", ");
                    text.layout(mode);
                }
                text.str(": ");
            }
            _ => {}
        }
        text.give_rest();
    }

    /// " of mode 0 (modes coalesced) of the complement (2,9):(4,60)".
    pub const fn write_mode<const N: usize>(&self, text: &mut Text<N>, mode: usize) {
        text.str(" mode ");
        text.size(mode);
        text.str(" (modes coalesced)");
        text.keep(ADVICE);
        match &self.within {
            Some(Within::Mode(layout)) => {
                text.str(" of ");
                text.layout(layout);
            }
            Some(Within::Complement(layout)) => {
                text.str(" of the complement ");
                text.layout(layout);
            }
            None => {}
        }
        text.give_rest();
    }

    /// What the modes that a fault names are modes of, and what steps through it.
    pub const fn is_in_first(&self) -> bool {
        self.within.is_none()
    }

    pub const fn steps(&self) -> &'static str {
        self.steps
    }

    pub const fn would(&self) -> Option<Layout> {
        self.would
    }

    /// " at mode (1,0), 3 beside (1,2)", of two tuples.
    pub const fn write_difference<const N: usize>(&self, text: &mut Text<N>) {
        if let Some(Part::Tuples(a, b)) = &self.part
            && self.depth > 0
        {
            text.str(" at ");
            self.write_path(text);
            text.keep(ADVICE);
            text.str(": ");
            text.tuple(a);
            text.str(" beside ");
            text.tuple(b);
            text.give_rest();
        }
    }
}

/// Where a composition of two layouts fails.
pub(crate) const fn of_composition(a: &Layout, b: &Layout) -> Place {
    let mut place = Place::whole();
    place.whose = "second layout";
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

/// Where a composition with a tiler fails.
pub(crate) const fn of_tiler(layout: &Layout, tiler: &Tiler) -> Place {
    of_modes(Each::Compose, layout, tiler)
}

/// Where a divide fails.
pub(crate) const fn of_divide(layout: &Layout, tiler: &Tiler) -> Place {
    let mut place = of_modes(Each::Divide, layout, tiler);
    if let Some(divide) = &mut place.divide {
        divide.layout = *layout;
        divide.tiler = *tiler;
    }
    place
}

/// Where a product by a tiler fails.
pub(crate) const fn of_product(block: &Layout, tiler: &Tiler) -> Place {
    of_modes(Each::Multiply, block, tiler)
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
    if let Ok(padded) = padded(block, shape.rank())
        && let Ok(tiler) = repeats(&padded, shape, order)
    {
        return of_repeats(&padded, &tiler);
    }
    Place::whole()
}

const fn of_modes(each: Each, layout: &Layout, tiler: &Tiler) -> Place {
    let mut place = Place::whole();
    place.whose = "tiler";
    place.steps = "the tiler";
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
            let (begin, end) = (by.leaf, tiles.profile.next(by).leaf);
            // The operands as a whole are put in by the caller.
            let mut divide = Divide {
                layout: Layout::start(),
                tiler: Tiler::layout(Layout::start()),
                begin,
                end,
                rest: false,
            };
            let mut rest = Layout::start();
            if covering_into(&mut rest, tiles, by, layout.size_at(at)).is_ok()
                && !find_leaf(place, layout, at, tiles, by)
            {
                place.steps = "the tile and its complement";
                if compose_into(&mut Layout::start(), layout, at, &rest, ROOT).is_err() {
                    place.part = Some(Part::Rest { tile: tiles.sub(by), rest });
                    divide.rest = true;
                }
            }
            place.divide = Some(divide);
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

/// [`of_difference`] of a shape and a stride.
pub(crate) const fn of_strides(_index: i64, shape: &IntTuple, stride: &IntTuple) -> Place {
    of_difference(shape, stride)
}

/// Where a coordinate and a shape nest differently, or the first integer of the coordinate that is not within its extent.
pub(crate) const fn of_coordinate(coord: &IntTuple, shape: &IntTuple) -> Place {
    let mut place = of_difference(coord, shape);
    if place.part.is_none()
        && let Some(leaf) = super::int_tuple::coordinate::beyond(coord, shape)
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

/// What would do as the threads or the values of a thread-value layout.
pub(crate) const fn of_compact(layout: &Layout) -> Place {
    let mut place = Place::whole();
    if let Ok(compact) = super::make::col_major(&layout.shape()) {
        place.would = Some(compact);
    }
    place
}
