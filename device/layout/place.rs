//! Where in the operands a fault is: looked for after the fact, so that the functions of the
//! algebra carry nothing along.

mod find;

use super::advice::{First, Operation, Repeated, Unfit, Whole, tries};
use super::by_mode::Each;
use super::compose::steps_around;
use super::int_tuple::IntTuple;
use super::layout::Layout;
use super::profile::MAX_NODES;
use super::text::Text;
use super::tiler::Tiler;
pub(crate) use find::*;

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
    /// The leaves of the block of a product, if it alone does not fit.
    block: Option<(usize, usize)>,
    /// What the modes that the fault names are modes of, where that is not the first operand.
    within: Option<Within>,
    /// What steps through it, where that is not one mode alone.
    steps: &'static str,
    /// What would work.
    would: Option<Layout>,
    /// The operation as a whole, where it is one by mode and its tiler does not fit.
    whole: Option<Whole>,
    /// The operation, if its first operand alone does not fit.
    first: Option<First>,
    /// What is repeated up to a shape, of which no stride is anybody's.
    repeated: Option<Repeated>,
    /// The shape that a layout could be given.
    reshaped: Option<IntTuple>,
    /// What must hold where no single number would work.
    apart: &'static str,
}

/// Behind what would work in a mode where another mode does not fit either.
pub(crate) const BY_ITSELF: &str = " for this mode, and another does not fit either";

/// For strides alone.
const NESTED: &str = "strides that nest (each a multiple of the reach of those before it) would work";

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

    /// Whether advice is given as far as the operation [takes](Self::takes) it. Otherwise the mode
    /// that does not fit is all that decides.
    pub const fn is_checked(&self) -> bool {
        match &self.whole {
            Some(whole) => !whole.alone,
            None => self.first.is_some(),
        }
    }

    /// Whether the operation is known to have an answer where a mode of stride `stride` has the
    /// stride `to` instead.
    pub const fn takes_stride(&self, stride: i64, to: i64) -> bool {
        self.is_checked() && self.takes(None, stride, (None, to))
    }

    /// Whether the operation has an answer where a mode with this stride and basis vector steps
    /// along `to` instead, by which it has none only because of another operand.
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

    /// Whether no mode of the first operand, which alone does not fit, has a larger stride than
    /// `stride`.
    pub const fn is_largest(&self, stride: i64) -> bool {
        match &self.first {
            Some(first) => first.is_largest(stride),
            None => false,
        }
    }

    /// What must hold of modes that overlap, where no single stride would work.
    pub const fn apart(&self) -> &'static str {
        self.apart
    }

    /// Whether the operation as a whole has an answer where a mode `extent:stride` of the tile is
    /// `to` instead, an extent and a stride. Without an `extent`, it is a mode of any. Where the
    /// mode is all that decides, it is taken to have one.
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

    /// Whether it is a composition of which another mode has no answer either, so that none takes
    /// what is advised of one.
    pub const fn is_one_of_several(&self) -> bool {
        match &self.whole {
            Some(whole) => {
                matches!(whole.each, Each::Compose) && whole.end == whole.begin + 1 && !whole.others_fit()
            }
            None => false,
        }
    }

    /// The strides next to `step` of which `count` steps go through the layout that is stepped
    /// through, each 0 where none was found.
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

    /// "; a tile of 2:1 or 4:1 would work": of a tile of one mode, or of a mode, the next smaller
    /// and larger extents that the operation [takes](Self::takes), a smaller one of 1 only where
    /// there is no other. Whether there are any.
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
        text.str(" would work");
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

    /// Whether the operation, on its first operand, is known to have an answer where a mode of
    /// stride `-stride` counts from its other end.
    pub const fn takes_turned(&self, stride: i64) -> bool {
        match &self.first {
            Some(first) => first.takes_turned(stride),
            None => false,
        }
    }

    /// "; an extent of 8 or 12 along mode 0 would work", or the shape that would. Whether there is
    /// any.
    pub const fn write_shapes<const N: usize>(&self, text: &mut Text<N>) -> bool {
        if let Some(shape) = &self.reshaped {
            text.str("; the shape ");
            text.keep(NESTED.len());
            text.tuple(shape);
            text.give_rest();
            text.str(" of the layout's modes coalesced would work");
            return true;
        }
        let Some(repeated) = &self.repeated else { return false };
        // Of what is no mode's own fault, the first mode of which another extent would work.
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
        text.str(" would work");
        if !repeated.is_whole() {
            text.str(BY_ITSELF);
        }
        true
    }

    /// What must hold where no single number of a mode would work.
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
