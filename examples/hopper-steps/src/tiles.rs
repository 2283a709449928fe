//! Which tiles a block of a persistent grid has: steps 4 to 6.

/// The tiles of one of many blocks: every so many of all, counted along the columns of bands of eight rows of tiles. Blocks that run at
/// the same time then share rows of A and columns of B.
#[derive(Clone, Copy)]
pub struct Tiles {
    next: u32,
    step: u32,
    rows: u32,
    columns: u32,
}

impl Tiles {
    /// Rows of tiles of a band.
    const BAND: u32 = 8;

    /// Those of block `block` of `blocks`, where there are `rows` x `columns` tiles.
    #[inline(always)]
    pub fn new((block, blocks): (u32, u32), (rows, columns): (u32, u32)) -> Self {
        Self { next: block, step: blocks, rows, columns }
    }
}

impl Iterator for Tiles {
    /// The tile's numbers along M and N.
    type Item = (u32, u32);

    #[inline(always)]
    fn next(&mut self) -> Option<(u32, u32)> {
        if self.next >= self.rows * self.columns {
            return None;
        }
        let (band, place) =
            (self.next / (Self::BAND * self.columns), self.next % (Self::BAND * self.columns));
        self.next += self.step;
        // The last band may have fewer rows.
        let first = band * Self::BAND;
        let rows = if self.rows - first < Self::BAND { self.rows - first } else { Self::BAND };
        Some((first + place % rows, place / rows))
    }
}
