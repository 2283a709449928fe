//! Relations between tuples.

use super::super::profile::{At, ROOT};
use super::{ANY, IntTuple, NO_BASIS};

/// Whether two tuples nest alike.
pub const fn congruent(a: IntTuple, b: IntTuple) -> bool {
    a.profile.same(&b.profile)
}

/// Whether `b` nests at least as deeply as `a`: where `a` has a tuple, `b` has a tuple of the same
/// rank.
///
/// ```
/// use moye_device::layout::{tuple, weakly_congruent};
/// assert!(weakly_congruent(tuple!((2, 3)), tuple!((2, (3, 4)))));
/// assert!(!weakly_congruent(tuple!((2, (3, 4))), tuple!((2, 3))));
/// ```
pub const fn weakly_congruent(a: IntTuple, b: IntTuple) -> bool {
    refines(&a, ROOT, &b, ROOT, Sizes::Any)
}

/// Whether every coordinate of the shape `a` is a coordinate of the shape `b`: `b` splits integers
/// of `a` into tuples of the same size.
///
/// ```
/// use moye_device::layout::{compatible, tuple};
/// assert!(compatible(tuple!(24), tuple!((4, 6))));
/// assert!(compatible(tuple!((4, 6)), tuple!(((2, 2), 6))));
/// assert!(!compatible(tuple!((4, 6)), tuple!(24)));
/// ```
pub const fn compatible(a: IntTuple, b: IntTuple) -> bool {
    refines(&a, ROOT, &b, ROOT, Sizes::Equal)
}

/// Whether `b` can be grouped into multiples of `a`: [`compatible`], with sizes of `b` that are
/// multiples of those of `a`.
pub const fn weakly_compatible(a: IntTuple, b: IntTuple) -> bool {
    refines(&a, ROOT, &b, ROOT, Sizes::Multiple)
}

/// The required relation between an integer and the size of its counterpart.
#[derive(Clone, Copy)]
enum Sizes {
    Any,
    Equal,
    Multiple,
}

const fn refines(a: &IntTuple, at: At, b: &IntTuple, bt: At, sizes: Sizes) -> bool {
    if a.profile.is_leaf(at) {
        let (left, right) = match (a.product_at(at), b.product_at(bt)) {
            (Ok(left), Ok(right)) => (left, right),
            _ => return matches!(sizes, Sizes::Any),
        };
        return match sizes {
            Sizes::Any => true,
            Sizes::Equal => left == right,
            Sizes::Multiple => left != 0 && right.wrapping_rem(left) == 0,
        };
    }
    let rank = a.profile.rank(at);
    if b.profile.is_leaf(bt) || b.profile.rank(bt) != rank {
        return false;
    }
    let (mut left, mut right) = (a.profile.first(at), b.profile.first(bt));
    let mut i = 0;
    while i < rank {
        if !refines(a, left, b, right, sizes) {
            return false;
        }
        left = a.profile.next(left);
        right = b.profile.next(right);
        i += 1;
    }
    true
}

/// Whether each integer of `a` is strictly below its counterpart in `b`: whether a coordinate is
/// within a shape.
///
/// If `a` has fewer elements than `b`, only these are compared; if it has more, or a tuple where
/// `b` has an integer, the result is false.
///
/// ```
/// use moye_device::layout::{elem_less, tuple};
/// assert!(elem_less(tuple!((3, 7)), tuple!((4, 8))));
/// assert!(!elem_less(tuple!((4, 7)), tuple!((4, 8))));
/// ```
pub const fn elem_less(a: IntTuple, b: IntTuple) -> bool {
    less_each(&a, ROOT, &b, ROOT)
}

const fn less_each(a: &IntTuple, at: At, b: &IntTuple, bt: At) -> bool {
    match (a.profile.is_leaf(at), b.profile.is_leaf(bt)) {
        (true, true) => {
            let plain = a.basis[at.leaf] == NO_BASIS && b.basis[bt.leaf] == NO_BASIS;
            plain && a.value[at.leaf] < b.value[bt.leaf]
        }
        (false, false) => {
            let rank = a.profile.rank(at);
            if rank > b.profile.rank(bt) {
                return false;
            }
            let (mut left, mut right) = (a.profile.first(at), b.profile.first(bt));
            let mut i = 0;
            while i < rank {
                if !less_each(a, left, b, right) {
                    return false;
                }
                left = a.profile.next(left);
                right = b.profile.next(right);
                i += 1;
            }
            true
        }
        _ => false,
    }
}

/// Whether `a` precedes `b` in colexicographic order: the last element is the most significant. If
/// tuples differ only in rank, the shorter is first.
///
/// Multiples of one basis vector compare by their factors; the integer 0 has the factor 0.
/// Multiples of different basis vectors, a multiple and a nonzero integer, wildcards, and an
/// integer and a tuple are not comparable. If such a pair decides, neither tuple precedes the
/// other.
///
/// ```
/// use moye_device::layout::{colex_less, lex_less, tuple};
/// assert!(colex_less(tuple!((3, 1)), tuple!((0, 2))));
/// assert!(lex_less(tuple!((0, 2)), tuple!((3, 1))));
/// ```
pub const fn colex_less(a: IntTuple, b: IntTuple) -> bool {
    matches!(order(&a, ROOT, &b, ROOT, true), Some(Order::Less))
}

/// Whether `a` precedes `b` in lexicographic order: the first element is the most significant. For
/// comparable leaves see [`colex_less`].
pub const fn lex_less(a: IntTuple, b: IntTuple) -> bool {
    matches!(order(&a, ROOT, &b, ROOT, false), Some(Order::Less))
}

#[derive(Clone, Copy)]
enum Order {
    Less,
    Equal,
    Greater,
}

/// The comparison of two tuples, if they can be compared.
const fn order(a: &IntTuple, at: At, b: &IntTuple, bt: At, last_first: bool) -> Option<Order> {
    match (a.profile.is_leaf(at), b.profile.is_leaf(bt)) {
        (true, true) => {
            let (left, right) = (a.value[at.leaf], b.value[bt.leaf]);
            let (basis, other) = (a.basis[at.leaf], b.basis[bt.leaf]);
            let zero = (left == 0 && basis == NO_BASIS) || (right == 0 && other == NO_BASIS);
            if basis == ANY || other == ANY || (basis != other && !zero) {
                return None;
            }
            if left < right {
                Some(Order::Less)
            } else if left > right {
                Some(Order::Greater)
            } else {
                Some(Order::Equal)
            }
        }
        (false, false) => {
            let (left, right) = (a.profile.rank(at), b.profile.rank(bt));
            let both = if left < right { left } else { right };
            let mut i = 0;
            while i < both {
                let (l, r) = if last_first { (left - 1 - i, right - 1 - i) } else { (i, i) };
                match order(a, a.profile.mode(at, l), b, b.profile.mode(bt, r), last_first) {
                    Some(Order::Equal) => {}
                    decided => return decided,
                }
                i += 1;
            }
            // The tuple with more elements is greater.
            if left < right {
                Some(Order::Less)
            } else if left > right {
                Some(Order::Greater)
            } else {
                Some(Order::Equal)
            }
        }
        _ => None,
    }
}
