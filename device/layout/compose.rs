//! Composition: one layout after another.

use super::by_mode::{Each, by_mode_into};
use super::fault::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::layout::{Layout, times};
use super::operation::operation;
use super::profile::{At, MAX_LEAVES, ROOT};
use super::tiler::Tiler;

operation! {
    /// The layout `R` with `R(i) == a(b(i))`, with the shape of `b` (whose integers become flat
    /// tuples where `a` splits them).
    ///
    /// If `b` reaches past `a`, the last extent of `a` is treated as unbounded, as in evaluation. A
    /// stride of `b` along basis vector `k` steps through mode `k` of `a`, a stride along `j@k`
    /// through mode `j` of mode `k`, and so on.
    ///
    /// Every returned layout has this function. If such a layout exists it is found, unless carries
    /// from one mode of `a` into the next cancel: then it is found only for layouts of integers, if
    /// a mode of `b` has at most 4,096 elements.
    ///
    /// ```
    /// use moye_device::layout::{composition, layout, try_composition};
    /// assert_eq!(composition(layout!((6, 2):(8, 2)), layout!((4, 3):(3, 1))), layout!(((2, 2), 3):((24, 2), 8)));
    /// let error = try_composition(layout!((4, 6):(1, 10)), layout!(4:3)).unwrap_err();
    /// assert!(error.text().contains("stride 3 neither divides nor is divided by the extent 4"));
    /// ```
    composition / try_composition(a: Layout, b: Layout) -> Layout => composition_of;

    /// [`composition`] with a tiler. Mode by mode, it drops modes past the tiler's, as in CuTe.
    ///
    /// ```
    /// use moye_device::layout::{composition_tiler, layout, tiler};
    /// let rows = composition_tiler(layout!((12, (4, 8)):(59, (13, 1))), tiler!((3:4, 8:2)));
    /// assert_eq!(rows, layout!((3, (2, 4)):(236, (26, 1))));
    /// ```
    composition_tiler / try_composition_tiler(layout: Layout, tiler: Tiler) -> Layout => composed_by_tiler;
}

const fn composed_by_tiler(out: &mut Layout, layout: &Layout, tiler: &Tiler) -> Result<(), Fault> {
    by_mode_into(out, Each::Compose, layout, ROOT, tiler, ROOT)
}

/// See [`composition`].
const fn composition_of(out: &mut Layout, a: &Layout, b: &Layout) -> Result<(), Fault> {
    compose_into(out, a, ROOT, b, ROOT)
}

/// [`composition_of`] as a separate layout.
pub(crate) const fn composed(a: &Layout, b: &Layout) -> Result<Layout, Fault> {
    let mut out = Layout::start();
    tri!(composition_of(&mut out, a, b));
    out.finish()
}

/// Adds the mode of `a` at `at` after the mode of `b` at `by`.
pub(crate) const fn compose_into(
    out: &mut Layout,
    a: &Layout,
    at: At,
    b: &Layout,
    by: At,
) -> Result<(), Fault> {
    let mut left = Left::new();
    tri!(left.take(a, at));
    let mut sum = Sum::new();
    let start = At { node: out.profile.len(), leaf: out.leaves() };
    if b.is_coordinate_at(by) {
        tri!(b.check_places(by));
        tri!(coordinates_into(out, &mut sum, &mut left, a, at, b, by));
    } else {
        tri!(steps_into(out, &mut sum, &left, b, by));
    }
    match sum.carries {
        Some(carry) if !same_values(&out.sub(start), &a.sub(at), 0, &b.sub(by)) => Err(carry),
        _ => Ok(()),
    }
}

/// The layout `R` with `a(offset) + R(i) == a(offset + b(i))`: if adding the offset carries in no
/// digit, this is `a` after `b`.
pub(crate) const fn composed_at(a: &Layout, offset: i64, b: &Layout) -> Result<Layout, Fault> {
    let left = tri!(Left::of(a));
    let mut sum = Sum::new();
    let last = left.modes.leaves() - 1;
    let mut rest = offset;
    let mut i = 0;
    while i < last {
        sum.used[i] = rest % left.modes.shape[i];
        rest /= left.modes.shape[i];
        i += 1;
    }
    let mut out = Layout::start();
    tri!(steps_into(&mut out, &mut sum, &left, b, ROOT));
    let result = tri!(out.finish());
    match sum.carries {
        Some(carry) if !same_values(&result, a, offset, b) => Err(match carry {
            Fault::Carry { mode, extent, reach } if offset != 0 && composed(a, b).is_ok() => {
                Fault::OffsetCarry { offset, mode, extent, reach }
            }
            carry => carry,
        }),
        _ => Ok(result),
    }
}

/// The sum of the right operand's modes.
///
/// A composition mode by mode is correct only if the left operand is additive over the sums of
/// their steps, which holds if no digit of a sum, in the mixed radix of its extents, reaches the
/// extent.
struct Sum {
    /// The largest digit of a sum, for each mode of the left operand. The modes are coalesced,
    /// within the whole operand or within each of its modes; either way there are at most as many
    /// as leaves.
    used: [i64; MAX_LEAVES],
    /// Space for the largest digits of one leaf of the right operand, and for the digits of its
    /// step.
    reach: [i64; MAX_LEAVES],
    digit: [i64; MAX_LEAVES],
    /// The fault of the first digit that carries.
    carries: Option<Fault>,
}

impl Sum {
    #[inline]
    const fn new() -> Self {
        Self { used: [0; MAX_LEAVES], reach: [0; MAX_LEAVES], digit: [0; MAX_LEAVES], carries: None }
    }
}

/// Adds `left` after the mode of `b` at `by`, whose strides are integers.
const fn steps_into(out: &mut Layout, sum: &mut Sum, left: &Left, b: &Layout, by: At) -> Result<(), Fault> {
    let end = b.profile.next(by).node;
    let mut at = by;
    while at.node < end {
        if b.profile.is_leaf(at) {
            tri!(left.steps_into(out, sum, 0, b.shape[at.leaf], b.stride[at.leaf]));
            at.leaf += 1;
        } else {
            tri!(out.push_tuple(b.profile.rank(at)));
        }
        at.node += 1;
    }
    Ok(())
}

/// Adds the mode of `a` at `at` after the mode of `b` at `by`, whose strides are along basis
/// vectors: each steps through the mode of `a` at its place. `left` is space for that mode's modes.
const fn coordinates_into(
    out: &mut Layout,
    sum: &mut Sum,
    left: &mut Left,
    a: &Layout,
    at: At,
    b: &Layout,
    by: At,
) -> Result<(), Fault> {
    let end = b.profile.next(by).node;
    let mut to = by;
    while to.node < end {
        if b.profile.is_leaf(to) {
            let (count, stride, basis) = (b.shape[to.leaf], b.stride[to.leaf], b.basis[to.leaf]);
            if basis != NO_BASIS {
                let mode = tri!(a.mode_along(at, basis));
                tri!(left.take(a, mode));
                tri!(left.steps_into(out, sum, mode.leaf - at.leaf, count, stride));
            } else if stride == 0 {
                tri!(out.push_leaf(count, 0, NO_BASIS));
            } else {
                return Err(Fault::MixedBasis);
            }
            to.leaf += 1;
        } else {
            tri!(out.push_tuple(b.profile.rank(to)));
        }
        to.node += 1;
    }
    Ok(())
}

/// Whether `a(offset) + result(i) == a(offset + b(i))`, by comparing all values: for cases that the
/// digits do not prove.
const fn same_values(result: &Layout, a: &Layout, offset: i64, b: &Layout) -> bool {
    let size = b.size();
    if size > SEARCH || a.is_coordinate() || b.is_coordinate() || result.check().is_err() {
        return false;
    }
    let Ok(left) = Left::of(a) else { return false };
    let Some(start) = left.value(1, offset) else { return false };
    let mut i = 0;
    while i < size {
        let Some(index) = b.at(i).checked_add(offset) else { return false };
        match left.value(1, index) {
            Some(value) if value - start == result.at(i) => i += 1,
            _ => return false,
        }
    }
    true
}

/// The left operand: its coalesced modes, with the last one unbounded.
pub(crate) struct Left {
    /// A run that is never closed.
    modes: Layout,
}

/// The most values that the search for a layout compares.
pub(crate) const SEARCH: i64 = 4096;

impl Left {
    #[inline]
    const fn new() -> Self {
        Self { modes: Layout::start() }
    }

    /// The whole of `layout` as the operand.
    pub(crate) const fn of(layout: &Layout) -> Result<Self, Fault> {
        let mut left = Self::new();
        tri!(left.take(layout, ROOT));
        Ok(left)
    }

    /// The coalesced modes, at least one, as the leaves of a layout without nesting.
    pub(crate) const fn modes(&self) -> &Layout {
        &self.modes
    }

    /// Sets the coalesced modes under `at`. The last extent of the layout stays even if it is 1,
    /// since indices past the layout continue along it.
    const fn take(&mut self, layout: &Layout, at: At) -> Result<(), Fault> {
        self.modes.drop_run(0);
        tri!(self.modes.coalesce_to_run(0, layout, at, true));
        let end = layout.profile.next(at).leaf;
        if end > at.leaf && layout.shape[end - 1] == 1 {
            // An extent of 1 here is merged with a mode that it continues; either form keeps the
            // extent's meaning.
            tri!(self.modes.join_to_run(0, 1, layout.stride[end - 1], layout.basis[end - 1]));
        }
        if self.modes.leaves() == 0 {
            tri!(self.modes.push_to_run(1, 0, NO_BASIS));
        }
        Ok(())
    }

    /// Adds the mode (a leaf or a flat tuple) whose element `i` is the left operand at `i * step`,
    /// `i < count`. The digits of this operand are those from `first` on in `sum`.
    const fn steps_into(
        &self,
        out: &mut Layout,
        sum: &mut Sum,
        first: usize,
        count: i64,
        step: i64,
    ) -> Result<(), Fault> {
        if step == 0 {
            return out.push_leaf(count, 0, NO_BASIS);
        }
        let modes = &self.modes;
        let last = modes.leaves() - 1;
        if last == 0 {
            return match times(modes.stride[0], step) {
                Some(stride) => out.push_leaf(count, stride, modes.basis[0]),
                None => Err(Fault::TooLarge {
                    what: "the stride",
                    left: step,
                    by: "the stride",
                    right: modes.stride[0],
                }),
            };
        }
        if step < 0 {
            return Err(Fault::NegativeStride { stride: step });
        }
        if count == 1 {
            // One element needs no stride. CuTe uses the last mode's, which is kept because it is
            // visible in the result.
            let mut rest = step;
            let mut i = 0;
            while i < last {
                rest = ceil_div(rest, modes.shape[i]);
                i += 1;
            }
            return match times(modes.stride[last], rest) {
                Some(stride) => out.push_leaf(1, stride, modes.basis[last]),
                None => Err(Fault::Overflow),
            };
        }
        let run = out.leaves();
        match self.digits(out, sum, count, step) {
            Ok(()) => {
                let mut i = 0;
                while i < last {
                    let reach = sum.used[first + i].saturating_add(sum.reach[i]);
                    sum.used[first + i] = reach;
                    if reach >= modes.shape[i] && sum.carries.is_none() {
                        sum.carries = Some(Fault::Carry { mode: i, extent: modes.shape[i], reach });
                    }
                    i += 1;
                }
            }
            Err(fault) => {
                out.drop_run(run);
                if !tri!(self.search(out, count, step)) {
                    return Err(match fault {
                        Fault::Unfit => self.fault(count, step),
                        fault => fault,
                    });
                }
                sum.carries = Some(Fault::Beside { stride: step });
            }
        }
        out.close_run(run)
    }

    /// Adds the modes of the steps to a run, computed from the digits of the step in the mixed
    /// radix of the extents.
    ///
    /// As long as no digit carries, the left operand is additive, so steps with the same digits
    /// form one mode. The first carry ends a mode; the next mode steps by the distance covered so
    /// far. At the last element every digit must still be below its extent: then no sum of steps
    /// carries, which proves the result.
    const fn digits(&self, out: &mut Layout, sum: &mut Sum, count: i64, first: i64) -> Result<(), Fault> {
        let modes = &self.modes;
        let last = modes.leaves() - 1;
        let mut rest = count;
        let mut step = first;
        let mut mode = 0;
        while mode < last {
            sum.reach[mode] = 0;
            mode += 1;
        }
        while rest > 1 {
            let mut run = rest;
            let mut stride = 0i64;
            let mut basis = NO_BASIS;
            let mut value = step;
            let mut i = 0;
            while i <= last {
                // Divisions take most of the time, but few are needed.
                let digit;
                let extent = modes.shape[i];
                if i == last || value < extent {
                    (digit, value) = (value, 0);
                } else {
                    (digit, value) = (value % extent, value / extent);
                }
                sum.digit[i] = digit;
                if digit > 0 {
                    if i < last {
                        let steps = ceil_div(extent, digit);
                        if steps < run {
                            run = steps;
                        }
                    }
                    let own = modes.stride[i];
                    if own != 0 {
                        if stride != 0 && basis != modes.basis[i] {
                            let right = modes.basis[i];
                            return Err(Fault::Across { left: basis, right, step });
                        }
                        basis = modes.basis[i];
                        stride = match times(digit, own) {
                            // The first part is all of it so far.
                            Some(part) if stride == 0 => part,
                            Some(part) => match stride.checked_add(part) {
                                Some(stride) => stride,
                                None => return Err(Fault::Overflow),
                            },
                            None => return Err(Fault::Overflow),
                        };
                    }
                }
                i += 1;
            }
            if rest % run != 0 {
                return Err(Fault::Unfit);
            }
            i = 0;
            while i < last {
                sum.reach[i] += (run - 1) * sum.digit[i];
                if sum.reach[i] >= modes.shape[i] {
                    return Err(Fault::Unfit);
                }
                i += 1;
            }
            // Not merged: the runs are already as long as possible.
            tri!(out.push_to_run(run, stride, basis));
            rest /= run;
            step = match times(step, run) {
                Some(step) => step,
                None => return Err(Fault::Overflow),
            };
        }
        Ok(())
    }

    /// Adds the modes of the steps to a run, computed from all values; returns whether a layout
    /// exists. It finds layouts that [`digits`](Self::digits) does not: those whose digits carry,
    /// but whose carries cancel.
    ///
    /// A layout's first mode is as long as its first run of equal differences, so there is only one
    /// candidate.
    const fn search(&self, out: &mut Layout, count: i64, step: i64) -> Result<bool, Fault> {
        if count > SEARCH {
            return Ok(false);
        }
        let first = out.leaves();
        let mut scale = 1;
        let mut rest = count;
        while rest > 1 {
            let Some(stride) = self.value(step, scale) else { return Ok(false) };
            let mut run = 2;
            while run < rest {
                match self.value(step, scale * run) {
                    Some(value) if value == stride * run => run += 1,
                    _ => break,
                }
            }
            if rest % run != 0 {
                return Ok(false);
            }
            tri!(out.push_to_run(run, stride, NO_BASIS));
            scale *= run;
            rest /= run;
        }
        let mut i = 0;
        while i < count {
            let mut rest = i;
            let mut sum = 0;
            let mut mode = first;
            while mode < out.leaves() {
                sum += rest % out.shape[mode] * out.stride[mode];
                rest /= out.shape[mode];
                mode += 1;
            }
            match self.value(step, i) {
                Some(value) if value == sum => i += 1,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The left operand at `step * index`, if that is a small integer.
    const fn value(&self, step: i64, index: i64) -> Option<i64> {
        let modes = &self.modes;
        let Some(mut rest) = step.checked_mul(index) else { return None };
        let mut sum = 0i64;
        let mut i = 0;
        while i < modes.leaves() {
            if modes.basis[i] != NO_BASIS {
                return None;
            }
            let digit = if i + 1 == modes.leaves() { rest } else { rest % modes.shape[i] };
            rest /= modes.shape[i];
            sum = match digit.checked_mul(modes.stride[i]) {
                Some(part) => match sum.checked_add(part) {
                    // Sums and multiples of values below this bound do not overflow in the search.
                    Some(sum) if sum.unsigned_abs() < i64::MAX as u64 / (2 * SEARCH as u64) => sum,
                    _ => return None,
                },
                None => return None,
            };
            i += 1;
        }
        Some(sum)
    }

    /// Why no layout has `count` steps of `step`: the first mode at which neither the step nor the
    /// extent divides the other, or whose end the count does not meet.
    const fn fault(&self, count: i64, step: i64) -> Fault {
        let mut along = step;
        let mut rest = count;
        let mut mode = 0;
        loop {
            let extent = self.modes.shape[mode];
            // Some mode before the last, which is unbounded, does not fit: otherwise there would be
            // no fault.
            if along % extent == 0 && mode + 2 < self.modes.leaves() {
                along /= extent;
            } else if extent % along == 0 && rest % (extent / along) == 0 && mode + 2 < self.modes.leaves() {
                rest /= extent / along;
                along = 1;
            } else if extent % along == 0 {
                // In elements of the operand: the previous modes took `count / rest` of each of
                // these steps.
                let run = extent / along * (count / rest);
                return Fault::Run { count, run, extent, mode };
            } else {
                return Fault::Stride { stride: (step, along), extent, mode };
            }
            mode += 1;
        }
    }
}

#[inline]
pub(crate) const fn ceil_div(left: i64, right: i64) -> i64 {
    left / right + (left % right > 0) as i64
}
