//! Where in the operands a fault is: looked for after the fact, so that the functions of the algebra carry nothing along.

use super::advice::{First, Operation, Repeated, Unfit, Whole, tries};
use super::by_mode::Each;
use super::coalesce::coalesce_into;
use super::complement::{Gaps, covering_into, places_into};
use super::compose::{compose_into, steps_around};
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
    /// The leaves of the second operand that do not fit.
    unfit: Option<Unfit>,
    /// The leaves of the block of a product, where it does not fit by itself.
    block: Option<(usize, usize)>,
    /// What the modes that the fault names are modes of, where that is not the first operand.
    within: Option<Within>,
    /// What steps through it, where that is not one mode alone.
    steps: &'static str,
    /// What would do.
    would: Option<Layout>,
    /// The operation as a whole, where it is one by mode and its tiler does not fit.
    whole: Option<Whole>,
    /// The operation, where its first operand does not fit by itself.
    first: Option<First>,
    /// What is repeated up to a shape, of which no stride is anybody's.
    repeated: Option<Repeated>,
    /// The shape that a layout could be given.
    reshaped: Option<IntTuple>,
    /// What must hold where no single number would do.
    apart: &'static str,
}

/// Behind what would do in a mode where another mode does not fit either.
pub(crate) const BY_ITSELF: &str = " for this mode, and another does not fit either";

/// Of strides by themselves.
const NESTED: &str = "strides that nest (each a multiple of the reach of those before it) would do";

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
            unfit: None,
            block: None,
            within: None,
            steps: "the second layout",
            would: None,
            whole: None,
            first: None,
            repeated: None,
            reshaped: None,
            apart: NESTED,
        }
    }

    /// Whether advice is given as far as the operation [takes](Self::takes) it. Otherwise the mode that does not fit is all
    /// that decides.
    pub const fn is_checked(&self) -> bool {
        match &self.whole {
            Some(whole) => !whole.alone,
            None => self.first.is_some(),
        }
    }

    /// Whether the operation is known to have an answer where a mode of stride `stride` has the stride `to` instead.
    pub const fn takes_stride(&self, stride: i64, to: i64) -> bool {
        self.is_checked() && self.takes(None, stride, (None, to))
    }

    /// Whether the operation has an answer where a mode with this stride and basis vector steps along `to` instead, by which it
    /// has none only because of another operand.
    pub const fn takes_basis(&self, (stride, basis): (i64, u32), to: u32) -> bool {
        let Some(whole) = &self.whole else { return true };
        let mut leaf = whole.begin;
        while leaf < whole.end {
            let tiles = &whole.tiler.layout;
            if tiles.stride[leaf] == stride && tiles.basis[leaf] == basis && whole.takes_basis(leaf, to) {
                return true;
            }
            leaf += 1;
        }
        false
    }

    /// Whether no mode of the first operand, which does not fit by itself, has a larger stride than `stride`.
    pub const fn is_largest(&self, stride: i64) -> bool {
        match &self.first {
            Some(first) => first.is_largest(stride),
            None => false,
        }
    }

    /// What must hold of modes that overlap, where no single stride would do.
    pub const fn apart(&self) -> &'static str {
        self.apart
    }

    /// Whether the operation as a whole has an answer where a mode `extent:stride` of the tile is `to` instead, an extent
    /// and a stride. Without an `extent`, it is a mode of any. Where the mode is all that decides, it is taken to have one.
    pub const fn takes(&self, extent: Option<i64>, stride: i64, to: (Option<i64>, i64)) -> bool {
        if let Some(first) = &self.first {
            return stride > 0 && first.takes(stride, to.1);
        }
        let Some(whole) = &self.whole else { return true };
        if whole.rest {
            return false;
        }
        if whole.alone {
            return true;
        }
        let mut i = whole.begin;
        while i < whole.end {
            let shape = whole.tiler.layout.shape[i];
            let is_it = match extent {
                Some(extent) => extent == shape,
                None => shape > 1,
            };
            if is_it
                && whole.tiler.layout.stride[i] == stride
                && whole.takes(i, if let Some(extent) = to.0 { extent } else { shape }, to.1)
            {
                return true;
            }
            i += 1;
        }
        false
    }

    /// Whether it is a composition of which another mode has no answer either, so that none takes what is advised of one.
    pub const fn is_one_of_several(&self) -> bool {
        match &self.whole {
            Some(whole) => {
                matches!(whole.each, Each::Compose) && whole.end == whole.begin + 1 && !whole.others_fit()
            }
            None => false,
        }
    }

    /// The strides next to `step` of which `count` steps go through the layout that is stepped through, each 0 where none
    /// was found.
    pub const fn steps_around(&self, count: i64, step: i64) -> (i64, i64) {
        let Some(whole) = &self.whole else { return (0, 0) };
        if whole.rest {
            return (0, 0);
        }
        match &self.within {
            Some(Within::Mode(layout) | Within::Complement(layout)) => steps_around(layout, count, step),
            None => steps_around(&whole.layout, count, step),
        }
    }

    /// "; a tile of 2:1 or 4:1 would do": of a tile of one mode, or of a mode, the next smaller and larger extents that the
    /// operation [takes](Self::takes), a smaller one of 1 only where there is no other. Whether there are any.
    pub const fn write_tiles<const N: usize>(&self, text: &mut Text<N>) -> bool {
        let Some(whole) = &self.whole else { return false };
        if whole.end != whole.begin + 1 {
            return false;
        }
        let leaf = whole.begin;
        let (extent, stride) = (whole.tiler.layout.shape[leaf], whole.tiler.layout.stride[leaf]);
        let basis = whole.tiler.layout.basis[leaf];
        let (mut below, mut above) = (0, 0);
        let mut step = 1;
        let tries = self.tries();
        while step <= tries && (below == 0 || above == 0) {
            if below == 0 && extent - step > 1 && whole.takes(leaf, extent - step, stride) {
                below = extent - step;
            }
            if above == 0
                && let Some(larger) = extent.checked_add(step)
                && whole.takes(leaf, larger, stride)
            {
                above = larger;
            }
            step += 1;
        }
        if below == 0 && above == 0 && extent > 1 && whole.takes(leaf, 1, stride) {
            below = 1;
        }
        if below == 0 && above == 0 {
            return false;
        }
        text.str(if matches!(whole.each, Each::Divide) { "; a tile of " } else { "; a mode of " });
        if below > 0 {
            text.int(below);
            text.str(":");
            text.scaled(stride, basis);
        }
        if above > 0 {
            text.str(if below > 0 { " or " } else { "" });
            text.int(above);
            text.str(":");
            text.scaled(stride, basis);
        }
        text.str(" would do");
        true
    }

    /// How many numbers are tried before nothing is advised.
    pub const fn tries(&self) -> i64 {
        match &self.whole {
            Some(whole) => tries(whole.values()),
            None => tries(1),
        }
    }

    /// Whether extents of a shape are all that there is to choose.
    pub const fn is_of_shape(&self) -> bool {
        self.repeated.is_some() || self.reshaped.is_some()
    }

    /// Whether the operation, on its first operand, is known to have an answer where a mode of stride `-stride` counts from its other
    /// end.
    pub const fn takes_turned(&self, stride: i64) -> bool {
        match &self.first {
            Some(first) => first.takes_turned(stride),
            None => false,
        }
    }

    /// "; an extent of 8 or 12 along mode 0 would do", or the shape that would. Whether there is any.
    pub const fn write_shapes<const N: usize>(&self, text: &mut Text<N>) -> bool {
        if let Some(shape) = &self.reshaped {
            text.str("; the shape ");
            text.keep(NESTED.len());
            text.tuple(shape);
            text.give_rest();
            text.str(" of the layout's modes coalesced would do");
            return true;
        }
        let Some(repeated) = &self.repeated else { return false };
        // Of what is no mode's own fault, the first mode of which another extent would do.
        let (mut mode, end) = match self.depth {
            0 => (0, repeated.rank()),
            _ => (self.path[0] as usize, self.path[0] as usize + 1),
        };
        let (mut below, mut above) = (0, 0);
        while mode < end {
            (below, above) = repeated.extents_around(mode);
            if below > 0 || above > 0 {
                break;
            }
            mode += 1;
        }
        if mode == end {
            return false;
        }
        text.str("; an extent of ");
        if below > 0 {
            text.int(below);
            text.str(if above > 0 { " or " } else { "" });
        }
        if above > 0 {
            text.int(above);
        }
        text.str(" along mode ");
        text.size(mode);
        text.str(" would do");
        if !repeated.is_whole() {
            text.str(BY_ITSELF);
        }
        true
    }

    /// What must hold where no single number of a mode would do.
    pub const fn write_condition<const N: usize>(&self, text: &mut Text<N>) {
        text.str(match &self.whole {
            Some(Whole { each: Each::Divide, .. }) => {
                "; the layout must have a composition with the tile and one with the tile's complement"
            }
            Some(Whole { each: Each::Multiply, .. }) => {
                "; the block's complement must have a composition with the tiler"
            }
            _ => "; the first layout must have a composition with each mode, and with all of them together",
        });
    }

    /// The place in the operation on these operands.
    const fn of_whole(mut self, each: Each, layout: &Layout, tiler: &Tiler) -> Self {
        if let Some(unfit) = &self.unfit {
            self.whole = Some(Whole::of(each, layout, tiler, unfit));
            self.apart = "the modes of a tile must not overlap";
        }
        if let Some((begin, end)) = self.block {
            self.first = Some(First::of(Operation::Product { tiler: *tiler }, layout, begin, end));
            self.apart = "the modes of a block must not overlap";
        }
        self
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
    place.unfit = Some(find_unfit(&mut place, a, ROOT, b, ROOT));
    place.of_whole(Each::Compose, a, &Tiler::layout(*b))
}

/// The leaves of `b` under `by` after which `a` is no layout: one of them, if it is none by itself.
const fn find_unfit(place: &mut Place, a: &Layout, at: At, b: &Layout, by: At) -> Unfit {
    let mut unfit =
        Unfit { begin: by.leaf, end: b.profile.next(by).leaf, rest: false, by_itself: b.profile.is_leaf(by) };
    if let Some(leaf) = find_leaf(place, a, at, b, by) {
        unfit.begin = leaf;
        unfit.end = leaf + 1;
    }
    unfit
}

/// The first integer mode of `b` under `by` after which `a` is no layout, if there is one.
const fn find_leaf(place: &mut Place, a: &Layout, at: At, b: &Layout, by: At) -> Option<usize> {
    if b.profile.is_leaf(by) {
        if compose_into(&mut Layout::start(), a, at, b, by).is_ok() {
            return None;
        }
        place.part = Some(Part::Mode(b.sub(by)));
        let basis = b.basis[by.leaf];
        if basis != NO_BASIS
            && let Ok(mode) = a.mode_along(at, basis)
        {
            // It steps through that mode of `a`, and the fault counts the modes in it.
            place.within = Some(Within::Mode(a.sub(mode)));
        }
        return Some(by.leaf);
    }
    let mut mode = b.profile.first(by);
    let mut i = 0;
    while i < b.profile.rank(by) {
        place.enter(i);
        if let Some(leaf) = find_leaf(place, a, at, b, mode) {
            return Some(leaf);
        }
        place.leave();
        mode = b.profile.next(mode);
        i += 1;
    }
    None
}

/// What a complement is of.
pub(crate) const fn of_complement(layout: &Layout, cotarget: i64) -> Place {
    of_first(Operation::Complement { cotarget }, layout)
}

/// What a left inverse is of.
pub(crate) const fn of_left_inverse(layout: &Layout) -> Place {
    of_first(Operation::LeftInverse, layout)
}

/// [`of_left_inverse`] of a layout under a swizzle, which may have none of another stride either.
pub(crate) const fn of_swizzled_left_inverse(_layout: &Layout) -> Place {
    let mut place = Place::whole();
    place.apart = "the layout's strides must nest (each a multiple of the reach of those before it)";
    place
}

/// What a layout of larger elements is of.
pub(crate) const fn of_upcast(layout: &Layout, count: i64) -> Place {
    of_first(Operation::Upcast { count }, layout)
}

/// What a layout of smaller elements is of.
pub(crate) const fn of_downcast(layout: &Layout, count: i64) -> Place {
    of_first(Operation::Downcast { count }, layout)
}

/// What a layout of other elements is of.
pub(crate) const fn of_recast(layout: &Layout, from_bits: i64, to_bits: i64) -> Place {
    of_first(Operation::Recast { from_bits, to_bits }, layout)
}

/// Where a layout has no other shape.
pub(crate) const fn of_reshaped(layout: &Layout, shape: &IntTuple) -> Place {
    let Ok(compact) = super::make::col_major(shape) else { return Place::whole() };
    if compact.size() != layout.size() {
        return Place::whole();
    }
    let mut place = of_composition(layout, &compact);
    place.whose = "shape";
    place.steps = "the shape's compact layout";
    let mut modes = Layout::start();
    if coalesce_into(&mut modes, layout).is_ok() {
        place.reshaped = Some(modes.shape());
    }
    place
}

const fn of_first(operation: Operation, layout: &Layout) -> Place {
    let mut place = Place::whole();
    place.first = Some(First::of(operation, layout, 0, layout.leaves()));
    place
}

/// Where a composition with a tiler fails.
pub(crate) const fn of_tiler(layout: &Layout, tiler: &Tiler) -> Place {
    of_modes(Each::Compose, layout, tiler)
}

/// Where a divide fails.
pub(crate) const fn of_divide(layout: &Layout, tiler: &Tiler) -> Place {
    of_modes(Each::Divide, layout, tiler)
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
    let Ok(block) = padded(block, shape.rank()) else { return Place::whole() };
    if block.rank() != shape.rank() {
        return Place::whole();
    }
    let Ok(extents) = super::int_tuple::arithmetic::each_product(shape) else { return Place::whole() };
    let mut place = Place::whole();
    let mut mode = 0;
    match repeats(&block, shape, order) {
        Ok(tiler) => {
            place = of_repeats(&block, &tiler);
            if place.block.is_some() {
                return place;
            }
            place.whose = "block's repeats";
            place.steps = "the block's repeats";
            mode = place.path[0] as usize;
        }
        Err(_) => {
            while mode < shape.rank() && extents.value[mode] % block.extent(mode) == 0 {
                mode += 1;
            }
            if mode == shape.rank() {
                return place;
            }
            place.whose = "shape";
            place.enter(mode);
        }
    }
    place.repeated = Some(Repeated::of(&block, shape, order, mode));
    place
}

const fn of_modes(each: Each, layout: &Layout, tiler: &Tiler) -> Place {
    let mut place = Place::whole();
    place.whose = "tiler";
    place.steps = "the tiler";
    find_tile(&mut place, each, layout, ROOT, tiler, ROOT);
    place.of_whole(each, layout, tiler)
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
            place.unfit = Some(find_unfit(place, layout, at, tiles, by));
        }
        Each::Divide => {
            let (begin, end) = (by.leaf, tiles.profile.next(by).leaf);
            let mut unfit = Unfit { begin, end, rest: false, by_itself: false };
            let mut rest = Layout::start();
            if covering_into(&mut rest, tiles, by, layout.size_at(at)).is_ok()
                && find_leaf(place, layout, at, tiles, by).is_none()
            {
                place.steps = "the tile and its complement";
                if compose_into(&mut Layout::start(), layout, at, &rest, ROOT).is_err() {
                    place.part = Some(Part::Rest { tile: tiles.sub(by), rest });
                    unfit.rest = true;
                }
            }
            place.unfit = Some(unfit);
        }
        Each::Multiply => {
            let places = tiles.cosize_at(by);
            let Some(cotarget) = layout.size_at(at).checked_mul(places) else { return true };
            let mut free = Layout::start();
            if places_into(&mut free, layout, at, cotarget, places, Gaps::Rounded).is_err() {
                place.whose = "block";
                place.part = Some(Part::Mode(layout.sub(at)));
                place.block = Some((at.leaf, layout.profile.next(at).leaf));
            } else {
                place.within = Some(Within::Complement(free));
                place.unfit = Some(find_unfit(place, &free, ROOT, tiles, by));
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
