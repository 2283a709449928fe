//! The tile scheduler of a persistent grid, in steps 4 to 6.

/// Rows of tiles of a band.
pub const BAND: u32 = 8;

/// The tiles of one block of a persistent grid: every `blocks`-th tile, counted along the columns
/// of bands of rows of tiles. Concurrent blocks then share rows of A and columns of B.
#[derive(Clone, Copy)]
pub struct Tiles {
    next: u32,
    step: u32,
    rows: u32,
    columns: u32,
    band: u32,
}

impl Tiles {
    /// The tiles of block `block` of `blocks`, for `rows` x `columns` tiles in bands of `band`
    /// rows.
    #[inline(always)]
    pub fn new(block: u32, blocks: u32, (rows, columns): (u32, u32), band: u32) -> Self {
        Self { next: block, step: blocks, rows, columns, band }
    }
}

impl Iterator for Tiles {
    /// The tile's indices along M and N.
    type Item = (u32, u32);

    #[inline(always)]
    fn next(&mut self) -> Option<(u32, u32)> {
        if self.next >= self.rows * self.columns {
            return None;
        }
        let (band, place) = (self.next / (self.band * self.columns), self.next % (self.band * self.columns));
        self.next += self.step;
        // The last band may have fewer rows.
        let first = band * self.band;
        let rows = if self.rows - first < self.band { self.rows - first } else { self.band };
        Some((first + place % rows, place / rows))
    }
}
