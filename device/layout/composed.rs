//! Composed layouts: a layout, then an offset, then a swizzle.

use core::fmt;

use super::by_mode::{Each, Form, by_mode, gathered};
use super::coalesce::{coalesce_by_profile, coalesce_into, filter_by_profile, filter_into};
use super::compose::composed;
use super::edit::{append, group, take};
use super::error::LayoutError;
use super::evaluate;
use super::fault::{Fault, tri};
use super::int_tuple::IntTuple;
use super::layout::{Layout, mode_of};
use super::operation::method;
use super::product::{blocked_into, raked_into, to_shape_ordered};
use super::recast::{down, ratio, up};
use super::swizzle::Swizzle;
use super::text::Text;
use super::tiler::Tiler;

/// `swizzle o offset o layout`: it maps a coordinate to `swizzle(offset + layout(coordinate))`. The
/// form of conflict-free layouts in shared memory.
///
/// ```
/// use moye_device::layout::{ComposedLayout, Swizzle, layout, tuple};
/// const SMEM: ComposedLayout =
///     ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1))).tile_to_shape(tuple!((128, 64)));
/// assert_eq!(SMEM.at_coord([1, 0]), 64 + 8);
/// assert_eq!(SMEM.to_string(), "Sw<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0))");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ComposedLayout {
    /// Applied last.
    pub swizzle: Swizzle,
    /// Added before the swizzle; at least 0.
    pub offset: i64,
    /// Applied first.
    pub layout: Layout,
}

impl ComposedLayout {
    /// `swizzle o offset o layout`.
    ///
    /// # Panics
    /// If [`try_new`](Self::try_new) returns an error.
    #[track_caller]
    pub const fn new(swizzle: Swizzle, offset: i64, layout: Layout) -> Self {
        match Self::try_new(swizzle, offset, layout) {
            Ok(layout) => layout,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// `swizzle o offset o layout`.
    ///
    /// # Errors
    /// If an index would be negative, or the layout maps to coordinates.
    pub const fn try_new(swizzle: Swizzle, offset: i64, layout: Layout) -> Result<Self, LayoutError> {
        match Self::of(swizzle, offset, layout) {
            Ok(composed) => Ok(composed),
            Err(fault) => {
                let mut text = Text::of_operands();
                Self { swizzle, offset, layout }.write(&mut text);
                Err(LayoutError::after(text, fault))
            }
        }
    }

    pub(crate) const fn of(swizzle: Swizzle, offset: i64, layout: Layout) -> Result<Self, Fault> {
        let composed = Self { swizzle, offset, layout };
        tri!(composed.check());
        Ok(composed)
    }

    /// The layout without a swizzle, for code that also takes swizzled layouts.
    ///
    /// # Panics
    /// If [`try_plain`](Self::try_plain) returns an error.
    #[track_caller]
    pub const fn plain(layout: Layout) -> Self {
        match Self::try_plain(layout) {
            Ok(layout) => layout,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// [`plain`](Self::plain) as a `Result`.
    ///
    /// # Errors
    /// If an index would be negative, or the layout maps to coordinates.
    pub const fn try_plain(layout: Layout) -> Result<Self, LayoutError> {
        Self::try_new(Swizzle::NONE, 0, layout)
    }

    pub(crate) const fn check(&self) -> Result<(), Fault> {
        if self.layout.is_coordinate() {
            return Err(Fault::HasBasis);
        }
        let (mut least, mut most) = (self.offset, self.offset);
        let mut i = 0;
        while i < self.layout.leaves() {
            let reach = (self.layout.shape[i] - 1) * self.layout.stride[i];
            let end = if reach < 0 { &mut least } else { &mut most };
            *end = match end.checked_add(reach) {
                Some(end) => end,
                None => return Err(Fault::Overflow),
            };
            i += 1;
        }
        if least < 0 {
            return Err(Fault::Least { what: "smallest index", value: least, least: 0 });
        }
        match self.end() {
            Some(end) if self.swizzle.largest_below(end) < i64::MAX => Ok(()),
            _ => Err(Fault::Overflow),
        }
    }

    /// The number of coordinates.
    pub const fn size(&self) -> i64 {
        self.layout.size()
    }

    /// The number of indices that its memory needs: one more than the largest swizzled index from 0
    /// to the layout's last.
    pub const fn cosize(&self) -> i64 {
        match self.end() {
            Some(end) => self.swizzle.largest_below(end) + 1,
            None => unreachable!(),
        }
    }

    /// One more than the largest index before the swizzle, if it fits in 64 bits.
    pub(crate) const fn end(&self) -> Option<i64> {
        self.offset.checked_add(self.layout.cosize())
    }

    /// The shape.
    pub const fn shape(&self) -> IntTuple {
        self.layout.shape()
    }

    /// The number of modes.
    pub const fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// The depth of the nesting of modes.
    pub const fn depth(&self) -> usize {
        self.layout.depth()
    }

    /// The same modes without nesting.
    pub const fn flatten(&self) -> Self {
        Self { layout: self.layout.flatten(), ..*self }
    }

    /// The index of the integer coordinate `index`.
    #[inline(always)]
    #[track_caller]
    pub const fn at(&self, index: i64) -> i64 {
        self.swizzle.apply(self.offset + self.layout.at(index))
    }

    /// The index of a coordinate with an integer for each mode.
    #[inline(always)]
    #[track_caller]
    pub const fn at_coord<const R: usize>(&self, coord: [i64; R]) -> i64 {
        self.swizzle.apply(self.offset + self.layout.at_coord(coord))
    }

    method! {
        /// The index of a coordinate, an integer or a tuple for each mode: see
        /// [`crd2idx`](super::crd2idx).
        ///
        /// ```
        /// use moye_device::layout::{ComposedLayout, Swizzle, layout, tuple};
        /// let rows = ComposedLayout::new(Swizzle::new(1, 0, 2), 0, layout!((4, (2, 2)):(4, (1, 2))));
        /// assert_eq!(rows.crd2idx(tuple!((1, (0, 1)))), 7); // 6, which is swizzled to 7
        /// ```
        crd2idx / try_crd2idx(self: ComposedLayout, coord: IntTuple) -> i64 = index_of;
        /// Mode `index` with the same swizzle and offset.
        mode / try_mode(self: ComposedLayout, index: usize) -> ComposedLayout = mode;
        /// This after `b`: see [`composition`](super::composition).
        composition / try_composition(self: ComposedLayout, b: Layout) -> ComposedLayout = compose;
        /// This after a tiler, by mode: see [`composition_tiler`](super::composition_tiler).
        composition_tiler / try_composition_tiler(self: ComposedLayout, tiler: Tiler) -> ComposedLayout
            = compose_tiler;
        /// See [`logical_divide`](super::logical_divide).
        logical_divide / try_logical_divide(self: ComposedLayout, tiler: Tiler) -> ComposedLayout = divide;
        /// See [`zipped_divide`](super::zipped_divide).
        zipped_divide / try_zipped_divide(self: ComposedLayout, tiler: Tiler) -> ComposedLayout = divide_zipped;
        /// See [`tiled_divide`](super::tiled_divide).
        tiled_divide / try_tiled_divide(self: ComposedLayout, tiler: Tiler) -> ComposedLayout = divide_tiled;
        /// See [`flat_divide`](super::flat_divide).
        flat_divide / try_flat_divide(self: ComposedLayout, tiler: Tiler) -> ComposedLayout = divide_flat;
        /// The layout repeated with the same swizzle and offset: see
        /// [`logical_product`](super::logical_product).
        ///
        /// ```
        /// use moye_device::layout::{ComposedLayout, Swizzle, layout, tiler};
        /// let rows = ComposedLayout::new(Swizzle::new(1, 0, 2), 0, layout!(4:1));
        /// assert_eq!(rows.logical_product(tiler!(4)).to_string(), "Sw<1,0,2> o 0 o (4,4):(1,4)");
        /// ```
        logical_product / try_logical_product(self: ComposedLayout, tiler: Tiler) -> ComposedLayout = multiply;
        /// See [`zipped_product`](super::zipped_product).
        zipped_product / try_zipped_product(self: ComposedLayout, tiler: Tiler) -> ComposedLayout = multiply_zipped;
        /// See [`tiled_product`](super::tiled_product).
        tiled_product / try_tiled_product(self: ComposedLayout, tiler: Tiler) -> ComposedLayout = multiply_tiled;
        /// See [`flat_product`](super::flat_product).
        flat_product / try_flat_product(self: ComposedLayout, tiler: Tiler) -> ComposedLayout = multiply_flat;
        /// See [`blocked_product`](super::blocked_product).
        blocked_product / try_blocked_product(self: ComposedLayout, tiler: Layout) -> ComposedLayout = blocked;
        /// See [`raked_product`](super::raked_product).
        raked_product / try_raked_product(self: ComposedLayout, tiler: Layout) -> ComposedLayout = raked;
        /// The same function with as few modes as possible: see [`coalesce`](super::coalesce).
        coalesce / try_coalesce(self: ComposedLayout) -> ComposedLayout = coalesced;
        /// See [`coalesce_profile`](super::coalesce_profile).
        coalesce_profile / try_coalesce_profile(self: ComposedLayout, profile: IntTuple) -> ComposedLayout
            = coalesced_by_profile;
        /// Without the modes of stride 0 or of extent 1: see [`filter`](super::filter).
        filter / try_filter(self: ComposedLayout) -> ComposedLayout = filtered;
        /// See [`filter_profile`](super::filter_profile).
        filter_profile / try_filter_profile(self: ComposedLayout, profile: IntTuple) -> ComposedLayout
            = filtered_by_profile;
        /// The layout with `mode` as its last mode: see [`Layout::append`].
        append / try_append(self: ComposedLayout, mode: Layout) -> ComposedLayout = appended;
        /// The modes `begin..end`: see [`Layout::take`].
        take / try_take(self: ComposedLayout, begin: usize, end: usize) -> ComposedLayout = taken;
        /// The modes `begin..end` as one mode: see [`Layout::group`].
        group / try_group(self: ComposedLayout, begin: usize, end: usize) -> ComposedLayout = grouped;
        /// Repeated up to the size `shape`: see [`tile_to_shape`](super::tile_to_shape).
        tile_to_shape / try_tile_to_shape(self: ComposedLayout, shape: IntTuple) -> ComposedLayout = tile;
        /// Repeated along the modes in `order`: see
        /// [`tile_to_shape_ordered`](super::tile_to_shape_ordered).
        tile_to_shape_ordered / try_tile_to_shape_ordered(
            self: ComposedLayout, shape: IntTuple, order: IntTuple
        ) -> ComposedLayout = tile_ordered;
        /// The modes under the wildcards of `coord`, with the rest in the offset: see
        /// [`slice`](super::slice).
        slice / try_slice(self: ComposedLayout, coord: IntTuple) -> ComposedLayout = slice;
        /// With elements `count` times as large: see [`upcast`](super::upcast).
        upcast / try_upcast(self: ComposedLayout, count: i64) -> ComposedLayout = upcast;
        /// With elements `count` times as small: see [`downcast`](super::downcast).
        downcast / try_downcast(self: ComposedLayout, count: i64) -> ComposedLayout = downcast;
        /// With elements of another size: see [`recast`](super::recast).
        recast / try_recast(self: ComposedLayout, from_bits: i64, to_bits: i64) -> ComposedLayout = recast;
    }

    /// The same swizzle and offset with another layout.
    const fn over(&self, layout: Result<Layout, Fault>) -> Result<Self, Fault> {
        let result = Self { layout: tri!(layout), ..*self };
        tri!(result.check());
        Ok(result)
    }

    pub(crate) const fn write<const N: usize>(&self, text: &mut Text<N>) {
        self.swizzle.write(text);
        text.str(" o ");
        text.int(self.offset);
        text.str(" o ");
        text.layout(&self.layout);
    }
}

const fn index_of(this: &ComposedLayout, coord: &IntTuple) -> Result<i64, Fault> {
    match tri!(evaluate::index_of(&this.layout, coord)).checked_add(this.offset) {
        // Past the layout's coordinates an index may be any value.
        Some(index) if index < 0 => Err(Fault::Least { what: "index", value: index, least: 0 }),
        Some(index) => Ok(this.swizzle.apply(index)),
        None => Err(Fault::Overflow),
    }
}

const fn mode(this: &ComposedLayout, index: usize) -> Result<ComposedLayout, Fault> {
    this.over(mode_of(&this.layout, index))
}

const fn compose(this: &ComposedLayout, b: &Layout) -> Result<ComposedLayout, Fault> {
    this.over(composed(&this.layout, b))
}

const fn compose_tiler(this: &ComposedLayout, tiler: &Tiler) -> Result<ComposedLayout, Fault> {
    this.over(by_mode(Each::Compose, &this.layout, tiler))
}

const fn divide(this: &ComposedLayout, tiler: &Tiler) -> Result<ComposedLayout, Fault> {
    this.over(by_mode(Each::Divide, &this.layout, tiler))
}

const fn divide_zipped(this: &ComposedLayout, tiler: &Tiler) -> Result<ComposedLayout, Fault> {
    this.over(gathered(Each::Divide, &this.layout, tiler, Form::Zipped))
}

const fn divide_tiled(this: &ComposedLayout, tiler: &Tiler) -> Result<ComposedLayout, Fault> {
    this.over(gathered(Each::Divide, &this.layout, tiler, Form::Tiled))
}

const fn divide_flat(this: &ComposedLayout, tiler: &Tiler) -> Result<ComposedLayout, Fault> {
    this.over(gathered(Each::Divide, &this.layout, tiler, Form::Flat))
}

const fn multiply(this: &ComposedLayout, tiler: &Tiler) -> Result<ComposedLayout, Fault> {
    this.over(by_mode(Each::Multiply, &this.layout, tiler))
}

const fn multiply_zipped(this: &ComposedLayout, tiler: &Tiler) -> Result<ComposedLayout, Fault> {
    this.over(gathered(Each::Multiply, &this.layout, tiler, Form::Zipped))
}

const fn multiply_tiled(this: &ComposedLayout, tiler: &Tiler) -> Result<ComposedLayout, Fault> {
    this.over(gathered(Each::Multiply, &this.layout, tiler, Form::Tiled))
}

const fn multiply_flat(this: &ComposedLayout, tiler: &Tiler) -> Result<ComposedLayout, Fault> {
    this.over(gathered(Each::Multiply, &this.layout, tiler, Form::Flat))
}

const fn blocked(this: &ComposedLayout, tiler: &Layout) -> Result<ComposedLayout, Fault> {
    let mut out = Layout::start();
    tri!(blocked_into(&mut out, &this.layout, tiler));
    this.over(out.finish())
}

const fn raked(this: &ComposedLayout, tiler: &Layout) -> Result<ComposedLayout, Fault> {
    let mut out = Layout::start();
    tri!(raked_into(&mut out, &this.layout, tiler));
    this.over(out.finish())
}

const fn coalesced(this: &ComposedLayout) -> Result<ComposedLayout, Fault> {
    let mut out = Layout::start();
    tri!(coalesce_into(&mut out, &this.layout));
    this.over(out.finish())
}

const fn coalesced_by_profile(this: &ComposedLayout, profile: &IntTuple) -> Result<ComposedLayout, Fault> {
    let mut out = Layout::start();
    tri!(coalesce_by_profile(&mut out, &this.layout, profile));
    this.over(out.finish())
}

const fn filtered_by_profile(this: &ComposedLayout, profile: &IntTuple) -> Result<ComposedLayout, Fault> {
    let mut out = Layout::start();
    tri!(filter_by_profile(&mut out, &this.layout, profile));
    this.over(out.finish())
}

const fn filtered(this: &ComposedLayout) -> Result<ComposedLayout, Fault> {
    let mut out = Layout::start();
    tri!(filter_into(&mut out, &this.layout));
    this.over(out.finish())
}

const fn appended(this: &ComposedLayout, mode: &Layout) -> Result<ComposedLayout, Fault> {
    this.over(append(&this.layout, mode))
}

const fn taken(this: &ComposedLayout, begin: usize, end: usize) -> Result<ComposedLayout, Fault> {
    this.over(take(&this.layout, begin, end))
}

const fn grouped(this: &ComposedLayout, begin: usize, end: usize) -> Result<ComposedLayout, Fault> {
    this.over(group(&this.layout, begin, end))
}

const fn tile(this: &ComposedLayout, shape: &IntTuple) -> Result<ComposedLayout, Fault> {
    tile_ordered(this, shape, &IntTuple::int(0))
}

const fn tile_ordered(
    this: &ComposedLayout,
    shape: &IntTuple,
    order: &IntTuple,
) -> Result<ComposedLayout, Fault> {
    this.over(to_shape_ordered(&this.layout, shape, order))
}

const fn slice(this: &ComposedLayout, coord: &IntTuple) -> Result<ComposedLayout, Fault> {
    let (layout, offset) = tri!(super::slice::both(&this.layout, coord));
    let Some(offset) = this.offset.checked_add(offset) else { return Err(Fault::Overflow) };
    ComposedLayout { offset, ..*this }.over(Ok(layout))
}

const fn upcast(this: &ComposedLayout, count: i64) -> Result<ComposedLayout, Fault> {
    let swizzle = tri!(this.swizzle.upcast(count));
    if this.offset % count != 0 {
        return Err(Fault::NotAMultiple { what: "offset", left: this.offset, right: count });
    }
    ComposedLayout { swizzle, offset: this.offset / count, layout: this.layout }.over(up(&this.layout, count))
}

const fn downcast(this: &ComposedLayout, count: i64) -> Result<ComposedLayout, Fault> {
    let swizzle = tri!(this.swizzle.downcast(count));
    let Some(offset) = this.offset.checked_mul(count) else { return Err(Fault::Overflow) };
    ComposedLayout { swizzle, offset, layout: this.layout }.over(down(&this.layout, count))
}

const fn recast(this: &ComposedLayout, from_bits: i64, to_bits: i64) -> Result<ComposedLayout, Fault> {
    let (count, parts) = tri!(ratio(from_bits, to_bits));
    downcast(&tri!(upcast(this, count)), parts)
}

impl fmt::Display for ComposedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text::<2100>::new();
        self.write(&mut text);
        f.pad(text.as_str())
    }
}

impl fmt::Debug for ComposedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
