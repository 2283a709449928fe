//! All requests of a copy: a layout from `(thread, value)` to elements, cut into warps and vectors.

use super::warp::WarpAccess;
use crate::layout::{ComposedLayout, Layout};
use core::fmt;

/// What the requests of an access cost together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessReport {
    /// Requests: instructions times warps.
    pub requests: u32,
    /// Sectors of 32 bytes that they move in global memory.
    pub sectors: u32,
    /// The most sectors of one request.
    pub most_sectors: u32,
    /// The fewest sectors that the same bytes could take, request by request.
    pub fewest_sectors: u32,
    /// Wavefronts that they take in shared memory.
    pub wavefronts: u32,
    /// The wavefronts that they would take without conflicts.
    pub fewest_wavefronts: u32,
    /// The most words that one phase of a request asks of one bank.
    pub degree: u32,
}

impl AccessReport {
    pub(crate) const NOTHING: Self = Self {
        requests: 0,
        sectors: 0,
        most_sectors: 0,
        fewest_sectors: 0,
        wavefronts: 0,
        fewest_wavefronts: 0,
        degree: 0,
    };

    /// Whether every request moves no more sectors than its bytes need.
    pub const fn is_coalesced(&self) -> bool {
        self.sectors == self.fewest_sectors
    }

    /// The most sectors of a request.
    pub const fn sectors_per_request(&self) -> u32 {
        self.most_sectors
    }

    /// The bank conflict degree: `n` where some phase of some request takes `n` wavefronts, 1 without conflicts.
    pub const fn conflict_degree(&self) -> u32 {
        self.degree
    }

    /// Whether no two lanes of a phase ask a bank for different words.
    pub const fn is_conflict_free(&self) -> bool {
        self.degree <= 1
    }

    /// Both together.
    pub(crate) const fn plus(self, other: &Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            sectors: self.sectors + other.sectors,
            most_sectors: if other.most_sectors > self.most_sectors {
                other.most_sectors
            } else {
                self.most_sectors
            },
            fewest_sectors: self.fewest_sectors + other.fewest_sectors,
            wavefronts: self.wavefronts + other.wavefronts,
            fewest_wavefronts: self.fewest_wavefronts + other.fewest_wavefronts,
            degree: if other.degree > self.degree { other.degree } else { self.degree },
        }
    }

    const fn and(self, request: &WarpAccess) -> Self {
        let (sectors, degree) = (request.sectors(), request.conflict_degree());
        Self {
            requests: self.requests + 1,
            sectors: self.sectors + sectors,
            most_sectors: if sectors > self.most_sectors { sectors } else { self.most_sectors },
            fewest_sectors: self.fewest_sectors + request.fewest_sectors(),
            wavefronts: self.wavefronts + request.wavefronts(),
            fewest_wavefronts: self.fewest_wavefronts + request.phases(),
            degree: if degree > self.degree { degree } else { self.degree },
        }
    }
}

/// Why an access cannot be made as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// The layout is not one of `(thread, value)`.
    Rank {
        /// Its rank.
        rank: usize,
    },
    /// The values of a thread are no multiple of those of an access.
    Values {
        /// Values of a thread.
        values: i64,
        /// Values of an access.
        per_access: i64,
    },
    /// An access of this many bits does not exist.
    Bits {
        /// Values of an access times the bits of an element.
        bits: i64,
    },
    /// The values of one access are not next to each other, or do not start at a multiple of its size.
    Scattered {
        /// The thread.
        thread: i64,
        /// The first value of the access.
        value: i64,
        /// Where the first value lies, in elements.
        first: i64,
        /// The offset of the value that lies elsewhere than right behind, or of the first itself where it is misaligned.
        other: i64,
    },
}

impl AccessError {
    pub(crate) const fn text(&self) -> &'static str {
        match self {
            Self::Rank { .. } => "an access needs a layout of two modes, (thread, value)",
            Self::Values { .. } => "the values of a thread are no multiple of the values of an access",
            Self::Bits { .. } => {
                "an access has 8, 16, 32, 64 or 128 bits: values of an access times bits of an element"
            }
            Self::Scattered { .. } => {
                "the values of an access do not lie next to each other from a multiple of its size on: take fewer values \
                 an access, or another value layout"
            }
        }
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())?;
        match self {
            Self::Rank { rank } => write!(f, " (the rank is {rank})"),
            Self::Values { values, per_access } => write!(f, " ({values} and {per_access})"),
            Self::Bits { bits } => write!(f, " (these are {bits})"),
            Self::Scattered { thread, value, first, other } => {
                write!(
                    f,
                    " (thread {thread}: value {value} is element {first}, a value of its access is element {other})"
                )
            }
        }
    }
}

impl core::error::Error for AccessError {}

/// The requests of an access to global memory: `layout` takes `(thread, value)` to the element, elements have
/// `element_bits` bits, and each instruction moves `per_access` values of every lane.
///
/// # Panics
/// In a `const`: does not compile. Where [`try_global_access`] gives an error.
#[track_caller]
pub const fn global_access(layout: Layout, element_bits: i64, per_access: i64) -> AccessReport {
    match try_global_access(layout, element_bits, per_access) {
        Ok(report) => report,
        Err(error) => panic!("{}", error.text()),
    }
}

/// [`global_access`] as a `Result`.
///
/// # Errors
/// Where the layout is not one of threads and values, or an access of so many values is not possible.
pub const fn try_global_access(
    layout: Layout,
    element_bits: i64,
    per_access: i64,
) -> Result<AccessReport, AccessError> {
    try_shared_access(ComposedLayout::plain(layout), element_bits, per_access)
}

/// The requests of an access to shared memory: as [`global_access`], with a swizzle where there is one
/// ([`ComposedLayout::plain`] for a layout without).
///
/// # Panics
/// In a `const`: does not compile. Where [`try_shared_access`] gives an error.
#[track_caller]
pub const fn shared_access(layout: ComposedLayout, element_bits: i64, per_access: i64) -> AccessReport {
    match try_shared_access(layout, element_bits, per_access) {
        Ok(report) => report,
        Err(error) => panic!("{}", error.text()),
    }
}

/// [`shared_access`] as a `Result`.
///
/// # Errors
/// As [`try_global_access`].
pub const fn try_shared_access(
    layout: ComposedLayout,
    element_bits: i64,
    per_access: i64,
) -> Result<AccessReport, AccessError> {
    if layout.layout.rank() != 2 {
        return Err(AccessError::Rank { rank: layout.layout.rank() });
    }
    let (threads, values) = (layout.layout.extent(0), layout.layout.extent(1));
    if per_access < 1 || values % per_access != 0 {
        return Err(AccessError::Values { values, per_access });
    }
    let bits = per_access * element_bits;
    if !matches!(bits, 8 | 16 | 32 | 64 | 128) {
        return Err(AccessError::Bits { bits });
    }
    let mut report = AccessReport::NOTHING;
    let mut warp = 0;
    while warp < threads {
        let lanes = if threads - warp < 32 { threads - warp } else { 32 };
        let mut value = 0;
        while value < values {
            let mut addresses = [0; 32];
            let mut lane = 0;
            while lane < lanes {
                let thread = warp + lane;
                addresses[lane as usize] = match start_of(&layout, thread, value, per_access) {
                    Ok(element) => element * element_bits / 8,
                    Err(error) => return Err(error),
                };
                lane += 1;
            }
            let (used, _) = addresses.split_at(lanes as usize);
            report = report.and(&WarpAccess::new(used, bits / 8));
            value += per_access;
        }
        warp += 32;
    }
    Ok(report)
}

/// The element that an access starts with; its values must follow each other from there on.
const fn start_of(
    layout: &ComposedLayout,
    thread: i64,
    value: i64,
    per_access: i64,
) -> Result<i64, AccessError> {
    let threads = layout.layout.extent(0);
    let first = layout.at(thread + threads * value);
    if first % per_access != 0 {
        return Err(AccessError::Scattered { thread, value, first, other: first });
    }
    let mut i = 1;
    while i < per_access {
        let other = layout.at(thread + threads * (value + i));
        if other != first + i {
            return Err(AccessError::Scattered { thread, value, first, other });
        }
        i += 1;
    }
    Ok(first)
}

/// The requests of an `ldmatrix` or `stmatrix` of `rows.size() / 8` matrices (1, 2 or 4): `rows` takes the row of a lane
/// to the element that it starts with, elements having `element_bits` bits.
///
/// # Panics
/// In a `const`: does not compile. Where there are not 8, 16 or 32 rows, or one does not start at a multiple of 16 bytes.
#[track_caller]
pub const fn matrix_access(rows: ComposedLayout, element_bits: i64) -> AccessReport {
    let count = rows.size();
    assert!(matches!(count, 8 | 16 | 32), "ldmatrix and stmatrix take 8, 16 or 32 rows");
    let mut addresses = [0; 32];
    let mut row = 0;
    while row < count {
        let bits = rows.at(row) * element_bits;
        assert!(bits % 128 == 0, "a row of ldmatrix or stmatrix starts at a multiple of 16 bytes");
        addresses[row as usize] = bits / 8;
        row += 1;
    }
    let (used, _) = addresses.split_at(count as usize);
    AccessReport::NOTHING.and(&WarpAccess::new(used, 16))
}
