//! Whether an operation has an answer with another number in an operand: what is advised is tried before it is said.

use super::by_mode::{Each, by_mode};
use super::complement::complement_of;
use super::int_tuple::NO_BASIS;
use super::inverse::left_into;
use super::layout::Layout;
use super::tiler::Tiler;

/// The leaves of a second operand that do not fit.
#[derive(Clone, Copy)]
pub(crate) struct Unfit {
    pub begin: usize,
    pub end: usize,
    /// Whether it is the complement of a tile, of these leaves, that does not fit.
    pub rest: bool,
    /// Whether it is one leaf, and all of the layout that is composed with a layout or with a mode of it.
    pub by_itself: bool,
}

/// An operation by mode as a whole: what is advised of one mode of its tiler is to fit the others too.
#[derive(Clone, Copy)]
pub(crate) struct Whole {
    pub each: Each,
    pub layout: Layout,
    pub tiler: Tiler,
    /// The leaves of the tiler that do not fit, or the one of them that does not.
    pub begin: usize,
    pub end: usize,
    /// Whether it is the complement of a tile that does not fit, whose numbers nobody chose.
    pub rest: bool,
    /// Whether it is a composition in which only the one leaf decides.
    pub alone: bool,
}

impl Whole {
    pub const fn of(each: Each, layout: &Layout, tiler: &Tiler, unfit: &Unfit) -> Self {
        let Unfit { begin, end, rest, .. } = *unfit;
        let mut whole = Self { each, layout: *layout, tiler: *tiler, begin, end, rest, alone: false };
        // Modes of a layout add up; those of a tiler by mode do not.
        whole.alone = matches!(each, Each::Compose) && unfit.by_itself && whole.others_fit();
        whole
    }

    /// Whether the operation as a whole has an answer where leaf `leaf` of the tiler is `extent:stride` instead.
    pub const fn takes(&self, leaf: usize, extent: i64, stride: i64) -> bool {
        self.takes_tiles(with_leaf(&self.tiler.layout, leaf, extent, stride))
    }

    /// Whether it has where that leaf steps along `basis`.
    pub const fn takes_basis(&self, leaf: usize, basis: u32) -> bool {
        let mut tiles = self.tiler.layout;
        tiles.basis[leaf] = basis;
        self.takes_tiles(tiles)
    }

    const fn takes_tiles(&self, tiles: Layout) -> bool {
        let tiler = Tiler { layout: tiles, ..self.tiler };
        tiler.layout.check().is_ok() && by_mode(self.each, &self.layout, &tiler).is_ok()
    }

    /// Whether the operation has an answer without the one leaf that does not fit.
    pub const fn others_fit(&self) -> bool {
        self.end == self.begin + 1 && self.takes(self.begin, 1, 0)
    }
}

/// An operation of which the first operand does not fit, by itself.
#[derive(Clone, Copy)]
pub(crate) struct First {
    operation: Operation,
    layout: Layout,
    /// The leaves of the layout that do not fit beside each other.
    begin: usize,
    end: usize,
}

// There is one at a time, on the way to a message, and no heap during constant evaluation.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy)]
pub(crate) enum Operation {
    Complement { cotarget: i64 },
    LeftInverse,
    Product { tiler: Tiler },
}

impl First {
    pub const fn of(operation: Operation, layout: &Layout, begin: usize, end: usize) -> Self {
        Self { operation, layout: *layout, begin, end }
    }

    /// Whether the operation has an answer where a mode of stride `stride` has the stride `to` instead.
    pub const fn takes(&self, stride: i64, to: i64) -> bool {
        let mut leaf = self.begin;
        while leaf < self.end {
            let extent = self.layout.shape[leaf];
            if extent > 1 && self.layout.stride[leaf] == stride && self.takes_leaf(leaf, extent, to) {
                return true;
            }
            leaf += 1;
        }
        false
    }

    /// Whether no mode has a larger stride than `stride`.
    pub const fn is_largest(&self, stride: i64) -> bool {
        let mut leaf = self.begin;
        while leaf < self.end {
            if self.layout.shape[leaf] > 1 && self.layout.stride[leaf] > stride {
                return false;
            }
            leaf += 1;
        }
        true
    }

    const fn takes_leaf(&self, leaf: usize, extent: i64, stride: i64) -> bool {
        let layout = with_leaf(&self.layout, leaf, extent, stride);
        if layout.check().is_err() {
            return false;
        }
        let mut out = Layout::start();
        let written = match &self.operation {
            Operation::Complement { cotarget } => complement_of(&mut out, &layout, *cotarget),
            Operation::LeftInverse => left_into(&mut out, &layout),
            Operation::Product { tiler } => return by_mode(Each::Multiply, &layout, tiler).is_ok(),
        };
        written.is_ok() && out.check().is_ok()
    }
}

/// `layout` with `extent:stride` as its leaf `leaf`.
const fn with_leaf(layout: &Layout, leaf: usize, extent: i64, stride: i64) -> Layout {
    let mut other = *layout;
    other.shape[leaf] = extent;
    other.stride[leaf] = stride;
    if stride == 0 {
        other.basis[leaf] = NO_BASIS;
    }
    other
}
