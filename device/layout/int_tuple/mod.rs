//! Hierarchical tuples of integers: shapes, strides and coordinates.

pub(crate) mod arithmetic;
mod builder;
mod compare;
pub(crate) mod coordinate;
pub(crate) mod edit;
mod transform;

pub(crate) use super::basis::{ANY, NO_BASIS};
pub use arithmetic::*;
pub(crate) use builder::TupleBuilder;
pub use compare::*;
pub use coordinate::*;

use super::basis::{Basis, MAX_BASIS, element};
use super::error::LayoutError;
use super::fault::{Fault, tri};
use super::layout::times;
use super::profile::{At, MAX_LEAVES, Profile, ROOT};
use super::text::Text;

/// An integer or a tuple of integers and tuples: a shape, a stride or a coordinate.
///
/// It is a plain value of fixed size: at most [`MAX_LEAVES`] integers, nested as deep as
/// [`MAX_NODES`] allows. Its notation is CuTe's: `5`, `(4,(2,2))`, `()`.
///
/// A leaf is an integer, an integer times a basis vector (`2@1`, or within element 1 `2@0@1`, see
/// [`Basis`] and [`identity_layout`]), or the wildcard `_`, which means "all of this mode" in
/// coordinates, profiles and tilers.
///
/// [`MAX_NODES`]: super::MAX_NODES
/// [`identity_layout`]: super::identity_layout
#[derive(Clone, Copy)]
pub struct IntTuple {
    pub(crate) profile: Profile,
    pub(crate) value: [i64; MAX_LEAVES],
    pub(crate) basis: [u32; MAX_LEAVES],
}

/// A leaf of an [`IntTuple`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leaf {
    /// An integer.
    Int(i64),
    /// `value` times the unit vector along a place of a coordinate, written `value@basis`.
    Scaled {
        /// The factor.
        value: i64,
        /// The place.
        basis: Basis,
    },
    /// The wildcard `_`.
    Any,
}

impl IntTuple {
    /// One integer.
    pub const fn int(value: i64) -> Self {
        Self::of_leaf(value, NO_BASIS)
    }

    /// The wildcard `_`.
    pub const fn any() -> Self {
        Self::of_leaf(0, ANY)
    }

    /// `value` times the unit vector along coordinate `basis`. A value of 0 is the integer 0.
    ///
    /// # Panics
    /// If [`try_scaled`](Self::try_scaled) returns an error.
    #[track_caller]
    pub const fn scaled(value: i64, basis: usize) -> Self {
        match Self::try_scaled(value, basis) {
            Ok(tuple) => tuple,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// [`scaled`](Self::scaled) as a `Result`: an error if `basis` is not below [`MAX_BASIS`].
    pub const fn try_scaled(value: i64, basis: usize) -> Result<Self, LayoutError> {
        if basis < MAX_BASIS {
            return Ok(Self::of_leaf(value, if value == 0 { NO_BASIS } else { element(basis) }));
        }
        let mut text = Text::of_operands();
        text.str("scaled(");
        text.int(value);
        text.str(", ");
        text.size(basis);
        text.str(")");
        Err(LayoutError::after(text, Fault::BasisRange { basis: basis as i64 }))
    }

    /// `value` times the unit vector along `basis`, which may be a place within a place. A value of
    /// 0 is the integer 0.
    ///
    /// ```
    /// use moye_device::layout::{Basis, IntTuple};
    /// assert_eq!(IntTuple::along(2, Basis::new(&[1, 0])).to_string(), "2@0@1");
    /// ```
    pub const fn along(value: i64, basis: Basis) -> Self {
        Self::of_leaf(value, if value == 0 { NO_BASIS } else { basis.code() })
    }

    const fn of_leaf(value: i64, basis: u32) -> Self {
        let mut builder = TupleBuilder::new();
        match builder.leaf(value, basis) {
            Ok(()) => builder.tuple,
            Err(_) => unreachable!(),
        }
    }

    /// The tuple of `elements`.
    ///
    /// # Panics
    /// If [`try_tuple`](Self::try_tuple) returns an error.
    #[track_caller]
    pub const fn tuple(elements: &[Self]) -> Self {
        match Self::try_tuple(elements) {
            Ok(tuple) => tuple,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// The tuple of `elements`, or an error if it has more than [`MAX_LEAVES`] integers.
    pub const fn try_tuple(elements: &[Self]) -> Result<Self, LayoutError> {
        let mut builder = TupleBuilder::new();
        match builder.tuple_of(elements) {
            Ok(()) => Ok(builder.tuple),
            Err(fault) => {
                let mut text = Text::of_operands();
                text.str("tuple([");
                text.tuples(elements);
                text.str("])");
                Err(LayoutError::after(text, fault))
            }
        }
    }

    /// The flat tuple of `values`.
    ///
    /// # Panics
    /// If there are more than [`MAX_LEAVES`] values.
    #[track_caller]
    pub const fn flat(values: &[i64]) -> Self {
        match Self::try_flat(values) {
            Ok(tuple) => tuple,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// The flat tuple of `values`, or an error if there are more than [`MAX_LEAVES`].
    pub const fn try_flat(values: &[i64]) -> Result<Self, LayoutError> {
        let mut builder = TupleBuilder::new();
        match builder.flat(values) {
            Ok(()) => Ok(builder.tuple),
            Err(fault) => {
                let mut text = Text::of_operands();
                text.str("tuple([");
                text.ints(values);
                text.str("])");
                Err(LayoutError::after(text, fault))
            }
        }
    }

    /// Whether it is a leaf, not a tuple.
    pub const fn is_int(&self) -> bool {
        self.profile.is_leaf(ROOT)
    }

    /// The number of its elements; 1 for an integer.
    pub const fn rank(&self) -> usize {
        self.profile.rank(ROOT)
    }

    /// The depth of its nesting: 0 for an integer, 1 for a flat tuple.
    pub const fn depth(&self) -> usize {
        self.profile.depth(ROOT)
    }

    /// The number of its leaves.
    pub const fn leaves(&self) -> usize {
        self.profile.leaves as usize
    }

    /// Leaf `index`, from left to right.
    ///
    /// # Panics
    /// If [`try_leaf`](Self::try_leaf) returns an error.
    #[track_caller]
    pub const fn leaf(&self, index: usize) -> Leaf {
        match self.try_leaf(index) {
            Ok(leaf) => leaf,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// Leaf `index`, or an error if it does not exist.
    pub const fn try_leaf(&self, index: usize) -> Result<Leaf, LayoutError> {
        if index >= self.leaves() {
            return Err(LayoutError::of_tuple("leaf", self, Fault::NoLeaf { index, leaves: self.leaves() }));
        }
        let value = self.value[index];
        Ok(match self.basis[index] {
            NO_BASIS => Leaf::Int(value),
            ANY => Leaf::Any,
            basis => Leaf::Scaled { value, basis: Basis::of(basis) },
        })
    }

    /// Its integer value.
    ///
    /// # Panics
    /// If [`try_value`](Self::try_value) returns an error.
    #[track_caller]
    pub const fn value(&self) -> i64 {
        match self.try_value() {
            Ok(value) => value,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// Its integer value, or an error if it is a tuple, a wildcard or a multiple of a basis vector.
    pub const fn try_value(&self) -> Result<i64, LayoutError> {
        match self.as_int() {
            Some(value) => Ok(value),
            None => Err(LayoutError::of_tuple("value", self, Fault::NotAnInt)),
        }
    }

    /// Its integer value, if it is an integer.
    pub const fn as_int(&self) -> Option<i64> {
        if self.is_int() && self.basis[0] == NO_BASIS { Some(self.value[0]) } else { None }
    }

    /// Element `index`; element 0 of an integer is the integer.
    ///
    /// # Panics
    /// If [`try_mode`](Self::try_mode) returns an error.
    #[track_caller]
    pub const fn mode(&self, index: usize) -> Self {
        match self.try_mode(index) {
            Ok(mode) => mode,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// Element `index`, or an error if `index` is not below the rank.
    pub const fn try_mode(&self, index: usize) -> Result<Self, LayoutError> {
        if index >= self.rank() {
            let mut text = Text::of_operands();
            text.str("mode(");
            text.tuple(self);
            text.str(", ");
            text.size(index);
            text.str(")");
            return Err(LayoutError::after(text, Fault::NoMode { index, rank: self.rank() }));
        }
        Ok(self.sub(self.profile.mode(ROOT, index)))
    }

    /// The tuple at `at`.
    pub(crate) const fn sub(&self, at: At) -> Self {
        let mut builder = TupleBuilder::new();
        match builder.copy(self, at) {
            Ok(()) => builder.tuple,
            Err(_) => unreachable!(),
        }
    }

    /// Its leaves as a flat tuple; an integer stays an integer.
    pub const fn flatten(&self) -> Self {
        if self.is_int() {
            return *self;
        }
        let mut builder = TupleBuilder::new();
        match builder.flattened(self) {
            Ok(()) => builder.tuple,
            Err(_) => unreachable!(),
        }
    }

    /// Whether two tuples are equal, leaf by leaf: `==` for constant evaluation.
    pub const fn equals(&self, other: &Self) -> bool {
        if !self.profile.same(&other.profile) {
            return false;
        }
        let mut i = 0;
        while i < self.leaves() {
            if self.value[i] != other.value[i] || self.basis[i] != other.basis[i] {
                return false;
            }
            i += 1;
        }
        true
    }

    /// The product of its leaves; 1 for the empty tuple.
    ///
    /// # Panics
    /// If [`try_size`](Self::try_size) returns an error.
    #[track_caller]
    pub const fn size(&self) -> i64 {
        match self.try_size() {
            Ok(size) => size,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// The product of its leaves, or an error if it does not fit in 64 bits or a leaf is not an
    /// integer.
    pub const fn try_size(&self) -> Result<i64, LayoutError> {
        match self.product_at(ROOT) {
            Ok(size) => Ok(size),
            Err(fault) => Err(LayoutError::of_tuple("size", self, fault)),
        }
    }

    /// The product of the leaves under `at`.
    pub(crate) const fn product_at(&self, at: At) -> Result<i64, Fault> {
        let end = self.profile.next(at);
        let mut product = 1i64;
        let mut leaf = at.leaf;
        while leaf < end.leaf {
            let value = tri!(self.int_at(leaf));
            product = tri!(size_times(product, value));
            leaf += 1;
        }
        Ok(product)
    }

    /// The integer at `leaf`, which must be a plain integer.
    pub(crate) const fn int_at(&self, leaf: usize) -> Result<i64, Fault> {
        if self.basis[leaf] == NO_BASIS { Ok(self.value[leaf]) } else { Err(Fault::NotAnInt) }
    }
}

/// A size multiplied by a further extent.
#[inline(always)]
pub(crate) const fn size_times(size: i64, extent: i64) -> Result<i64, Fault> {
    match times(size, extent) {
        Some(size) => Ok(size),
        None => Err(Fault::TooLarge { what: "the size", left: size, by: "the extent", right: extent }),
    }
}
