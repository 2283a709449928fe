//! Composition: one layout after another.

use super::builder::LayoutBuilder;
use super::by_mode::{Each, by_mode};
use super::coalesce::Modes;
use super::error::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::layout::Layout;
use super::operation::operation;
use super::profile::{At, MAX_LEAVES, ROOT};
use super::tiler::Tiler;

operation! {
    /// The layout `R` with `R(i) == a(b(i))`, with the shape of `b` (an integer of which becomes a flat tuple where
    /// `a` breaks it up).
    ///
    /// Where `b` reaches beyond `a`, the last extent of `a` counts as unbounded, as it does in evaluation. A stride of
    /// `b` along basis vector `k` steps through mode `k` of `a`.
    ///
    /// Every layout that is returned has the function; where there is one it is found, except that the search among
    /// strides that do not divide the extents of `a` looks at 4,096 elements of a mode at most.
    ///
    /// ```
    /// use moye_device::layout::{composition, layout, try_composition};
    /// assert_eq!(composition(layout!((6, 2):(8, 2)), layout!((4, 3):(3, 1))), layout!(((2, 2), 3):((24, 2), 8)));
    /// let error = try_composition(layout!((4, 6):(1, 10)), layout!(4:3)).unwrap_err();
    /// assert!(error.text().contains("stride 3 neither divides nor is divided by the extent 4"));
    /// ```
    composition / try_composition(a: Layout, b: Layout) -> Layout = composed;

    /// [`composition`] with a tiler. By mode, modes beyond the tiler are left out, as in CuTe.
    ///
    /// ```
    /// use moye_device::layout::{composition_tiler, layout, tiler};
    /// let rows = composition_tiler(layout!((12, (4, 8)):(59, (13, 1))), tiler!((3:4, 8:2)));
    /// assert_eq!(rows, layout!((3, (2, 4)):(236, (26, 1))));
    /// ```
    composition_tiler / try_composition_tiler(layout: Layout, tiler: Tiler) -> Layout = composed_by_tiler;
}

const fn composed_by_tiler(layout: &Layout, tiler: &Tiler) -> Result<Layout, Fault> {
    by_mode(Each::Compose, layout, tiler)
}

/// See [`composition`].
pub(crate) const fn composed(a: &Layout, b: &Layout) -> Result<Layout, Fault> {
    let mut builder = LayoutBuilder::new();
    let mut sum = Sum { used: [0; MAX_LEAVES], carries: None, found: Modes::new(), reach: [0; MAX_LEAVES] };
    let left = Left::of(a, ROOT);
    tri!(compose_into(&mut builder, &mut sum, &left, a, b, ROOT));
    let result = tri!(builder.finish());
    match sum.carries {
        Some(carry) if !same_values(&result, a, b) => Err(carry),
        _ => Ok(result),
    }
}

/// What the modes of the right operand add up to.
///
/// A composition mode by mode is right only if the left operand is additive over the sums of their steps. It is where
/// no digit of a sum, in the mixed radix of its extents, reaches the extent.
struct Sum {
    /// The largest digit of a sum, for each mode of the left operand. The modes are coalesced, within the whole
    /// operand or within each mode of it; either way they come at most to its leaves.
    used: [i64; MAX_LEAVES],
    /// The fault of the first digit that carries.
    carries: Option<Fault>,
    /// Room for the modes of one leaf of the right operand, and for their digits.
    found: Modes,
    reach: [i64; MAX_LEAVES],
}

const fn compose_into(
    builder: &mut LayoutBuilder,
    sum: &mut Sum,
    left: &Left,
    a: &Layout,
    b: &Layout,
    at: At,
) -> Result<(), Fault> {
    if b.profile.is_leaf(at) {
        let (count, stride, basis) = (b.shape[at.leaf], b.stride[at.leaf], b.basis[at.leaf]);
        if basis == NO_BASIS {
            if stride != 0 && b.is_coordinate() {
                return Err(Fault::MixedBasis { left: basis, right: basis });
            }
            return left.steps_into(builder, sum, 0, count, stride);
        }
        if basis as usize >= a.rank() {
            return Err(Fault::NoBasisMode { basis: basis as usize, rank: a.rank() });
        }
        let mode = a.profile.mode(ROOT, basis as usize);
        return Left::of(a, mode).steps_into(builder, sum, mode.leaf, count, stride);
    }
    let rank = b.profile.rank(at);
    tri!(builder.open(rank));
    let mut mode = b.profile.first(at);
    let mut i = 0;
    while i < rank {
        tri!(compose_into(builder, sum, left, a, b, mode));
        mode = b.profile.next(mode);
        i += 1;
    }
    Ok(())
}

/// Whether `result(i) == a(b(i))`, by comparing all values: for what the digits do not prove.
const fn same_values(result: &Layout, a: &Layout, b: &Layout) -> bool {
    let size = b.size();
    if size > SEARCH || a.is_coordinate() || b.is_coordinate() {
        return false;
    }
    let left = Left::of(a, ROOT);
    let mut i = 0;
    while i < size {
        match left.value(1, b.at(i)) {
            Some(value) if value == result.at(i) => i += 1,
            _ => return false,
        }
    }
    true
}

/// The left operand: its modes coalesced, the last of them unbounded.
struct Left {
    modes: Modes,
}

/// The largest number of values that the search for a layout looks at.
const SEARCH: i64 = 4096;

impl Left {
    /// The coalesced modes under `at`. The last extent of the layout stays even where it is 1, since what lies beyond
    /// the layout continues along it.
    const fn of(layout: &Layout, at: At) -> Self {
        let mut modes = Modes::of(layout, at);
        let end = layout.profile.next(at).leaf;
        if end > at.leaf && layout.shape[end - 1] == 1 {
            // An extent of 1 here would be multiplied into a mode that it continues; both keep the extent's meaning.
            modes.push(1, layout.stride[end - 1], layout.basis[end - 1]);
        }
        if modes.count == 0 {
            modes.push(1, 0, NO_BASIS);
        }
        Self { modes }
    }

    /// Adds the mode (a leaf or a flat tuple) whose element `i` is the left operand at `i * step`, `i < count`. The
    /// digits of this operand are those from `first` on in `sum`.
    const fn steps_into(
        &self,
        builder: &mut LayoutBuilder,
        sum: &mut Sum,
        first: usize,
        count: i64,
        step: i64,
    ) -> Result<(), Fault> {
        if step == 0 {
            return builder.leaf(count, 0, NO_BASIS);
        }
        let modes = &self.modes;
        let last = modes.count - 1;
        if last == 0 {
            return match modes.stride[0].checked_mul(step) {
                Some(stride) => builder.leaf(count, stride, modes.basis[0]),
                None => Err(Fault::Overflow),
            };
        }
        if step < 0 {
            return Err(Fault::NegativeStride { stride: step });
        }
        if count == 1 {
            // One element needs no stride. CuTe gives it the one of the last mode, which is kept as it shows in the form.
            let mut rest = step;
            let mut i = 0;
            while i < last {
                rest = ceil_div(rest, modes.extent[i]);
                i += 1;
            }
            return match modes.stride[last].checked_mul(rest) {
                Some(stride) => builder.leaf(1, stride, modes.basis[last]),
                None => Err(Fault::Overflow),
            };
        }
        match self.digits(&mut sum.found, &mut sum.reach, count, step) {
            Ok(()) => {
                let mut i = 0;
                while i < last {
                    let reach = sum.used[first + i].saturating_add(sum.reach[i]);
                    sum.used[first + i] = reach;
                    if reach >= modes.extent[i] && sum.carries.is_none() {
                        sum.carries = Some(Fault::Carry { mode: i, extent: modes.extent[i], reach });
                    }
                    i += 1;
                }
            }
            Err(fault) => {
                if !self.search(&mut sum.found, count, step) {
                    return Err(fault);
                }
                sum.carries = Some(fault);
            }
        }
        let found = &sum.found;
        // Not `Modes::add_to`, which would join modes: the runs are as long as they can be already.
        if found.count > 1 {
            tri!(builder.open(found.count));
        }
        let mut i = 0;
        while i < found.count {
            tri!(builder.leaf(found.extent[i], found.stride[i], found.basis[i]));
            i += 1;
        }
        Ok(())
    }

    /// The modes of the steps, from the digits of the step in the mixed radix of the extents.
    ///
    /// As long as no digit carries, the left operand is additive, so steps with the same digits make one mode. The
    /// first carry ends a mode; the next one steps by as much as the first has come. In the end every digit, at the
    /// last element, must still be below its extent: then no sum of steps carries, which proves the result.
    const fn digits(
        &self,
        found: &mut Modes,
        used: &mut [i64; MAX_LEAVES],
        count: i64,
        first: i64,
    ) -> Result<(), Fault> {
        let modes = &self.modes;
        let last = modes.count - 1;
        let mut rest = count;
        let mut step = first;
        let mut digit = [0i64; MAX_LEAVES];
        found.count = 0;
        let mut mode = 0;
        while mode < last {
            used[mode] = 0;
            mode += 1;
        }
        while rest > 1 {
            let mut run = rest;
            let mut stride = 0i64;
            let mut basis = NO_BASIS;
            let mut value = step;
            let mut i = 0;
            while i <= last {
                digit[i] = if i == last { value } else { value % modes.extent[i] };
                value = if i == last { 0 } else { value / modes.extent[i] };
                if digit[i] > 0 {
                    if i < last && ceil_div(modes.extent[i], digit[i]) < run {
                        run = ceil_div(modes.extent[i], digit[i]);
                    }
                    if modes.stride[i] != 0 {
                        if stride != 0 && basis != modes.basis[i] {
                            return Err(Fault::MixedBasis { left: basis, right: modes.basis[i] });
                        }
                        basis = modes.basis[i];
                        stride = match digit[i].checked_mul(modes.stride[i]) {
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
                return Err(self.fault(count, first));
            }
            i = 0;
            while i < last {
                used[i] += (run - 1) * digit[i];
                if used[i] >= modes.extent[i] {
                    return Err(self.fault(count, first));
                }
                i += 1;
            }
            if found.count == MAX_LEAVES {
                return Err(Fault::Capacity);
            }
            found.extent[found.count] = run;
            found.stride[found.count] = stride;
            found.basis[found.count] = if stride == 0 { NO_BASIS } else { basis };
            found.count += 1;
            rest /= run;
            step = match step.checked_mul(run) {
                Some(step) => step,
                None => return Err(Fault::Overflow),
            };
        }
        Ok(())
    }

    /// The modes of the steps, from all values. It finds what [`digits`](Self::digits) does not: a layout that exists
    /// although digits carry, because the carries cancel.
    ///
    /// A layout's first mode is as long as its first run of equal differences, so that there is one candidate only.
    const fn search(&self, found: &mut Modes, count: i64, step: i64) -> bool {
        found.count = 0;
        if count > SEARCH {
            return false;
        }
        let mut scale = 1;
        let mut rest = count;
        while rest > 1 {
            let stride = match self.value(step, scale) {
                Some(stride) => stride,
                None => return false,
            };
            let mut run = 2;
            while run < rest {
                match self.value(step, scale * run) {
                    Some(value) if value == stride * run => run += 1,
                    _ => break,
                }
            }
            if rest % run != 0 || found.count == MAX_LEAVES {
                return false;
            }
            found.extent[found.count] = run;
            found.stride[found.count] = stride;
            found.basis[found.count] = NO_BASIS;
            found.count += 1;
            scale *= run;
            rest /= run;
        }
        let mut i = 0;
        while i < count {
            let mut rest = i;
            let mut sum = 0;
            let mut mode = 0;
            while mode < found.count {
                sum += rest % found.extent[mode] * found.stride[mode];
                rest /= found.extent[mode];
                mode += 1;
            }
            match self.value(step, i) {
                Some(value) if value == sum => i += 1,
                _ => return false,
            }
        }
        true
    }

    /// The left operand at `step * index`, if it is a small integer.
    const fn value(&self, step: i64, index: i64) -> Option<i64> {
        let modes = &self.modes;
        let Some(mut rest) = step.checked_mul(index) else { return None };
        let mut sum = 0i64;
        let mut i = 0;
        while i < modes.count {
            if modes.basis[i] != NO_BASIS {
                return None;
            }
            let digit = if i + 1 == modes.count { rest } else { rest % modes.extent[i] };
            rest /= modes.extent[i];
            sum = match digit.checked_mul(modes.stride[i]) {
                Some(part) => match sum.checked_add(part) {
                    // Sums and multiples of what is below this bound do not overflow in the search.
                    Some(sum) if sum.unsigned_abs() < i64::MAX as u64 / (2 * SEARCH as u64) => sum,
                    _ => return None,
                },
                None => return None,
            };
            i += 1;
        }
        Some(sum)
    }

    /// The first values of the function that was asked for, for a message.
    const fn values(&self, count: i64, step: i64) -> ([i64; 4], usize) {
        let mut values = [0; 4];
        let mut known = 0;
        while known < 4 && (known as i64) < count {
            match self.value(step, known as i64) {
                Some(value) => values[known] = value,
                None => return (values, 0),
            }
            known += 1;
        }
        // Beyond the search, it is not known that no layout has the function.
        (values, if count > SEARCH { 0 } else { known })
    }

    /// Why `count` steps of `step` fit no layout: the first mode at which the step and the extent do not divide one
    /// another, or whose end the count does not meet.
    const fn fault(&self, count: i64, step: i64) -> Fault {
        let (values, known) = self.values(count, step);
        let mut along = step;
        let mut rest = count;
        let mut inner = 1;
        let mut mode = 0;
        loop {
            let extent = self.modes.extent[mode];
            // Some mode before the last, which is unbounded, does not fit: otherwise there were no fault.
            if along % extent == 0 && mode + 2 < self.modes.count {
                along /= extent;
            } else if extent % along == 0 && rest % (extent / along) == 0 && mode + 2 < self.modes.count {
                rest /= extent / along;
                along = 1;
            } else if extent % along == 0 {
                return Fault::Run {
                    count: rest,
                    run: extent / along,
                    mode,
                    extent,
                    total: count,
                    values,
                    known,
                };
            } else {
                return Fault::Stride { stride: step, along, inner, mode, extent, count, values, known };
            }
            inner *= extent;
            mode += 1;
        }
    }
}

pub(crate) const fn ceil_div(left: i64, right: i64) -> i64 {
    left / right + (left % right > 0) as i64
}
