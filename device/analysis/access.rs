//! All requests of a copy: a layout from `(thread, value)` to elements, divided into warps and
//! vectors.

use super::warp::WarpAccess;
use crate::layout::{ComposedLayout, Layout, LayoutErrorKind, Text, coalesce};
use crate::tiling::TilingError;
use core::fmt;

/// The total cost of an access's requests.
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
    /// The most words that one phase of a request needs from one bank.
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

    /// Whether no request moves more sectors than its bytes need.
    pub const fn is_coalesced(&self) -> bool {
        self.sectors == self.fewest_sectors
    }

    /// The most sectors of a request.
    pub const fn sectors_per_request(&self) -> u32 {
        self.most_sectors
    }

    /// The bank conflict degree: the most wavefronts of a phase of a request, 1 without conflicts.
    pub const fn conflict_degree(&self) -> u32 {
        self.degree
    }

    /// Whether no two lanes of a phase need different words of a bank.
    pub const fn is_conflict_free(&self) -> bool {
        self.degree <= 1
    }

    /// No request moves more sectors of global memory than its bytes need, or the kernel does not
    /// compile.
    ///
    /// ```
    /// use moye_device::prelude::*;
    ///
    /// tiled_copy! { Load: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((2, 1))); }
    /// // A tile of a matrix of 4096 rows.
    /// const _: () = Load::COPY.access_s(ComposedLayout::plain(layout!((128, 8):(1, 4096)))).expect_coalesced();
    /// # fn main() {}
    /// ```
    ///
    /// # Panics
    /// If [`is_coalesced`](Self::is_coalesced) is false; in a `const` this is a compile error.
    #[track_caller]
    pub const fn expect_coalesced(&self) {
        if !self.is_coalesced() {
            TilingError::of("access")
                .str("the requests move ")
                .int(self.sectors as i64)
                .str(" sectors of global memory where ")
                .int(self.fewest_sectors as i64)
                .str(" hold the same bytes: let neighbouring threads take neighbouring words along the contiguous axis")
                .raise();
        }
    }

    /// No phase of a request needs more than one word of a bank of shared memory, or the kernel
    /// does not compile.
    ///
    /// ```compile_fail
    /// use moye_device::prelude::*;
    ///
    /// tiled_copy! { Load: TiledCopy<UniversalCopy<f32>, f32> = TiledCopy::new(layout!((32, 8):(8, 1)), layout!((1, 1))); }
    /// static_layout! { Smem = layout!((128, 8)); }
    /// const _: () = Load::COPY.access_d(Smem::COMPOSED).expect_conflict_free(); // 8 words of one bank: pad or swizzle
    /// # fn main() {}
    /// ```
    ///
    /// # Panics
    /// If [`is_conflict_free`](Self::is_conflict_free) is false; in a `const` this is a compile
    /// error.
    #[track_caller]
    pub const fn expect_conflict_free(&self) {
        if !self.is_conflict_free() {
            TilingError::of("access")
                .str("a request needs ")
                .int(self.degree as i64)
                .str(" words of one bank of shared memory, which come one after the other: pad or swizzle the tile")
                .raise();
        }
    }

    /// The costs of both together.
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
        let (sectors, (wavefronts, degree)) = (request.sectors(), request.served());
        Self {
            requests: self.requests + 1,
            sectors: self.sectors + sectors,
            most_sectors: if sectors > self.most_sectors { sectors } else { self.most_sectors },
            fewest_sectors: self.fewest_sectors + request.fewest_sectors(),
            wavefronts: self.wavefronts + wavefronts,
            fewest_wavefronts: self.fewest_wavefronts + request.phases(),
            degree: if degree > self.degree { degree } else { self.degree },
        }
    }
}

/// The reason why a requested access is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// The layout is not a layout of `(thread, value)`.
    Rank {
        /// Its rank.
        rank: usize,
    },
    /// The values of a thread are not a multiple of those of an access.
    Values {
        /// Values of a thread.
        values: i64,
        /// Values of an access.
        per_access: i64,
    },
    /// No access has this number of bits.
    Bits {
        /// Values of an access times the bits of an element.
        bits: i64,
    },
    /// The values of one access are not contiguous, or do not start at a multiple of its size.
    Scattered {
        /// The thread.
        thread: i64,
        /// The first value of the access.
        value: i64,
        /// The index of the first value, in elements.
        first: i64,
        /// The offset of the first value that is not contiguous, or of the first value if it is
        /// misaligned.
        other: i64,
    },
    /// The layout has no indices to analyse: the algebra's error.
    Layout(LayoutErrorKind),
    /// More addresses than a warp has lanes.
    Lanes {
        /// The addresses.
        lanes: usize,
    },
    /// No access of a lane has this number of bytes.
    Bytes {
        /// The bytes.
        bytes: i64,
    },
    /// An address that is negative or not a multiple of the access's size.
    Address {
        /// The lane.
        lane: usize,
        /// Its address in bytes.
        address: i64,
        /// The bytes of the access.
        bytes: i64,
    },
    /// No matrix instruction has this number of rows.
    Rows {
        /// The rows.
        rows: i64,
    },
    /// A row of a matrix instruction that does not start at a multiple of 16 bytes.
    Row {
        /// The row.
        row: i64,
        /// The element at which it starts.
        element: i64,
        /// The bits of an element.
        element_bits: i64,
    },
}

impl AccessError {
    /// The problem with its values, and what would work.
    pub(crate) const fn message(&self) -> Text<400> {
        let mut text = Text::new();
        match *self {
            Self::Rank { rank } => {
                text.str("an access needs a layout of two modes, (thread, value); the rank is ");
                text.size(rank);
            }
            Self::Values { values, per_access } => {
                text.str("a thread has ");
                text.int(values);
                text.str(" values, not a multiple of the ");
                text.int(per_access);
                text.str(" of an access; a divisor of ");
                text.int(values);
                text.str(" would work");
            }
            Self::Bits { bits } => {
                text.str("values of an access times bits of an element are ");
                text.int(bits);
                text.str(" bits; an access has 8, 16, 32, 64 or 128");
            }
            Self::Scattered { thread, value, first, other } => {
                text.str("the access of thread ");
                text.int(thread);
                text.str(" that starts with its value ");
                text.int(value);
                text.str(" begins at element ");
                text.int(first);
                if first == other {
                    text.str(", which is not a multiple of its size");
                } else {
                    text.str(" and has element ");
                    text.int(other);
                    text.str(" beside it, where the next one should be");
                }
                text.str("; fewer values an access, or another value layout would work");
            }
            Self::Layout(LayoutErrorKind::Overflow) => {
                text.str("an address does not fit in 64 bits; smaller strides would work");
            }
            Self::Layout(_) => text.str(
                "an index of the layout is negative, or a coordinate (such as 1@0); strides that lead to indices from \
                 0 on would work",
            ),
            Self::Lanes { lanes } => {
                text.size(lanes);
                text.str(" addresses for a warp of 32 lanes; at most 32 would work");
            }
            Self::Bytes { bytes } => {
                text.str("a lane's access of ");
                text.int(bytes);
                text.str(" bytes; 1, 2, 4, 8 or 16 would work");
            }
            Self::Address { lane, address, bytes } => {
                text.str("the address ");
                text.int(address);
                text.str(" of lane ");
                text.size(lane);
                text.str(" is negative or not a multiple of the ");
                text.int(bytes);
                text.str(" bytes of the access; a multiple from 0 on would work");
            }
            Self::Rows { rows } => {
                text.int(rows);
                text.str(" rows; ldmatrix and stmatrix take 8, 16 or 32");
            }
            Self::Row { row, element, element_bits } => {
                text.str("row ");
                text.int(row);
                text.str(" starts at element ");
                text.int(element);
                text.str(" of ");
                text.int(element_bits);
                text.str(" bits; a row of ldmatrix or stmatrix starts at a multiple of 16 bytes");
            }
        }
        text
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message().as_str())
    }
}

impl core::error::Error for AccessError {}

/// The requests of an access to global memory: `layout` maps `(thread, value)` to the element,
/// elements have `element_bits` bits, and each instruction moves `per_access` values of every lane.
///
/// # Panics
/// If [`try_global_access`] returns an error; in a `const` this is a compile error.
#[track_caller]
pub const fn global_access(layout: Layout, element_bits: i64, per_access: i64) -> AccessReport {
    match try_global_access(layout, element_bits, per_access) {
        Ok(report) => report,
        Err(error) => panic!("{}", error.message().as_str()),
    }
}

/// [`global_access`] as a `Result`.
///
/// # Errors
/// If the layout does not map threads and values, or an access of this many values is impossible.
pub const fn try_global_access(
    layout: Layout,
    element_bits: i64,
    per_access: i64,
) -> Result<AccessReport, AccessError> {
    match ComposedLayout::try_plain(layout) {
        Ok(layout) => try_shared_access(layout, element_bits, per_access),
        Err(error) => Err(AccessError::Layout(error.kind())),
    }
}

/// The requests of an access to shared memory: like [`global_access`], with a swizzle if there is
/// one ([`ComposedLayout::plain`] for a layout without).
///
/// # Panics
/// If [`try_shared_access`] returns an error; in a `const` this is a compile error.
#[track_caller]
pub const fn shared_access(layout: ComposedLayout, element_bits: i64, per_access: i64) -> AccessReport {
    match try_shared_access(layout, element_bits, per_access) {
        Ok(report) => report,
        Err(error) => panic!("{}", error.message().as_str()),
    }
}

/// [`shared_access`] as a `Result`.
///
/// # Errors
/// Same as [`try_global_access`].
pub const fn try_shared_access(
    layout: ComposedLayout,
    element_bits: i64,
    per_access: i64,
) -> Result<AccessReport, AccessError> {
    if layout.layout.rank() != 2 {
        return Err(AccessError::Rank { rank: layout.layout.rank() });
    }
    requests(&layout, element_bits, per_access, WARP)
}

const WARP: i64 = 32;

/// The requests of a layout of `(thread, value)` in which the first `lanes` threads of each warp
/// participate.
///
/// Kernels compute constants with it, so it does as little as possible: a layout is linear, so an
/// element's index is the sum of the thread's and the value's, and requests that differ by a
/// multiple of the period of banks, sectors and swizzle cost the same.
pub(crate) const fn requests(
    layout: &ComposedLayout,
    element_bits: i64,
    per_access: i64,
    lanes: i64,
) -> Result<AccessReport, AccessError> {
    let (threads, values) = (layout.layout.extent(0), layout.layout.extent(1));
    if per_access < 1 || values % per_access != 0 {
        return Err(AccessError::Values { values, per_access });
    }
    let bits = per_access.saturating_mul(element_bits);
    if element_bits < 1 || !matches!(bits, 8 | 16 | 32 | 64 | 128) {
        return Err(AccessError::Bits { bits });
    }
    if layout.cosize().checked_mul(element_bits).is_none() {
        return Err(AccessError::Layout(LayoutErrorKind::Overflow));
    }
    let swizzle = layout.swizzle;
    // Whether the swizzle may separate the elements of one access.
    let parted = swizzle.bits() > 0 && 1 << swizzle.base() < per_access;
    let period = period(layout, element_bits);
    let (lane_of, value_of) = (coalesce(layout.layout.mode(0)), coalesce(layout.layout.mode(1)));
    let mut report = AccessReport::NOTHING;
    let mut of_warp = AccessReport::NOTHING;
    let mut seen = Seen::NOTHING;
    let mut starts = [0; WARP as usize];
    let mut used = 0;
    let mut warp = 0;
    while warp < threads {
        // The result for the previous warp holds for this one, if the offsets between its lanes are
        // the same.
        let shift = layout.offset + lane_of.at(warp) - starts[0];
        let mut alike = used == min(min(threads - warp, WARP), lanes);
        used = min(min(threads - warp, WARP), lanes);
        let mut lane = 0;
        while lane < used {
            let start = layout.offset + lane_of.at(warp + lane);
            alike = alike && start - starts[lane as usize] == shift;
            starts[lane as usize] = start;
            lane += 1;
        }
        warp += WARP;
        // The period is a power of two.
        if alike && shift & (period - 1) == 0 {
            report = report.plus(&of_warp);
            continue;
        }
        if !alike {
            seen = Seen::NOTHING;
        }
        of_warp = AccessReport::NOTHING;
        let thread = warp - WARP;
        let mut value = 0;
        while value < values {
            let first = value_of.at(value);
            // Elements that are adjacent in the first warp are adjacent in the others.
            let mut i = if thread == 0 { 1 } else { per_access };
            while i < per_access {
                let other = value_of.at(value + i);
                if other != first + i {
                    let (first, other) = (starts[0] + first, starts[0] + other);
                    return Err(AccessError::Scattered { thread, value, first, other });
                }
                i += 1;
            }
            let place = (starts[0] + first) & (period - 1);
            let request = match seen.find(place) {
                Some(request) => request,
                None => {
                    let mut addresses = [0; WARP as usize];
                    let mut lane = 0;
                    while lane < used {
                        let start = starts[lane as usize] + first;
                        let element = swizzle.apply(start);
                        if let Some(other) = misplaced(layout, start, per_access, parted) {
                            return Err(AccessError::Scattered {
                                thread: thread + lane,
                                value,
                                first: element,
                                other,
                            });
                        }
                        addresses[lane as usize] = element * element_bits / 8;
                        lane += 1;
                    }
                    let (addresses, _) = addresses.split_at(used as usize);
                    let request = AccessReport::NOTHING.and(&WarpAccess::new(addresses, bits / 8));
                    seen.add(place, request);
                    request
                }
            };
            of_warp = of_warp.plus(&request);
            value += per_access;
        }
        report = report.plus(&of_warp);
    }
    Ok(report)
}

/// An element of the access that starts at `start` which is not where a single access needs it; the
/// first element if the access is misaligned.
const fn misplaced(layout: &ComposedLayout, start: i64, per_access: i64, parted: bool) -> Option<i64> {
    let first = layout.swizzle.apply(start);
    if first % per_access != 0 {
        return Some(first);
    }
    let mut i = 1;
    while parted && i < per_access {
        let other = layout.swizzle.apply(start + i);
        if other != first + i {
            return Some(other);
        }
        i += 1;
    }
    None
}

/// The period in elements of banks, sectors and swizzle. Without a swizzle, moving a request by
/// less than all banks only rotates the banks, so the period of sectors is sufficient.
const fn period(layout: &ComposedLayout, element_bits: i64) -> i64 {
    let swizzle = layout.swizzle;
    if swizzle.bits() == 0 {
        return 8 * super::warp::SECTOR_BYTES / element_bits;
    }
    let banks = 8 * super::warp::BANKS * super::warp::BANK_BYTES / element_bits;
    let block = 1 << (swizzle.bits() + swizzle.base() + swizzle.shift().abs());
    // Both are powers of two.
    if banks < block { block } else { banks }
}

/// The analysed requests, by the starts of their values within a period.
struct Seen {
    starts: [i64; Seen::ROOM],
    requests: [AccessReport; Seen::ROOM],
    count: usize,
}

impl Seen {
    const ROOM: usize = 16;
    const NOTHING: Self =
        Self { starts: [0; Self::ROOM], requests: [AccessReport::NOTHING; Self::ROOM], count: 0 };

    const fn find(&self, start: i64) -> Option<AccessReport> {
        let mut i = 0;
        while i < self.count {
            if self.starts[i] == start {
                return Some(self.requests[i]);
            }
            i += 1;
        }
        None
    }

    const fn add(&mut self, start: i64, request: AccessReport) {
        if self.count < Self::ROOM {
            self.starts[self.count] = start;
            self.requests[self.count] = request;
            self.count += 1;
        }
    }
}

const fn min(a: i64, b: i64) -> i64 {
    if a < b { a } else { b }
}

/// The requests of an `ldmatrix` or `stmatrix` of `rows.size() / 8` matrices (1, 2 or 4): `rows`
/// maps a lane's row to its first element; elements have `element_bits` bits.
///
/// # Panics
/// If [`try_matrix_access`] returns an error; in a `const` this is a compile error.
#[track_caller]
pub const fn matrix_access(rows: ComposedLayout, element_bits: i64) -> AccessReport {
    match try_matrix_access(rows, element_bits) {
        Ok(report) => report,
        Err(error) => panic!("{}", error.message().as_str()),
    }
}

/// [`matrix_access`] as a `Result`.
///
/// # Errors
/// If there are not 8, 16 or 32 rows, or a row does not start at a multiple of 16 bytes.
pub const fn try_matrix_access(rows: ComposedLayout, element_bits: i64) -> Result<AccessReport, AccessError> {
    let count = rows.size();
    if !matches!(count, 8 | 16 | 32) {
        return Err(AccessError::Rows { rows: count });
    }
    if element_bits < 1 {
        return Err(AccessError::Bits { bits: element_bits });
    }
    let mut addresses = [0; 32];
    let mut row = 0;
    while row < count {
        let element = rows.at(row);
        addresses[row as usize] = match element.checked_mul(element_bits) {
            Some(bits) if bits % 128 == 0 => bits / 8,
            Some(_) => return Err(AccessError::Row { row, element, element_bits }),
            None => return Err(AccessError::Layout(LayoutErrorKind::Overflow)),
        };
        row += 1;
    }
    let (used, _) = addresses.split_at(count as usize);
    Ok(AccessReport::NOTHING.and(&WarpAccess::new(used, 16)))
}
