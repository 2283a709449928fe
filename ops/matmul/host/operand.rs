//! Operands in the kernels' form.

use moye_device::layout::Major;
use moye_movement::repack::Strided;
use moye_runtime::operation::Shape;

/// Bytes of an L2 cache line.
pub(super) const LINE: u64 = 128;
/// Bytes of a sector, which is loaded as a whole.
const SECTOR: u64 = 32;

/// A matrix of a batch: its address, and its strides in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    /// The address of the first element of the first batch.
    pub address: u64,
    /// The stride along M or N.
    pub mn: i64,
    /// The stride along K.
    pub k: i64,
    /// The stride between batches.
    pub batch: i64,
    /// Bytes of an element.
    pub bytes: u64,
    /// The number of batches.
    pub batches: u32,
    /// The end of the readable memory, as an address.
    pub end: u64,
}

impl View {
    /// A matrix with rows along M or N, and columns along K.
    pub fn new(address: u64, len: usize, shape: Shape, batch: i64, batches: u32, bytes: usize) -> Self {
        let (mn, k) = shape.strides();
        let bytes = bytes as u64;
        Self { address, mn, k, batch, bytes, batches, end: address + len as u64 * bytes }
    }

    /// The same elements with the modes swapped.
    pub fn exchanged(self) -> Self {
        Self { mn: self.k, k: self.mn, ..self }
    }

    /// The matrix for a copy.
    pub fn strided(self) -> Strided {
        Strided { address: self.address, row: self.mn, k: self.k, batch: self.batch }
    }

    /// The view that starts at batch `first`.
    pub fn at_batch(self, first: u32) -> Self {
        let offset = (i64::from(first) * self.batch) as u64 * self.bytes;
        Self { address: self.address.wrapping_add(offset), ..self }
    }

    /// An equivalent view at a canonical address, which keeps only the offset within a cache line.
    pub fn anywhere(self) -> Self {
        let address = self.address % LINE;
        Self { address, end: address + self.end.saturating_sub(self.address), ..self }
    }

    /// The leading dimension with which a kernel of this major reads the matrix in place. `None` if
    /// it must be rearranged first: the mode is not contiguous, or the rows are not aligned to
    /// `align` bytes.
    pub fn leading(&self, major: Major, extent_mn: u32, extent_k: u32, align: u64) -> Option<i64> {
        let (unit, leading, extent, others) = match major {
            Major::K => (self.k, self.mn, extent_k, extent_mn),
            Major::Mn => (self.mn, self.k, extent_mn, extent_k),
        };
        let contiguous = unit == 1 || extent <= 1;
        let aligned = |stride: i64| (stride as u64).wrapping_mul(self.bytes).is_multiple_of(align);
        let starts = self.address.is_multiple_of(align) && aligned(self.batch);
        // Kernels load whole vectors at the end of a row and ignore the elements past it. In the
        // last row such a load must not pass the end of the buffer.
        let rows = i64::from(others.max(1) - 1) * leading + i64::from(self.batches.max(1) - 1) * self.batch;
        let last = rows as u64 * self.bytes + (u64::from(extent) * self.bytes).next_multiple_of(align);
        let inside = last <= self.end.saturating_sub(self.address);
        (contiguous && starts && inside && (others <= 1 || aligned(leading))).then_some(leading)
    }

    /// The alignment of all `others` rows with this leading dimension.
    pub fn alignment(&self, leading: i64, others: u32) -> Alignment {
        let start = |bytes: u64| {
            let multiple = |stride: i64| (stride as u64).wrapping_mul(self.bytes).is_multiple_of(bytes);
            let (rows, batches) =
                (others <= 1 || multiple(leading), self.batches <= 1 || multiple(self.batch));
            self.address.is_multiple_of(bytes) && rows && batches
        };
        if start(LINE) {
            Alignment::Lines
        } else if start(SECTOR) {
            Alignment::Sectors
        } else {
            Alignment::Any
        }
    }

    /// Bytes of the elements with these extents along M or N and along K.
    pub fn all_bytes(&self, extent: u32, k: u32) -> f64 {
        let batches = if self.batch == 0 { 1 } else { self.batches };
        f64::from(extent) * f64::from(k) * self.bytes as f64 * f64::from(batches)
    }
}

/// The alignment of an operand's rows in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alignment {
    /// At L2 cache lines.
    Lines,
    /// At sectors of 32 bytes.
    Sectors,
    /// At any other address.
    Any,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(address: u64, mn: i64, k: i64, batch: i64) -> View {
        View { address, mn, k, batch, bytes: 2, batches: 2, end: 1 << 40 }
    }

    #[test]
    fn a_matrix_is_read_where_it_lies_if_its_rows_are_contiguous_and_aligned() {
        let (m, k) = (100, 50);
        assert_eq!(view(256, 56, 1, 0).leading(Major::K, m, k, 16), Some(56));
        assert_eq!(view(256, 1, 104, 0).leading(Major::Mn, m, k, 16), Some(104));
        assert_eq!(view(256, 1, 104, 0).leading(Major::K, m, k, 16), None, "not contiguous along K");
        assert_eq!(view(256, 50, 1, 0).leading(Major::K, m, k, 16), None, "rows of 100 bytes");
        assert_eq!(view(258, 56, 1, 0).leading(Major::K, m, k, 16), None, "an odd start");
        assert_eq!(view(256, 56, 1, 5601).leading(Major::K, m, k, 16), None, "odd batches");
        assert_eq!(view(256, 50, 1, 0).leading(Major::K, m, k, 4), Some(50), "4 bytes are enough for some");
        assert_eq!(view(256, 50, 2, 0).leading(Major::K, m, k, 4), None, "every other element");
    }

    #[test]
    fn the_same_matrix_in_another_place_has_the_same_leading_dimension() {
        for address in (0..256).chain([1 << 30, (1 << 30) + 2]) {
            for len in [0, 100, 4999, 5000, 5004, 5100] {
                let view = View { end: address + 2 * len, batches: 1, ..view(address, 50, 1, 0) };
                let moved = view.anywhere();
                assert!(moved.address < LINE && moved.end - moved.address == 2 * len, "{view:?}");
                for align in [2, 4, 16] {
                    for major in [Major::K, Major::Mn] {
                        assert_eq!(
                            moved.leading(major, 100, 50, align),
                            view.leading(major, 100, 50, align),
                            "{view:?}"
                        );
                    }
                }
                let alignment = view.alignment(64, 100);
                assert_eq!(moved.alignment(64, 100), alignment, "{view:?}");
                assert_eq!(alignment == Alignment::Lines, address.is_multiple_of(LINE), "{view:?}");
                let sectors = view.alignment(48, 100);
                assert_eq!(sectors == Alignment::Sectors, address.is_multiple_of(SECTOR), "rows of 96 bytes");
                assert_eq!(view.alignment(56, 100), Alignment::Any, "rows of 112 bytes");
            }
        }
    }

    #[test]
    fn the_last_row_is_read_by_whole_accesses_only_if_they_stay_inside() {
        let row = View { end: 256 + 2 * 50, batches: 1, ..view(256, 0, 1, 0) };
        assert_eq!(
            row.leading(Major::K, 1, 50, 16),
            None,
            "100 bytes are no whole accesses, and nothing follows"
        );
        assert_eq!(row.leading(Major::K, 1, 50, 4), Some(0));
        assert_eq!(View { end: 256 + 112, ..row }.leading(Major::K, 1, 50, 16), Some(0));
    }

    #[test]
    fn strides_that_lead_nowhere_ask_for_nothing() {
        assert_eq!(view(256, 0, 1, 0).leading(Major::K, 1, 50, 16), Some(0), "one row");
        assert_eq!(view(256, 8, 0, 0).leading(Major::K, 100, 1, 16), Some(8), "one column");
        assert_eq!(view(256, 1, 0, 0).leading(Major::Mn, 100, 1, 16), Some(0));
        assert_eq!(view(256, 0, 1, 0).leading(Major::K, 7, 50, 16), Some(0), "the same row seven times");
    }
}
