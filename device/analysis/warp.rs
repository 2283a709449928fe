//! One request: the accesses of a warp's lanes by one instruction.

use super::access::AccessError;

/// Bytes of a sector of global memory.
pub const SECTOR_BYTES: i64 = 32;

/// Banks of shared memory, of 4 bytes each.
pub const BANKS: i64 = 32;

pub(crate) const BANK_BYTES: i64 = 4;
const LANES: usize = 32;

/// The accesses of up to 32 lanes by one instruction: a byte address for each lane, and the bytes
/// that each accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpAccess {
    addresses: [i64; LANES],
    lanes: usize,
    bytes: i64,
}

impl WarpAccess {
    /// Lane `i` accesses `bytes` bytes (1, 2, 4, 8 or 16) at `addresses[i]`; lanes without an
    /// address access nothing.
    ///
    /// # Panics
    /// If [`try_new`](Self::try_new) returns an error.
    #[track_caller]
    pub const fn new(addresses: &[i64], bytes: i64) -> Self {
        match Self::try_new(addresses, bytes) {
            Ok(access) => access,
            Err(error) => panic!("{}", error.message().as_str()),
        }
    }

    /// [`new`](Self::new) as a `Result`.
    ///
    /// # Errors
    /// With more than 32 addresses, another size, or an address that is negative or not a multiple
    /// of the size.
    pub const fn try_new(addresses: &[i64], bytes: i64) -> Result<Self, AccessError> {
        if addresses.len() > LANES {
            return Err(AccessError::Lanes { lanes: addresses.len() });
        }
        if !matches!(bytes, 1 | 2 | 4 | 8 | 16) {
            return Err(AccessError::Bytes { bytes });
        }
        let mut access = Self { addresses: [0; LANES], lanes: addresses.len(), bytes };
        let mut lane = 0;
        while lane < addresses.len() {
            let address = addresses[lane];
            if address < 0 || address % bytes != 0 {
                return Err(AccessError::Address { lane, address, bytes });
            }
            access.addresses[lane] = address;
            lane += 1;
        }
        Ok(access)
    }

    /// The sectors of 32 bytes that the request moves.
    pub const fn sectors(&self) -> u32 {
        // An access is aligned and at most 16 bytes, so it is in one sector.
        self.distinct(0, self.lanes, SECTOR_BYTES)
    }

    /// The fewest sectors that could hold the distinct bytes of the request.
    pub const fn fewest_sectors(&self) -> u32 {
        let bytes = self.distinct(0, self.lanes, self.bytes) as i64 * self.bytes;
        ((bytes + SECTOR_BYTES - 1) / SECTOR_BYTES) as u32
    }

    /// Phases in which shared memory serves the request without conflicts: 1 up to 4 bytes a lane,
    /// 2 for 8, 4 for 16, fewer if lanes are missing.
    pub const fn phases(&self) -> u32 {
        self.lanes.div_ceil(self.lanes_of_a_phase()) as u32
    }

    const fn lanes_of_a_phase(&self) -> usize {
        match self.bytes {
            8 => 16,
            16 => 8,
            _ => 32,
        }
    }

    /// The wavefronts in which shared memory serves the request: [`phases`](Self::phases) without
    /// conflicts.
    pub const fn wavefronts(&self) -> u32 {
        self.served().0
    }

    /// The most distinct words that one phase needs from one bank: 1 without conflicts.
    pub const fn conflict_degree(&self) -> u32 {
        self.served().1
    }

    /// [`wavefronts`](Self::wavefronts) and [`conflict_degree`](Self::conflict_degree), phase by
    /// phase.
    pub(crate) const fn served(&self) -> (u32, u32) {
        let step = self.lanes_of_a_phase();
        let (mut start, mut all, mut most) = (0, 0, 0);
        while start < self.lanes {
            let degree = self.degree(start, min(start + step, self.lanes));
            all += degree;
            if degree > most {
                most = degree;
            }
            start += step;
        }
        (all, most)
    }

    /// The most distinct words of one bank among the lanes `start..end`.
    const fn degree(&self, start: usize, end: usize) -> u32 {
        let words = if self.bytes > BANK_BYTES { self.bytes / BANK_BYTES } else { 1 };
        let shared = max(self.bytes, BANK_BYTES);
        let mut counts = [0; BANKS as usize];
        let mut most = 0;
        let mut last = -1;
        let mut lane = start;
        while lane < end {
            // Lanes that request the same word share it. Accesses are aligned, so two lanes share
            // all of their words or none.
            if self.is_new(start, lane, shared, &mut last) {
                let mut word = self.addresses[lane] / BANK_BYTES;
                let end = word + words;
                while word < end {
                    let bank = (word % BANKS) as usize;
                    counts[bank] += 1;
                    if counts[bank] > most {
                        most = counts[bank];
                    }
                    word += 1;
                }
            }
            lane += 1;
        }
        most
    }

    /// The number of distinct aligned blocks of `block` bytes that the lanes `start..end` access.
    const fn distinct(&self, start: usize, end: usize, block: i64) -> u32 {
        let mut count = 0;
        let mut last = -1;
        let mut lane = start;
        while lane < end {
            if self.is_new(start, lane, block, &mut last) {
                count += 1;
            }
            lane += 1;
        }
        count
    }

    /// Whether no lane of `start..lane` accesses the block of `block` bytes that `lane` accesses.
    /// `last` is the highest block of those lanes, -1 before the first: addresses mostly ascend,
    /// which avoids a search.
    const fn is_new(&self, start: usize, lane: usize, block: i64, last: &mut i64) -> bool {
        let own = self.addresses[lane] / block;
        if own > *last {
            *last = own;
            return true;
        }
        if own == *last {
            return false;
        }
        let mut other = start;
        while other < lane {
            if self.addresses[other] / block == own {
                return false;
            }
            other += 1;
        }
        true
    }
}

const fn min(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

const fn max(a: i64, b: i64) -> i64 {
    if a > b { a } else { b }
}
