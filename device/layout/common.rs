//! What two layouts have in common, and what one maps to nothing.

use super::coalesce::coalesce_into;
use super::compose::composed;
use super::error::{Fault, tri};
use super::evaluate::linear;
use super::int_tuple::{IntTuple, NO_BASIS};
use super::inverse::right_into;
use super::layout::Layout;
use super::operation::operation;
use super::profile::ROOT;
use super::recast::gcd;

operation! {
    /// The layout of the coordinates that `layout` maps to 0 by its strides of 0; `1:0` where there is none.
    ///
    /// ```
    /// use moye_device::layout::{layout, nullspace};
    /// assert_eq!(nullspace(layout!((4, 8, 2):(1, 0, 4))), layout!(8:4));
    /// ```
    nullspace / try_nullspace(layout: Layout) -> Layout = kernel;

    /// A layout `R` with `a(R(i)) == i` and `b(R(i)) == i`: elements that are next to one another in both, in the same
    /// order. It is the longest part of the right inverse of `b` that `a` follows, as in CuTe; where a layout maps
    /// several coordinates to one index, another inverse may have led further.
    ///
    /// Two layouts whose composition is none, which CuTe refuses, have elements in common all the same. They are found
    /// by comparing values, the first 1,024 at most.
    ///
    /// Where `b` has more elements, `a` counts as unbounded along its last mode, as in CuTe: then `R` may lead beyond the
    /// coordinates of `a`.
    ///
    /// ```
    /// use moye_device::layout::{layout, max_common_layout};
    /// assert_eq!(max_common_layout(layout!((4, 8):(8, 1)), layout!((4, 8):(16, 1))), layout!(8:4));
    /// ```
    max_common_layout / try_max_common_layout(a: Layout, b: Layout) -> Layout => common_into;

    /// The number of elements that are next to one another in both layouts, in the same order: the size of
    /// [`max_common_layout`], and how wide a vector a copy between them may move.
    ///
    /// As there, and as in CuTe, the first layout counts as unbounded along its last mode: where `b` has more elements,
    /// the number may be more than `a` has.
    ///
    /// ```
    /// use moye_device::layout::{layout, max_common_vector};
    /// assert_eq!(max_common_vector(layout!(4:1), layout!(8:1)), 8);
    /// assert_eq!(max_common_vector(layout!(8:1), layout!(4:1)), 4);
    /// ```
    max_common_vector / try_max_common_vector(a: Layout, b: Layout) -> i64 = common_size;

    /// A layout of up to `count` coordinates of a shape, spread over its modes from the first on, whose size divides
    /// `count`, and each mode of which divides the shape's.
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

/// The right inverse of `b`, and how far `a` follows it from 0 on in steps of 1.
const fn run(a: &Layout, b: &Layout) -> Result<(Layout, i64), Fault> {
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
        Err(Fault::Stride { .. } | Fault::Run { .. } | Fault::Carry { .. } | Fault::Beside { .. }) => {
            compared(a, &inverse)
        }
        Err(fault) => return Err(fault),
    };
    Ok((inverse, size))
}

/// How far `a` follows `inverse`, by comparing values: for layouts that do not fit into each other as a whole, which
/// they need not for what they have in common. Looks at [`COMPARED`] values at most.
const fn compared(a: &Layout, inverse: &Layout) -> i64 {
    let mut size = 1;
    while size < inverse.size() && size < COMPARED {
        // Checked, since the inverse may lead far beyond `a`.
        match linear(a, 0, a.leaves(), inverse.at(size), None) {
            Some(index) if index == size => size += 1,
            _ => break,
        }
    }
    // The part of the inverse must be a layout itself.
    while size > 1 {
        let mut builder = Layout::start();
        let fits = match builder.push_leaf(size, 1, NO_BASIS) {
            Ok(()) => composed(inverse, &builder).is_ok(),
            Err(_) => false,
        };
        if fits {
            break;
        }
        size -= 1;
    }
    size
}

const COMPARED: i64 = 1024;

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
