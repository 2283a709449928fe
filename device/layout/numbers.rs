//! Lists of numbers in messages: what would work instead, and the first values of a function.

use super::text::Text;

/// "8 or 12" for 10 and 4: the multiples of `of` next to `value` that are above 0 and fit in 64
/// bits.
pub(crate) const fn multiples_around<const N: usize>(text: &mut Text<N>, value: i64, of: i64) {
    let below = value - value % of;
    if below > 0 {
        text.int(below);
    }
    if let Some(above) = below.checked_add(of) {
        if below > 0 {
            text.str(" or ");
        }
        text.int(above);
    }
}

/// ", so that no layout has the function (0, 3, 12, ...)".
pub(crate) const fn values_of<const N: usize>(
    text: &mut Text<N>,
    values: &[i64; 4],
    known: usize,
    count: i64,
) {
    if known == 0 {
        return;
    }
    text.str(", so that no layout has the function (");
    let mut i = 0;
    while i < known {
        if i > 0 {
            text.str(", ");
        }
        text.int(values[i]);
        i += 1;
    }
    if known as i64 != count {
        text.str(", ...");
    }
    text.str(")");
}

/// "; a stride of 1, 2, 4 or a multiple of 4 would work" for the extent 4 of elements that are
/// `inner` = 1 apart: of the divisors those in `would`, and the multiples of `beyond`, or this one
/// alone. Whether there are any.
pub(crate) const fn strides<const N: usize>(
    text: &mut Text<N>,
    extent: i64,
    inner: i64,
    would: u8,
    beyond: Beyond,
) -> bool {
    let mut numbers = [0; Divisors::MOST + 1];
    let mut count = 0;
    let mut divisors = Divisors::of(extent);
    while let Some(divisor) = divisors.next() {
        if would >> (divisors.found - 1) & 1 == 1 {
            numbers[count] = divisor * inner;
            count += 1;
        }
    }
    let mut multiple = 0;
    match beyond {
        Beyond::Nothing => {}
        Beyond::Multiples(of) => multiple = of,
        Beyond::One(stride) if count > 0 && numbers[count - 1] == stride => {}
        Beyond::One(stride) => {
            numbers[count] = stride;
            count += 1;
        }
    }
    if count == 0 && multiple == 0 {
        return false;
    }
    if count == 1 && numbers[0] == multiple {
        count = 0;
    }
    text.str(if count > 0 { "; a stride of " } else { "; a stride that is a multiple of " });
    let (listed, _) = numbers.split_at(count);
    alternatives(text, listed, multiple == 0);
    if multiple != 0 {
        text.str(if count > 0 { " or a multiple of " } else { "" });
        text.int(multiple);
    }
    text.str(" would work");
    true
}

/// What would work beside the divisors of an extent.
#[derive(Clone, Copy)]
pub(crate) enum Beyond {
    Nothing,
    One(i64),
    Multiples(i64),
}

/// "1, 2 or 4"; without the `or` before the last, where more comes.
pub(crate) const fn alternatives<const N: usize>(text: &mut Text<N>, numbers: &[i64], ends: bool) {
    let mut i = 0;
    while i < numbers.len() {
        if i > 0 {
            text.str(if ends && i + 1 == numbers.len() { " or " } else { ", " });
        }
        text.int(numbers[i]);
        i += 1;
    }
}

/// The first divisors of an extent, smallest first. Most of a large one are left out: messages are
/// to stay short.
pub(crate) struct Divisors {
    extent: i64,
    tried: i64,
    /// How many there were until now.
    pub found: usize,
}

impl Divisors {
    /// The most that are looked at.
    pub const MOST: usize = 8;

    pub const fn of(extent: i64) -> Self {
        Self { extent, tried: 0, found: 0 }
    }

    pub const fn next(&mut self) -> Option<i64> {
        while self.tried < self.extent && self.tried < 4096 && self.found < Self::MOST {
            self.tried += 1;
            if self.extent % self.tried == 0 {
                self.found += 1;
                return Some(self.tried);
            }
        }
        None
    }
}
