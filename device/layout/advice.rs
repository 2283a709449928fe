//! Whether an operation has an answer with another number in an operand: what is advised is tried
//! before it is said.

use super::by_mode::{Each, by_mode};
use super::complement::complement_of;
use super::compose::SEARCH;
use super::int_tuple::{IntTuple, NO_BASIS, arithmetic, edit};
use super::inverse::left_into;
use super::layout::Layout;
use super::product::to_shape_ordered;
use super::recast::{between, down, up};
use super::tiler::Tiler;

/// How many numbers above and below one are tried, until one has an answer.
pub(crate) const TRIED: i64 = 64;

/// How many values all the tries of a message may look at, more or less: a constant's evaluation
/// ends after a time.
const VALUES: i64 = 4096;

/// The larger of two numbers of values. Of more than a search looks at there is none, which costs
/// nothing, unless as few are near: `least` are those of the last number that is tried.
const fn searched(most: i64, values: i64, least: i64) -> i64 {
    let values = if values > SEARCH && least <= SEARCH { SEARCH } else { values };
    if values > most && values <= SEARCH { values } else { most }
}

/// The number of candidates for operands of this many values.
pub(crate) const fn tries(values: i64) -> i64 {
    let tries = VALUES / if values < 1 { 1 } else { values };
    if tries > TRIED {
        TRIED
    } else if tries < 2 {
        2
    } else {
        tries
    }
}

/// The leaves of a second operand that do not fit.
#[derive(Clone, Copy)]
pub(crate) struct Unfit {
    pub begin: usize,
    pub end: usize,
    /// Whether it is the complement of a tile, of these leaves, that does not fit.
    pub rest: bool,
    /// Whether it is one leaf, and all of the layout that is composed with a layout or with a mode
    /// of it.
    pub by_itself: bool,
}

/// An operation by mode as a whole: what is advised of one mode of its tiler is to fit the others
/// too.
#[derive(Clone, Copy)]
pub(crate) struct Whole {
    pub each: Each,
    pub layout: Layout,
    pub tiler: Tiler,
    /// The leaves of the tiler that do not fit, or the one of them that does not.
    pub begin: usize,
    pub end: usize,
    /// Whether it is the complement of a tile that does not fit, whose numbers the caller did not
    /// choose.
    pub rest: bool,
    /// Whether it is a composition in which only the one leaf decides.
    pub alone: bool,
}

impl Whole {
    pub const fn of(each: Each, layout: &Layout, tiler: &Tiler, unfit: &Unfit) -> Self {
        let Unfit { begin, end, rest, .. } = *unfit;
        let mut whole = Self { each, layout: *layout, tiler: *tiler, begin, end, rest, alone: false };
        // Offsets of a layout's modes are added; those of a tiler by mode are not.
        whole.alone = matches!(each, Each::Compose) && unfit.by_itself && whole.others_fit();
        whole
    }

    /// Whether the operation as a whole has an answer where leaf `leaf` of the tiler is
    /// `extent:stride` instead.
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

    /// How many values a try may look at: an extent of the tiler, or how often a tile goes into the
    /// layout or into a mode of it.
    pub const fn values(&self) -> i64 {
        let tiles = &self.tiler.layout;
        let mut most = 1;
        let mut leaf = 0;
        while leaf < tiles.leaves() {
            most = searched(most, tiles.shape[leaf], tiles.shape[leaf].saturating_sub(TRIED));
            leaf += 1;
        }
        if matches!(self.each, Each::Divide) {
            let tile = if self.begin < tiles.leaves() { tiles.shape[self.begin] } else { 1 };
            let (size, last) = (self.layout.size(), tile.saturating_add(TRIED));
            most = searched(most, size / tile, size / last);
            let mut mode = 0;
            while mode < self.layout.rank() {
                let extent = self.layout.extent(mode);
                most = searched(most, extent / tile, extent / last);
                mode += 1;
            }
        }
        most
    }

    /// Whether the operation has an answer without the one leaf that does not fit.
    pub const fn others_fit(&self) -> bool {
        self.end == self.begin + 1 && self.takes(self.begin, 1, 0)
    }
}

/// An operation whose first operand alone does not fit.
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
    Upcast { count: i64 },
    Downcast { count: i64 },
    Recast { from_bits: i64, to_bits: i64 },
}

impl First {
    pub const fn of(operation: Operation, layout: &Layout, begin: usize, end: usize) -> Self {
        Self { operation, layout: *layout, begin, end }
    }

    /// Whether the operation has an answer where a mode of stride `stride` has the stride `to`
    /// instead.
    pub const fn takes(&self, stride: i64, to: i64) -> bool {
        let mut leaf = self.begin;
        while leaf < self.end {
            let (extent, own) = (self.layout.shape[leaf], self.layout.stride[leaf]);
            // Of a stride that runs backwards, the one that is spoken of is its magnitude.
            if own.saturating_abs() == stride && self.takes_leaf(leaf, extent, own.signum() * to) {
                return true;
            }
            leaf += 1;
        }
        false
    }

    /// Whether the operation has an answer where a mode of stride `-stride` counts from its other
    /// end.
    pub const fn takes_turned(&self, stride: i64) -> bool {
        let mut leaf = self.begin;
        while leaf < self.end {
            let is_it = self.layout.shape[leaf] > 1 && self.layout.stride[leaf] == -stride;
            if is_it && self.takes_leaf(leaf, self.layout.shape[leaf], stride) {
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
            Operation::Upcast { count } => return up(&layout, *count).is_ok(),
            Operation::Downcast { count } => return down(&layout, *count).is_ok(),
            Operation::Recast { from_bits, to_bits } => {
                return between(&layout, *from_bits, *to_bits).is_ok();
            }
        };
        written.is_ok() && out.check().is_ok()
    }
}

/// A block that is repeated up to a shape: whose extents are what there is to choose.
#[derive(Clone, Copy)]
pub(crate) struct Repeated {
    block: Layout,
    shape: IntTuple,
    order: IntTuple,
    /// Whether the other modes that no whole number of blocks fills are left as they are.
    whole: bool,
}

impl Repeated {
    pub const fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// `block` has as many modes as `shape`. `mode` is the one that is spoken of.
    pub const fn of(block: &Layout, shape: &IntTuple, order: &IntTuple, mode: usize) -> Self {
        let mut repeated = Self { block: *block, shape: *shape, order: *order, whole: true };
        let mut other = 0;
        while other < shape.rank() {
            if other != mode && !repeated.is_multiple(other) {
                // What is said is then of the one mode, beside others of one block.
                repeated.set(other, block.extent(other));
                repeated.whole = false;
            }
            other += 1;
        }
        repeated
    }

    /// Whether the candidate is the requested shape except for one mode.
    pub const fn is_whole(&self) -> bool {
        self.whole
    }

    const fn extent(&self, mode: usize) -> i64 {
        match arithmetic::each_product(&self.shape) {
            Ok(extents) => extents.value[mode],
            Err(_) => 0,
        }
    }

    const fn is_multiple(&self, mode: usize) -> bool {
        self.extent(mode) % self.block.extent(mode) == 0
    }

    const fn set(&mut self, mode: usize, extent: i64) {
        if let Ok(shape) = edit::replace(&self.shape, mode, &IntTuple::int(extent)) {
            self.shape = shape;
        }
    }

    /// How many values a try may look at: how often the block is repeated along a mode.
    const fn values(&self) -> i64 {
        let mut most = 1;
        let mut mode = 0;
        while mode < self.shape.rank() {
            let times = self.extent(mode) / self.block.extent(mode);
            most = searched(most, times, times.saturating_sub(TRIED));
            mode += 1;
        }
        most
    }

    /// The next smaller and larger extents of `mode` of which there is an answer, each 0 where none
    /// was found.
    pub const fn extents_around(&self, mode: usize) -> (i64, i64) {
        let part = self.block.extent(mode);
        let start = self.extent(mode) / part;
        let tries = tries(self.values());
        let (mut below, mut above) = (0, 0);
        let mut apart = 0;
        while apart <= tries && (below == 0 || above == 0) {
            if below == 0 && start - apart > 0 && self.takes(mode, (start - apart) * part) {
                below = (start - apart) * part;
            }
            if above == 0
                && let Some(larger) = (start + apart + 1).checked_mul(part)
                && self.takes(mode, larger)
            {
                above = larger;
            }
            apart += 1;
        }
        (below, above)
    }

    const fn takes(&self, mode: usize, extent: i64) -> bool {
        let mut other = *self;
        other.set(mode, extent);
        to_shape_ordered(&other.block, &other.shape, &other.order).is_ok()
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
