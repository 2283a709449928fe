//! The common part of two layouts, and the null space of one.

use super::coalesce::coalesce_into;
use super::compose::{Left, SEARCH, composed};
use super::evaluate::linear;
use super::fault::{Fault, tri};
use super::int_tuple::{IntTuple, NO_BASIS};
use super::inverse::right_into;
use super::layout::Layout;
use super::operation::operation;
use super::profile::{MAX_LEAVES, ROOT};
use super::recast::gcd;

operation! {
    /// The layout of the coordinates that `layout` maps to 0 because of strides of 0; `1:0` if no
    /// stride is 0.
    ///
    /// ```
    /// use moye_device::layout::{layout, nullspace};
    /// assert_eq!(nullspace(layout!((4, 8, 2):(1, 0, 4))), layout!(8:4));
    /// ```
    nullspace / try_nullspace(layout: Layout) -> Layout = kernel;

    /// A layout `R` with `a(R(i)) == i` and `b(R(i)) == i`: elements that are contiguous in both,
    /// in the same order. It is the longest part of the right inverse of `b` that `a` follows, as
    /// in CuTe; if a layout maps several coordinates to one index, another inverse might be
    /// followed further.
    ///
    /// Layouts that CuTe cannot compose may still have elements in common. They are found mode by
    /// mode; if steps through `a` carry and the carries cancel, at most 4,096 further values are
    /// compared.
    ///
    /// If `b` has more elements, `a` is treated as unbounded along its last mode, as in CuTe: then
    /// `R` may lead past the coordinates of `a`.
    ///
    /// ```
    /// use moye_device::layout::{layout, max_common_layout};
    /// assert_eq!(max_common_layout(layout!((4, 8):(8, 1)), layout!((4, 8):(16, 1))), layout!(8:4));
    /// ```
    max_common_layout / try_max_common_layout(a: Layout, b: Layout) -> Layout => common_into;

    /// The number of elements that are contiguous in both layouts, in the same order: the size of
    /// [`max_common_layout`], and the width of vectors that a copy between them may move.
    ///
    /// As there, and as in CuTe, the first layout is treated as unbounded along its last mode: if
    /// `b` has more elements, the result may exceed the size of `a`.
    ///
    /// ```
    /// use moye_device::layout::{layout, max_common_vector};
    /// assert_eq!(max_common_vector(layout!(4:1), layout!(8:1)), 8);
    /// assert_eq!(max_common_vector(layout!(8:1), layout!(4:1)), 4);
    /// ```
    max_common_vector / try_max_common_vector(a: Layout, b: Layout) -> i64 = common_size;

    /// A layout of up to `count` coordinates of a shape, spread over its modes from the first on,
    /// whose size divides `count`, and each mode of which divides the shape's.
    ///
    /// ```
    /// use moye_device::layout::{domain_distribute, layout, tuple};
    /// assert_eq!(domain_distribute(tuple!((15, 14)), 6), layout!((3, 2):(1, 15)));
    /// ```
    domain_distribute / try_domain_distribute(shape: IntTuple, count: i64) -> Layout => distribute_into;
}

const fn kernel(layout: &Layout) -> Result<Layout, Fault> {
    let mut builder = Layout::start();
    let mut count = 0;
    let mut i = 0;
    while i < layout.leaves() {
        count += (layout.stride[i] == 0) as usize;
        i += 1;
    }
    if count == 0 {
        tri!(builder.push_leaf(1, 0, NO_BASIS));
        return builder.finish();
    }
    if count > 1 {
        tri!(builder.push_tuple(count));
    }
    let mut product = 1;
    i = 0;
    while i < layout.leaves() {
        if layout.stride[i] == 0 {
            tri!(builder.push_leaf(
                layout.shape[i],
                if layout.shape[i] == 1 { 0 } else { product },
                NO_BASIS
            ));
        }
        product *= layout.shape[i];
        i += 1;
    }
    builder.finish()
}

/// The right inverse of `b`, and the number of elements, from 0 on, for which `a` follows it in
/// steps of 1.
const fn run(a: &Layout, b: &Layout) -> Result<(Layout, i64), Fault> {
    // The right inverse rejects such a `b`.
    if a.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    let mut inverse = Layout::start();
    tri!(right_into(&mut inverse, b));
    tri!(inverse.check());
    let size = match composed(a, &inverse) {
        Ok(both) => {
            let mut modes = Layout::start();
            tri!(modes.coalesce_to_run(0, &both, ROOT, true));
            let runs = modes.leaves() > 0 && modes.stride[0] == 1 && modes.basis[0] == NO_BASIS;
            if runs { modes.shape[0] } else { 1 }
        }
        // Even if the whole composition does not exist, or has too large an index or too many
        // modes, a part of it may exist.
        Err(_) => compared(a, &inverse),
    };
    Ok((inverse, size))
}

/// The number of elements for which `a` follows `inverse`, which may be a part of it.
///
/// Mode by mode: as long as no digit of a coordinate of `a` carries, `a` is additive over the modes
/// of the inverse, and follows a mode if it does so at its first step. If a digit carries, the
/// value usually differs; if it does not, because carries cancel, up to [`SEARCH`] further values
/// are compared.
const fn compared(a: &Layout, inverse: &Layout) -> i64 {
    let Ok(left) = Left::of(a) else { return 1 };
    let modes = left.modes();
    let last = modes.leaves() - 1;
    // The largest digits of the coordinates so far, and the sum of the steps to the last of them.
    let mut used = [0i64; MAX_LEAVES];
    let mut end = 0i64;
    let mut size = 1i64;
    let mut mode = 0;
    while mode < inverse.leaves() {
        let (extent, step) = (inverse.shape[mode], inverse.stride[mode]);
        // The first element of a step of the mode, and one that uses up the digits of all others.
        let mut run = if follows(a, step, size) { extent } else { 1 };
        let mut rest = step;
        let mut i = 0;
        while i < last {
            let digit = rest % modes.shape[i];
            rest /= modes.shape[i];
            if digit > 0 {
                let steps = (modes.shape[i] - 1 - used[i]) / digit + 1;
                if steps < run {
                    run = steps;
                }
            }
            i += 1;
        }
        // The rest is not a multiple of this run only at the mode's end.
        if run < extent {
            let next = match step.checked_mul(run) {
                Some(next) => next.checked_add(end),
                None => None,
            };
            let carried = match next {
                Some(next) => follows(a, next, size * run + size - 1),
                None => false,
            };
            return if carried { listed(a, inverse, size * run) } else { size * run };
        }
        rest = step;
        i = 0;
        while i < last {
            used[i] += (run - 1) * (rest % modes.shape[i]);
            rest /= modes.shape[i];
            i += 1;
        }
        end += (run - 1) * step;
        size *= run;
        mode += 1;
    }
    size
}

/// Whether `a` has the index `value` at a coordinate, which may be far past its size.
const fn follows(a: &Layout, coord: i64, value: i64) -> bool {
    matches!(linear(a, 0, a.leaves(), coord, None), Some(index) if index == value)
}

/// The number of elements for which `a` follows `inverse`, by comparing values from `known` on. A
/// part of the inverse is a layout only if it consists of whole runs of its first modes.
const fn listed(a: &Layout, inverse: &Layout, known: i64) -> i64 {
    let mut size = known;
    while size < inverse.size() && size - known < SEARCH && follows(a, inverse.at(size), size) {
        size += 1;
    }
    let mut whole = 1;
    let mut mode = 0;
    while mode < inverse.leaves() && inverse.shape[mode] <= size / whole {
        whole *= inverse.shape[mode];
        mode += 1;
    }
    whole * (size / whole)
}

pub(crate) const fn common_into(out: &mut Layout, a: &Layout, b: &Layout) -> Result<(), Fault> {
    let (inverse, size) = tri!(run(a, b));
    let mut builder = Layout::start();
    tri!(builder.push_leaf(size, (size > 1) as i64, NO_BASIS));
    coalesce_into(out, &tri!(composed(&inverse, &tri!(builder.finish()))))
}

const fn common_size(a: &Layout, b: &Layout) -> Result<i64, Fault> {
    let (_, size) = tri!(run(a, b));
    Ok(size)
}

const fn distribute_into(out: &mut Layout, shape: &IntTuple, count: i64) -> Result<(), Fault> {
    if count < 1 {
        return Err(Fault::Least { what: "count", value: count, least: 1 });
    }
    let run = out.leaves();
    let mut rest = count;
    let mut product = 1i64;
    let mut i = 0;
    while i < shape.leaves() {
        let extent = tri!(shape.int_at(i));
        if extent < 1 {
            return Err(Fault::Extent { extent });
        }
        let part = gcd(extent, rest);
        if part > 1 {
            tri!(out.join_to_run(run, part, product, NO_BASIS));
        }
        rest /= part;
        product = match product.checked_mul(extent) {
            Some(product) => product,
            None => return Err(Fault::Overflow),
        };
        i += 1;
    }
    out.close_run(run)
}
