//! Layouts: functions from coordinates to indices.

use super::basis::{Basis, WHOLE, inner, outermost};
use super::error::LayoutError;
use super::evaluate::shape_of_values;
use super::fault::{Fault, tri};
use super::int_tuple::{ANY, IntTuple, Leaf, NO_BASIS, TupleBuilder, size_times};
use super::operation::operation;
use super::profile::{At, MAX_LEAVES, Profile, ROOT};
use super::text::Text;
use super::tiler::Tiler;

/// A layout: a shape and a stride with the same nesting. It maps a coordinate within its shape to
/// an index, the sum of each coordinate times its stride.
///
/// It is a plain value: in a `const` the compiler evaluates every operation on it. It is built by
/// [`layout!`], by [`Layout::new`], or from text by `parse`.
///
/// Invariants of every layout: extents are at least 1; its size and every index within its shape
/// fit in 64 bits. A layout of rank 0, `():()`, has size 1 and maps 0 to 0.
///
/// ```
/// use moye_device::layout::{Layout, layout};
///
/// const TILE: Layout = layout!((4, (2, 2)):(2, (1, 8)));
/// assert_eq!(TILE.size(), 16);
/// assert_eq!(TILE.cosize(), 16);
/// assert_eq!(TILE.at(5), 2 + 1);
/// assert_eq!(TILE.at_coord([3, 1]), 6 + 1);
/// assert_eq!(TILE.to_string(), "(4,(2,2)):(2,(1,8))");
/// assert_eq!("(4,(2,2)):(2,(1,8))".parse(), Ok(TILE));
/// ```
///
/// [`layout!`]: macro@super::layout
#[derive(Clone, Copy)]
pub struct Layout {
    pub(crate) profile: Profile,
    pub(crate) shape: [i64; MAX_LEAVES],
    pub(crate) stride: [i64; MAX_LEAVES],
    pub(crate) basis: [u32; MAX_LEAVES],
}

operation! {
    /// The layout of `shape` and `stride`, which must nest alike.
    make_layout / try_make_layout(shape: IntTuple, stride: IntTuple) -> Layout = of_shape_and_stride;
    /// Mode `index` of a layout, as a layout; mode 0 of a layout that is a single integer mode is
    /// the layout.
    mode / try_mode(layout: Layout, index: usize) -> Layout = mode_of;
}

/// See [`make_layout`].
pub(crate) const fn of_shape_and_stride(shape: &IntTuple, stride: &IntTuple) -> Result<Layout, Fault> {
    if !shape.profile.same(&stride.profile) {
        return Err(Fault::Incongruent { what: "shape and stride" });
    }
    let leaves = shape.leaves();
    let mut i = 0;
    while i < leaves {
        if shape.basis[i] != NO_BASIS || stride.basis[i] == ANY {
            return Err(Fault::NotAnInt);
        }
        i += 1;
    }
    let mut layout =
        Layout { profile: shape.profile, shape: shape.value, stride: stride.value, basis: stride.basis };
    layout.tidy();
    checked(layout)
}

/// Products of two values below this, and sums of a few such products, fit in 64 bits.
pub(crate) const SMALL: i64 = 1 << 30;

/// [`i64::checked_mul`] for mostly small values; the original takes constant evaluation several
/// calls.
#[inline(always)]
pub(crate) const fn times(a: i64, b: i64) -> Option<i64> {
    if -SMALL < a && a < SMALL && -SMALL < b && b < SMALL { Some(a * b) } else { a.checked_mul(b) }
}

/// The layout, if the invariants hold.
#[inline(always)]
pub(crate) const fn checked(layout: Layout) -> Result<Layout, Fault> {
    tri!(layout.check());
    Ok(layout)
}

pub(crate) const fn mode_of(layout: &Layout, index: usize) -> Result<Layout, Fault> {
    if index >= layout.rank() {
        return Err(Fault::NoMode { index, rank: layout.rank() });
    }
    Ok(layout.sub(layout.profile.mode(ROOT, index)))
}

impl Layout {
    /// The layout of `shape` and `stride`, which must nest alike.
    ///
    /// # Panics
    /// If [`try_new`](Self::try_new) returns an error.
    #[track_caller]
    pub const fn new(shape: IntTuple, stride: IntTuple) -> Self {
        make_layout(shape, stride)
    }

    /// The layout of `shape` and `stride`.
    ///
    /// # Errors
    /// If they nest differently, an extent is below 1, or a size or an index overflows.
    pub const fn try_new(shape: IntTuple, stride: IntTuple) -> Result<Self, LayoutError> {
        try_make_layout(shape, stride)
    }

    /// Whether two layouts have the same shape and stride: `==` for constant evaluation.
    pub const fn equals(&self, other: &Self) -> bool {
        if !self.profile.same(&other.profile) {
            return false;
        }
        let mut i = 0;
        while i < self.leaves() {
            if self.shape[i] != other.shape[i]
                || self.stride[i] != other.stride[i]
                || self.basis[i] != other.basis[i]
            {
                return false;
            }
            i += 1;
        }
        true
    }

    /// The shape.
    pub const fn shape(&self) -> IntTuple {
        IntTuple { profile: self.profile, value: self.shape, basis: [NO_BASIS; MAX_LEAVES] }
    }

    /// The stride.
    pub const fn stride(&self) -> IntTuple {
        IntTuple { profile: self.profile, value: self.stride, basis: self.basis }
    }

    pub(crate) const fn stride_leaf(&self, leaf: usize) -> Leaf {
        let value = self.stride[leaf];
        match self.basis[leaf] {
            NO_BASIS => Leaf::Int(value),
            ANY => Leaf::Any,
            basis => Leaf::Scaled { value, basis: Basis::of(basis) },
        }
    }

    /// The number of modes; 1 for a single integer mode.
    pub const fn rank(&self) -> usize {
        self.profile.rank(ROOT)
    }

    /// The depth of nested modes: 0 for `8:1`, 1 for `(8,4):(1,8)`.
    pub const fn depth(&self) -> usize {
        self.profile.depth(ROOT)
    }

    /// The number of integers in the shape.
    pub const fn leaves(&self) -> usize {
        self.profile.leaves as usize
    }

    /// The number of coordinates: the product of the shape.
    pub const fn size(&self) -> i64 {
        self.size_at(ROOT)
    }

    /// The extent of mode `index`: its size.
    ///
    /// # Panics
    /// If [`try_extent`](Self::try_extent) returns an error.
    #[track_caller]
    pub const fn extent(&self, index: usize) -> i64 {
        if index < self.rank() {
            return self.size_at(self.profile.mode(ROOT, index));
        }
        match self.try_extent(index) {
            Ok(extent) => extent,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// The extent of mode `index`: its size, or an error if the mode does not exist.
    #[inline]
    pub const fn try_extent(&self, index: usize) -> Result<i64, LayoutError> {
        if index >= self.rank() {
            return Err(self.no_mode("extent", index));
        }
        Ok(self.size_at(self.profile.mode(ROOT, index)))
    }

    /// The error of an operation on a mode that does not exist.
    #[cold]
    const fn no_mode(&self, operation: &str, index: usize) -> LayoutError {
        let mut text = Text::of_operands();
        text.str(operation);
        text.str("(");
        text.layout(self);
        text.str(", ");
        text.size(index);
        text.str(")");
        LayoutError::after(text, Fault::NoMode { index, rank: self.rank() })
    }

    /// The extents of the modes as a flat tuple; an integer for an integer mode.
    pub(crate) const fn extents(&self) -> Result<IntTuple, Fault> {
        let mut builder = TupleBuilder::new();
        let rank = self.rank();
        if !self.profile.is_leaf(ROOT) {
            tri!(builder.open(rank));
        }
        let mut mode = self.profile.first(ROOT);
        let mut i = 0;
        while i < rank {
            tri!(builder.int(self.size_at(mode)));
            mode = self.profile.next(mode);
            i += 1;
        }
        Ok(builder.tuple)
    }

    pub(crate) const fn size_at(&self, at: At) -> i64 {
        let end = self.profile.next(at).leaf;
        let mut size = 1;
        let mut leaf = at.leaf;
        while leaf < end {
            size *= self.shape[leaf];
            leaf += 1;
        }
        size
    }

    /// One more than the largest index (by the strides' magnitudes, as in CuTe, so that negative
    /// strides count).
    ///
    /// With strides along basis vectors it is the size of the [`coshape`](super::coshape()), as in
    /// CuTe.
    ///
    /// ```
    /// use moye_device::layout::{identity_layout, layout, tuple};
    /// assert_eq!(layout!((4, 3):(1, 10)).cosize(), 24);
    /// assert_eq!(identity_layout(tuple!((6, 5))).cosize(), 30);
    /// ```
    ///
    /// # Panics
    /// If [`try_cosize`](Self::try_cosize) returns an error, which is possible only with strides
    /// along basis vectors.
    #[track_caller]
    pub const fn cosize(&self) -> i64 {
        if self.is_coordinate() {
            return match self.try_cosize() {
                Ok(cosize) => cosize,
                Err(error) => panic!("{}", error.text()),
            };
        }
        self.cosize_at(ROOT)
    }

    /// [`cosize`](Self::cosize) as a `Result`.
    ///
    /// # Errors
    /// If strides are along basis vectors and there is no [`coshape`](super::coshape()), or its
    /// size does not fit in 64 bits.
    pub const fn try_cosize(&self) -> Result<i64, LayoutError> {
        if !self.is_coordinate() {
            return Ok(self.cosize_at(ROOT));
        }
        let fault = match shape_of_values(self) {
            Ok(shape) => match shape.product_at(ROOT) {
                Ok(size) => return Ok(size),
                Err(fault) => fault,
            },
            Err(fault) => fault,
        };
        let mut text = Text::of_operands();
        text.str("cosize(");
        text.layout(self);
        text.str(")");
        Err(LayoutError::after(text, fault))
    }

    /// [`cosize`](Self::cosize) of the mode at `at`, whose strides are integers.
    pub(crate) const fn cosize_at(&self, at: At) -> i64 {
        let end = self.profile.next(at).leaf;
        let mut last = 0;
        let mut leaf = at.leaf;
        while leaf < end {
            // The stride of an extent of 1 is never used, and may have any value.
            if self.shape[leaf] > 1 {
                last += (self.shape[leaf] - 1) * self.stride[leaf].abs();
            }
            leaf += 1;
        }
        last + 1
    }

    /// The stride of a leaf, an integer: the index of its second element.
    ///
    /// # Panics
    /// Same as [`at`](Self::at), if it is along a basis vector.
    #[track_caller]
    pub(crate) const fn step(&self, leaf: usize) -> i64 {
        if self.basis[leaf] != NO_BASIS {
            return self.flatten().mode(leaf).at(1);
        }
        self.stride[leaf]
    }

    /// Mode `index` as a layout.
    ///
    /// # Panics
    /// If the mode does not exist.
    #[track_caller]
    pub const fn mode(&self, index: usize) -> Self {
        // Avoids the copies of a `Result`, which has space for an error's message.
        if index < self.rank() {
            return self.sub(self.profile.mode(ROOT, index));
        }
        mode(*self, index)
    }

    /// The mode at `at` as a layout.
    pub(crate) const fn sub(&self, at: At) -> Self {
        let mut builder = Layout::start();
        match builder.push_copy(self, at) {
            Ok(()) => builder,
            Err(_) => unreachable!(),
        }
    }

    /// The same modes without nesting. A single integer mode stays unchanged.
    pub const fn flatten(&self) -> Self {
        if self.profile.is_leaf(ROOT) {
            return *self;
        }
        let mut builder = Layout::start();
        match self.flatten_into(&mut builder) {
            Ok(()) => builder,
            Err(_) => unreachable!(),
        }
    }

    const fn flatten_into(&self, builder: &mut Layout) -> Result<(), Fault> {
        tri!(builder.push_tuple(self.leaves()));
        let mut i = 0;
        while i < self.leaves() {
            tri!(builder.push_leaf(self.shape[i], self.stride[i], self.basis[i]));
            i += 1;
        }
        Ok(())
    }

    /// Whether any stride is along a basis vector, so that the layout maps to coordinates instead
    /// of indices.
    #[inline]
    pub const fn is_coordinate(&self) -> bool {
        self.is_coordinate_at(ROOT)
    }

    #[inline]
    pub(crate) const fn is_coordinate_at(&self, at: At) -> bool {
        let end = self.profile.next(at).leaf;
        let mut leaf = at.leaf;
        while leaf < end {
            if self.basis[leaf] != NO_BASIS {
                return true;
            }
            leaf += 1;
        }
        false
    }

    /// The layout of element `basis` of the coordinates: the same shape, with the strides along
    /// that basis vector as integers and 0 for all others. For an element that is a tuple it is
    /// also a layout of coordinates.
    ///
    /// ```
    /// use moye_device::layout::{identity_layout, layout, tuple};
    /// let coordinates = identity_layout(tuple!((4, 3)));
    /// assert_eq!(coordinates.to_string(), "(4,3):(1@0,1@1)");
    /// assert_eq!(coordinates.along(1), layout!((4, 3):(0, 1)));
    /// let nested = identity_layout(tuple!((4, (2, 3))));
    /// assert_eq!(nested.along(1), layout!((4, (2, 3)):(0, (1@0, 1@1))));
    /// assert_eq!(nested.along(1).along(0), layout!((4, (2, 3)):(0, (1, 0))));
    /// ```
    pub const fn along(&self, basis: usize) -> Self {
        let mut layout = *self;
        let mut i = 0;
        while i < self.leaves() {
            let place = self.basis[i];
            layout.basis[i] = NO_BASIS;
            if place == NO_BASIS || outermost(place) != basis {
                layout.stride[i] = 0;
            } else if inner(place) != WHOLE {
                layout.basis[i] = inner(place);
            }
            i += 1;
        }
        layout
    }

    /// The mode under `at` through which a stride along `basis` steps.
    pub(crate) const fn mode_along(&self, at: At, basis: u32) -> Result<At, Fault> {
        let mut mode = at;
        let mut rest = basis;
        while rest != WHOLE {
            let rank = self.profile.rank(mode);
            if outermost(rest) >= rank {
                return Err(Fault::NoBasisMode { basis, rank });
            }
            mode = self.profile.mode(mode, outermost(rest));
            rest = inner(rest);
        }
        Ok(mode)
    }

    /// This layout as a tiler: see [`Tiler`].
    pub const fn tiler(&self) -> Tiler {
        Tiler::layout(*self)
    }

    /// Checks the invariants: extents are positive, and no offset overflows.
    pub(crate) const fn check(&self) -> Result<(), Fault> {
        let mut size = 1i64;
        let mut last = 0i64;
        let leaves = self.leaves();
        let mut i = 0;
        while i < leaves {
            let extent = self.shape[i];
            let stride = self.stride[i];
            i += 1;
            // Small values do not overflow and need no further check. This is the common path:
            // every operation ends with this function.
            if 0 < extent
                && extent < SMALL
                && -SMALL < stride
                && stride < SMALL
                && size < SMALL
                && last < SMALL
            {
                size *= extent;
                last += (extent - 1) * if stride < 0 { -stride } else { stride };
                continue;
            }
            if extent < 1 {
                return Err(Fault::Extent { extent });
            }
            size = tri!(size_times(size, extent));
            let reach = match (extent - 1).checked_mul(stride) {
                Some(reach) => reach,
                None => {
                    return Err(Fault::TooLarge {
                        what: "the last coordinate",
                        left: extent - 1,
                        by: "the stride",
                        right: stride,
                    });
                }
            };
            // By magnitude, so that no partial sum of an evaluation overflows, whatever the signs.
            last = match reach.checked_abs() {
                Some(reach) => match last.checked_add(reach) {
                    Some(last) if last < i64::MAX => last,
                    _ => return Err(Fault::Overflow),
                },
                None => return Err(Fault::Overflow),
            };
        }
        Ok(())
    }

    /// Removes the basis vector of strides of 0.
    const fn tidy(&mut self) {
        let leaves = self.leaves();
        let mut i = 0;
        while i < leaves {
            if self.stride[i] == 0 {
                self.basis[i] = NO_BASIS;
            }
            i += 1;
        }
    }

    /// The expansion of the macro `layout!`: the nodes of the shape (`u8::MAX` for an integer,
    /// otherwise the number of elements) and the strides, or the compact strides.
    #[doc(hidden)]
    #[track_caller]
    pub const fn from_macro(nodes: &[u8], shape: &[i64], stride: Option<&[(i64, u32)]>) -> Self {
        let shape = tuple_of_nodes(nodes, shape, &[]);
        match stride {
            Some(stride) => {
                let mut values = [0; MAX_LEAVES];
                let mut basis = [NO_BASIS; MAX_LEAVES];
                let mut i = 0;
                while i < stride.len() && i < MAX_LEAVES {
                    values[i] = stride[i].0;
                    basis[i] = stride[i].1;
                    i += 1;
                }
                let (values, _) = values.split_at(i);
                let (basis, _) = basis.split_at(i);
                make_layout(shape, tuple_of_nodes(nodes, values, basis))
            }
            None => super::make::make_col_major(shape),
        }
    }
}

impl IntTuple {
    /// The expansion of the macro `tuple!`: see [`Layout::from_macro`].
    #[doc(hidden)]
    #[track_caller]
    pub const fn from_macro(nodes: &[u8], values: &[i64], basis: &[u32]) -> Self {
        tuple_of_nodes(nodes, values, basis)
    }
}

/// A tuple from the nodes that the macros write.
#[track_caller]
pub(crate) const fn tuple_of_nodes(nodes: &[u8], values: &[i64], basis: &[u32]) -> IntTuple {
    let mut builder = TupleBuilder::new();
    match fill(&mut builder, nodes, values, basis) {
        Ok(()) => builder.tuple,
        Err(fault) => {
            let mut text = Text::of_operands();
            text.str("tuple([");
            text.ints(values);
            text.str("])");
            panic!("{}", LayoutError::after(text, fault).text())
        }
    }
}

const fn fill(builder: &mut TupleBuilder, nodes: &[u8], values: &[i64], basis: &[u32]) -> Result<(), Fault> {
    let mut node = 0;
    let mut leaf = 0;
    while node < nodes.len() {
        if nodes[node] == u8::MAX {
            let basis = if leaf < basis.len() { basis[leaf] } else { NO_BASIS };
            tri!(builder.leaf(values[leaf], basis));
            leaf += 1;
        } else {
            tri!(builder.open(nodes[node] as usize));
        }
        node += 1;
    }
    Ok(())
}
