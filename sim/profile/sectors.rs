//! The number of different sectors of global memory that a kernel accesses, in bounded memory.

use std::collections::HashSet;

/// The most sectors that are stored. A sample of this size is off by about one in a thousand.
pub(crate) const SECTOR_LIMIT: usize = 1 << 20;

/// Different sectors: all of them up to a limit, and a sample above it.
///
/// Above the limit, only sectors whose hash ends in `halvings` zero bits are kept, so that each
/// halving drops about half of them. The kept sectors depend only on the sectors, not on their
/// order.
#[derive(Clone, Debug)]
pub(super) struct Sectors {
    kept: HashSet<u64>,
    halvings: u32,
    limit: usize,
}

impl Default for Sectors {
    fn default() -> Self {
        Self::new(SECTOR_LIMIT)
    }
}

/// Spreads a sector's index over all bits: the finaliser of `MurmurHash3`.
const fn hash(sector: u64) -> u64 {
    let mut bits = sector;
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    bits ^ (bits >> 33)
}

impl Sectors {
    pub fn new(limit: usize) -> Self {
        Self { kept: HashSet::new(), halvings: 0, limit: limit.max(1) }
    }

    const fn keeps(sector: u64, halvings: u32) -> bool {
        hash(sector).trailing_zeros() >= halvings
    }

    pub fn extend(&mut self, sectors: impl IntoIterator<Item = u64>) {
        for sector in sectors {
            if Self::keeps(sector, self.halvings) {
                self.kept.insert(sector);
                self.shrink();
            }
        }
    }

    /// Adds the sectors of another worker.
    pub fn merge(&mut self, other: Self) {
        self.limit = self.limit.min(other.limit);
        if other.halvings > self.halvings {
            self.halvings = other.halvings;
            self.kept.retain(|sector| Self::keeps(*sector, other.halvings));
        }
        self.shrink();
        self.extend(other.kept);
    }

    fn shrink(&mut self) {
        while self.kept.len() > self.limit {
            self.halvings += 1;
            let halvings = self.halvings;
            self.kept.retain(|sector| Self::keeps(*sector, halvings));
        }
    }

    /// The count; above the limit, an estimate.
    pub fn count(&self) -> u64 {
        (self.kept.len() as u64) << self.halvings
    }

    /// One in how many sectors is kept: 1 if the count is exact.
    pub const fn sample(&self) -> u64 {
        1 << self.halvings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_counted_exactly_up_to_the_limit() {
        let mut sectors = Sectors::new(1000);
        sectors.extend((0..1000).chain(0..1000));
        assert_eq!((sectors.count(), sectors.sample()), (1000, 1));
    }

    #[test]
    fn a_sample_above_the_limit_is_bounded_and_close() {
        let mut sectors = Sectors::new(4096);
        sectors.extend(0..1_000_000);
        assert!(sectors.kept.len() <= 4096, "{} sectors are kept", sectors.kept.len());
        assert!(sectors.sample() >= 256, "one of {} is kept", sectors.sample());
        let error = sectors.count() as f64 / 1e6 - 1.0;
        assert!(error.abs() < 0.05, "the estimate is off by {:.1} %", 100.0 * error);
    }

    #[test]
    fn the_count_does_not_depend_on_which_worker_saw_a_sector() {
        let of = |ranges: &[std::ops::Range<u64>]| {
            let mut all = Sectors::new(512);
            for range in ranges {
                let mut part = Sectors::new(512);
                part.extend(range.clone());
                all.merge(part);
            }
            (all.count(), all.sample())
        };
        assert_eq!(of(&[0..40_000, 20_000..30_000]), of(&[35_000..40_000, 0..100, 100..36_000]));
    }
}
