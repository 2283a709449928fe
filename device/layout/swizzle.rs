//! Swizzles: XOR of bits of an index, against bank conflicts.

use core::fmt;

use super::error::LayoutError;
use super::fault::{Fault, LayoutErrorKind};
use super::operation::method;
use super::text::Text;

/// A swizzle, CuTe's `Swizzle<bits, base, shift>`: it XORs the `bits` bits of an index from bit
/// `base + shift` up onto those from bit `base` up (with a negative `shift`, from `base` onto
/// `base - shift`). The lowest `base` bits stay unchanged.
///
/// It is its own inverse, and permutes indices only within aligned blocks of
/// `2^(bits + base + |shift|)`.
///
/// ```
/// use moye_device::layout::Swizzle;
/// const SWIZZLE: Swizzle = Swizzle::new(3, 0, 3);
/// assert_eq!(SWIZZLE.apply(0b010_001), 0b010_011);
/// assert_eq!(SWIZZLE.to_string(), "Sw<3,0,3>");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Swizzle {
    bits: u8,
    base: u8,
    shift: i8,
}

impl Swizzle {
    /// The swizzle that changes nothing.
    pub const NONE: Self = Self { bits: 0, base: 4, shift: 3 };

    /// The swizzle of `bits` bits at `base`, `shift` apart.
    ///
    /// # Panics
    /// If [`try_new`](Self::try_new) returns an error.
    #[track_caller]
    pub const fn new(bits: i64, base: i64, shift: i64) -> Self {
        match Self::try_new(bits, base, shift) {
            Ok(swizzle) => swizzle,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// The swizzle of `bits` bits at `base`, `shift` apart.
    ///
    /// # Errors
    /// If `bits` or `base` is negative, the two groups of bits overlap (`|shift| < bits`), or they
    /// reach past bit 62.
    pub const fn try_new(bits: i64, base: i64, shift: i64) -> Result<Self, LayoutError> {
        match Self::of(bits, base, shift) {
            Ok(swizzle) => Ok(swizzle),
            Err(fault) => {
                let mut text = Text::of_operands();
                write(&mut text, bits, base, shift);
                Err(LayoutError::after(text, fault))
            }
        }
    }

    pub(crate) const fn of(bits: i64, base: i64, shift: i64) -> Result<Self, Fault> {
        if bits < 0 {
            Err(Fault::Least { what: "number of bits", value: bits, least: 0 })
        } else if base < 0 {
            Err(Fault::Least { what: "base", value: base, least: 0 })
        } else if bits > 62 || base > 62 || shift > 62 || shift < -62 || bits + base + shift.abs() > 63 {
            Err(Fault::Said {
                kind: LayoutErrorKind::Range,
                text: "the bits reach beyond bit 62 of an index",
            })
        } else if shift.abs() < bits {
            let what = "distance |shift| of the two groups of bits";
            Err(Fault::Least { what, value: shift.abs(), least: bits })
        } else {
            Ok(Self { bits: bits as u8, base: base as u8, shift: shift as i8 })
        }
    }

    /// The number of bits in each group.
    pub const fn bits(&self) -> i64 {
        self.bits as i64
    }

    /// The number of low bits that stay unchanged.
    pub const fn base(&self) -> i64 {
        self.base as i64
    }

    /// The distance from the bits that are read to the bits that they change.
    pub const fn shift(&self) -> i64 {
        self.shift as i64
    }

    /// The bits that are read.
    pub const fn source_mask(&self) -> i64 {
        let low = self.base as i64 + if self.shift > 0 { self.shift as i64 } else { 0 };
        ((1 << self.bits) - 1) << low
    }

    /// The bits that are changed.
    pub const fn target_mask(&self) -> i64 {
        let low = self.base as i64 + if self.shift < 0 { -(self.shift as i64) } else { 0 };
        ((1 << self.bits) - 1) << low
    }

    /// The swizzled index. `index` must be at least 0, which is not checked: for a negative value
    /// the two's complement is swizzled, which is not an index. [`try_apply`](Self::try_apply)
    /// rejects it.
    #[inline(always)]
    pub const fn apply(&self, index: i64) -> i64 {
        let taken = index & self.source_mask();
        index ^ if self.shift >= 0 { taken >> self.shift } else { taken << -self.shift }
    }

    /// [`apply`](Self::apply) as a `Result`.
    ///
    /// ```
    /// use moye_device::layout::Swizzle;
    /// let swizzle = Swizzle::new(1, 0, 2);
    /// assert_eq!(swizzle.try_apply(4), Ok(5));
    /// assert!(swizzle.try_apply(-4).unwrap_err().text().contains("the index is -4; it must be at least 0"));
    /// ```
    ///
    /// # Errors
    /// If `index` is below 0.
    pub const fn try_apply(&self, index: i64) -> Result<i64, LayoutError> {
        if index >= 0 {
            return Ok(self.apply(index));
        }
        let mut text = Text::of_operands();
        text.str("apply(");
        self.write(&mut text);
        text.str(", ");
        text.int(index);
        text.str(")");
        Err(LayoutError::after(text, Fault::Least { what: "index", value: index, least: 0 }))
    }

    /// The largest swizzled index of `0..end`; `end` is at least 1.
    ///
    /// The range is divided into one aligned block for each bit of `end`. Within a block the low
    /// bits take all values, and the largest result has all of them set, except bits that are the
    /// source of a bit above the block: that bit is more significant, so its source is chosen to
    /// set it.
    pub(crate) const fn largest_below(&self, end: i64) -> i64 {
        let mut largest = 0;
        let mut rest = end;
        while rest != 0 {
            let low = (rest & -rest) - 1;
            rest &= rest - 1;
            let forced = if self.shift < 0 {
                ((self.source_mask() & low) << -self.shift & !low) >> -self.shift
            } else {
                0
            };
            let chosen = if self.shift < 0 { !(rest >> -self.shift) & forced } else { 0 };
            let most = self.apply(rest | chosen) | low & !forced;
            if most > largest {
                largest = most;
            }
        }
        largest
    }

    /// The period of the swizzle: adding a multiple of it commutes with the swizzle.
    pub(crate) const fn period(&self) -> i64 {
        if self.bits == 0 {
            return 1;
        }
        // The topmost bit is at most 62; a period above 64 bits divides only the offset 0.
        match 1i64.checked_shl((self.bits as i64 + self.base as i64 + (self.shift as i64).abs()) as u32) {
            Some(period) if period > 0 => period,
            _ => i64::MAX,
        }
    }

    method! {
        /// This swizzle after `first`, as one swizzle: CuTe's composition of two swizzles with
        /// equal shifts.
        ///
        /// ```
        /// use moye_device::layout::Swizzle;
        /// let both = Swizzle::new(1, 5, 3).composition(Swizzle::new(1, 4, 3));
        /// assert_eq!(both, Swizzle::new(2, 4, 3));
        /// assert_eq!(both.composition(both), Swizzle::NONE);
        /// ```
        ///
        /// # Errors
        /// If no swizzle has this function: the shifts differ, the second reads bits that the first
        /// changes, or the bits that only one of them reads are not adjacent. Then call `apply` of
        /// both in turn.
        composition / try_composition(self: Swizzle, first: Swizzle) -> Swizzle = after;
    }

    /// The swizzle that reads the bits of the mask `source` and changes the bits of `target`, both
    /// a run of bits.
    pub(crate) const fn of_masks(source: i64, target: i64) -> Result<Self, Fault> {
        if source == 0 {
            return Ok(Self::NONE);
        }
        let (high, low) = (source.trailing_zeros() as i64, target.trailing_zeros() as i64);
        let run = source >> high;
        if run & (run + 1) != 0 || target >> low != run {
            return Err(Fault::BitsApart { source, target });
        }
        Self::of(run.count_ones() as i64, if high < low { high } else { low }, high - low)
    }

    /// The swizzle of the same memory with elements `count` times as large, a power of two.
    ///
    /// # Errors
    /// If `count` is not a power of two, or if `shift` is negative and the bits that are read are
    /// within one element while the bits that they change are not.
    pub const fn try_upcast(&self, count: i64) -> Result<Self, LayoutError> {
        match self.upcast(count) {
            Ok(swizzle) => Ok(swizzle),
            Err(fault) => Err(LayoutError::after(self.recast_text("upcast(", count), fault)),
        }
    }

    pub(crate) const fn upcast(&self, count: i64) -> Result<Self, Fault> {
        if count < 1 || !(count as u64).is_power_of_two() {
            return Err(NOT_A_POWER);
        }
        let hidden = count.trailing_zeros() as i64;
        let base = self.base as i64 - hidden;
        if base >= 0 {
            return Ok(Self { base: base as u8, ..*self });
        }
        if self.shift < 0 && self.bits > 0 {
            // The bits that are read are the lower ones: they disappear before the bits that they
            // change.
            if self.target_mask() >> hidden != 0 {
                return Err(Fault::HiddenBits { base: self.base as i64, count });
            }
            return Ok(Self { bits: 0, base: 0, shift: self.shift });
        }
        // The lowest bits that are changed are now within one element, and drop out.
        let bits = self.bits as i64 + base;
        Ok(Self { bits: if bits > 0 { bits as u8 } else { 0 }, base: 0, shift: self.shift })
    }

    /// The swizzle of the same memory with elements `count` times as small, a power of two.
    ///
    /// # Errors
    /// If `count` is not a power of two, or the bits reach past bit 62.
    pub const fn try_downcast(&self, count: i64) -> Result<Self, LayoutError> {
        match self.downcast(count) {
            Ok(swizzle) => Ok(swizzle),
            Err(fault) => Err(LayoutError::after(self.recast_text("downcast(", count), fault)),
        }
    }

    pub(crate) const fn downcast(&self, count: i64) -> Result<Self, Fault> {
        if count < 1 || !(count as u64).is_power_of_two() {
            return Err(NOT_A_POWER);
        }
        Self::of(self.bits as i64, self.base as i64 + count.trailing_zeros() as i64, self.shift as i64)
    }

    const fn recast_text<const N: usize>(&self, operation: &str, count: i64) -> Text<N> {
        let mut text = Text::of_operands();
        text.str(operation);
        self.write(&mut text);
        text.str(", ");
        text.int(count);
        text.str(")");
        text
    }

    pub(crate) const fn write<const N: usize>(&self, text: &mut Text<N>) {
        write(text, self.bits(), self.base(), self.shift());
    }

    pub(crate) const fn text<const N: usize>(&self) -> Text<N> {
        let mut text = Text::new();
        self.write(&mut text);
        text
    }
}

/// `second` after `first`.
pub(crate) const fn after(second: &Swizzle, first: &Swizzle) -> Result<Swizzle, Fault> {
    if first.bits == 0 {
        return Ok(*second);
    }
    if second.bits == 0 {
        return Ok(*first);
    }
    if second.shift != first.shift {
        return Err(Fault::Shifts { second: second.shift(), first: first.shift() });
    }
    if second.source_mask() & first.target_mask() != 0 {
        return Err(Fault::TakenTwice { changed: first.target_mask(), taken: second.source_mask() });
    }
    // A bit that both read is changed twice, that is, not at all.
    Swizzle::of_masks(second.source_mask() ^ first.source_mask(), second.target_mask() ^ first.target_mask())
}

const fn write<const N: usize>(text: &mut Text<N>, bits: i64, base: i64, shift: i64) {
    text.str("Sw<");
    text.int(bits);
    text.str(",");
    text.int(base);
    text.str(",");
    text.int(shift);
    text.str(">");
}

const NOT_A_POWER: Fault =
    Fault::Said { kind: LayoutErrorKind::Range, text: "a swizzle can be recast by a power of two only" };

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text::<32>().as_str())
    }
}

impl fmt::Debug for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
