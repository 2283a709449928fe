//! Applies a function to each leaf of a tuple, or folds all of them.
//!
//! Stable Rust calls no closure during constant evaluation. The macros
//! [`transform!`](crate::layout::transform) and [`fold!`](crate::layout::fold) expand to the loop
//! and so work in a `const`; the methods of the same names take any closure at run time.

use super::super::error::LayoutError;
use super::super::fault::Fault;
use super::super::operation::refused;
use super::super::text::Text;
use super::{ANY, IntTuple, Leaf, NO_BASIS};

impl IntTuple {
    /// The tuple with `f` applied to each integer, at run time. Wildcards stay, and so does the
    /// basis vector of an integer, except that 0 times a basis vector is 0. In a `const`:
    /// [`transform!`](crate::layout::transform).
    ///
    /// ```
    /// use moye_device::layout::tuple;
    /// assert_eq!(tuple!((4, (2, 3@1))).transform(|value| 2 * value), tuple!((8, (4, 6@1))));
    /// ```
    pub fn transform(&self, mut f: impl FnMut(i64) -> i64) -> Self {
        let mut result = *self;
        for leaf in 0..self.leaves() {
            if let Some(value) = self.value_at(leaf) {
                result.put(leaf, f(value));
            }
        }
        result
    }

    /// The tuple with `f` applied to each integer and its counterpart in `other`, at run time.
    ///
    /// ```
    /// use moye_device::layout::tuple;
    /// let product = tuple!((4, (2, 3))).try_transform_with(&tuple!((1, (10, 5))), |a, b| a * b);
    /// assert_eq!(product, Ok(tuple!((4, (20, 15)))));
    /// ```
    ///
    /// # Errors
    /// If the tuples nest differently, or one has a wildcard or a multiple of a basis vector.
    pub fn try_transform_with(
        &self,
        other: &Self,
        mut f: impl FnMut(i64, i64) -> i64,
    ) -> Result<Self, LayoutError> {
        let mut result = self.try_paired(other)?;
        for leaf in 0..self.leaves() {
            result.put(leaf, f(self.value[leaf], other.value[leaf]));
        }
        Ok(result)
    }

    /// Folds all leaves from left to right by `f`, at run time. In a `const`:
    /// [`fold!`](crate::layout::fold).
    ///
    /// ```
    /// use moye_device::layout::{Leaf, tuple};
    /// let count = tuple!((4, (2, _))).fold(0, |count, leaf| count + usize::from(leaf != Leaf::Any));
    /// assert_eq!(count, 2);
    /// ```
    pub fn fold<A>(&self, init: A, mut f: impl FnMut(A, Leaf) -> A) -> A {
        (0..self.leaves()).fold(init, |sum, leaf| f(sum, self.leaf(leaf)))
    }

    /// The tuple with the integer `value` at leaf `index`, along the leaf's basis vector.
    ///
    /// # Panics
    /// If [`try_with_leaf`](Self::try_with_leaf) returns an error.
    #[track_caller]
    pub const fn with_leaf(self, index: usize, value: i64) -> Self {
        match self.try_with_leaf(index, value) {
            Ok(tuple) => tuple,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// [`with_leaf`](Self::with_leaf) as a `Result`.
    ///
    /// # Errors
    /// If the leaf does not exist, or is a wildcard.
    pub const fn try_with_leaf(mut self, index: usize, value: i64) -> Result<Self, LayoutError> {
        let fault = if index >= self.leaves() {
            Fault::NoLeaf { index, leaves: self.leaves() }
        } else if self.basis[index] == ANY {
            Fault::NotAnInt
        } else {
            self.put(index, value);
            return Ok(self);
        };
        let mut text = Text::of_operands();
        text.str("with_leaf(");
        text.tuple(&self);
        text.str(", ");
        text.size(index);
        text.str(", ");
        text.int(value);
        text.str(")");
        Err(LayoutError::after(text, fault))
    }

    /// The integer at a leaf, without its basis vector; `None` for a wildcard.
    #[doc(hidden)]
    pub const fn value_at(&self, leaf: usize) -> Option<i64> {
        if self.basis[leaf] == ANY { None } else { Some(self.value[leaf]) }
    }

    /// The tuple, if it nests like `other` and both have only integers.
    #[doc(hidden)]
    pub const fn try_paired(&self, other: &Self) -> Result<Self, LayoutError> {
        let mut fault = None;
        if !self.profile.same(&other.profile) {
            fault = Some(Fault::Incongruent { what: "the two tuples" });
        } else {
            let mut leaf = 0;
            while leaf < self.leaves() {
                if self.basis[leaf] != NO_BASIS || other.basis[leaf] != NO_BASIS {
                    fault = Some(Fault::NotAnInt);
                }
                leaf += 1;
            }
        }
        let Some(fault) = fault else { return Ok(*self) };
        refused!(transform(a: IntTuple, b: IntTuple), (&a, &b));
        Err(refused(self, other, fault))
    }

    const fn put(&mut self, leaf: usize, value: i64) {
        self.value[leaf] = value;
        if value == 0 {
            self.basis[leaf] = NO_BASIS;
        }
    }
}

/// The tuple with an expression applied to each of its integers, also in a `const`: CuTe's
/// `transform`. With two tuples, which must nest alike and hold only integers, to each pair.
///
/// Wildcards stay, and so does the basis vector of an integer. At run time use
/// [`IntTuple::transform`] and, as a `Result`, [`IntTuple::try_transform_with`].
///
/// ```
/// use moye_device::layout::{IntTuple, transform, tuple};
/// const SHAPE: IntTuple = tuple!((4, (2, 3)));
/// const DOUBLED: IntTuple = transform!(SHAPE, |extent| 2 * extent);
/// const LARGER: IntTuple = transform!(SHAPE, DOUBLED, |a, b| if a > b { a } else { b });
/// assert_eq!((DOUBLED, LARGER), (tuple!((8, (4, 6))), DOUBLED));
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __layout_transform {
    ($tuple:expr, |$value:ident| $f:expr $(,)?) => {{
        let mut tuple: $crate::layout::IntTuple = $tuple;
        let mut leaf = 0;
        while leaf < tuple.leaves() {
            if let Some($value) = tuple.value_at(leaf) {
                tuple = tuple.with_leaf(leaf, $f);
            }
            leaf += 1;
        }
        tuple
    }};
    ($a:expr, $b:expr, |$left:ident, $right:ident| $f:expr $(,)?) => {{
        let a: $crate::layout::IntTuple = $a;
        let b: $crate::layout::IntTuple = $b;
        let mut tuple = match a.try_paired(&b) {
            Ok(tuple) => tuple,
            Err(error) => panic!("{}", error.text()),
        };
        let mut leaf = 0;
        while leaf < tuple.leaves() {
            if let (Some($left), Some($right)) = (a.value_at(leaf), b.value_at(leaf)) {
                tuple = tuple.with_leaf(leaf, $f);
            }
            leaf += 1;
        }
        tuple
    }};
}

/// Folds all leaves of a tuple from left to right by an expression, also in a `const`: CuTe's
/// `fold`. At run time use [`IntTuple::fold`].
///
/// ```
/// use moye_device::layout::{Leaf, fold, tuple};
/// const LARGEST: i64 = fold!(tuple!((4, (7, 3))), 0, |largest, leaf| match leaf {
///     Leaf::Int(value) if value > largest => value,
///     _ => largest,
/// });
/// assert_eq!(LARGEST, 7);
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __layout_fold {
    ($tuple:expr, $init:expr, |$sum:ident, $leaf:ident| $f:expr $(,)?) => {{
        let tuple: $crate::layout::IntTuple = $tuple;
        let mut $sum = $init;
        let mut index = 0;
        while index < tuple.leaves() {
            let $leaf: $crate::layout::Leaf = tuple.leaf(index);
            $sum = $f;
            index += 1;
        }
        $sum
    }};
}
