//! Copies rows between global and shared memory, 16 bytes per thread at a time. Each row has a
//! separate address: packed heads and pages have no common row stride.

use super::config::swizzle_of_piece;
use moye_device::arch::{CpAsyncKind, L2Prefetch, Word, Word128, cp_async_zfill};

/// The L2 prefetch hint of a copy: 128 bytes, where the PTX version has such hints.
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "ptx74"))]
const PREFETCH: L2Prefetch = L2Prefetch::B128;
/// No L2 prefetch hint: the PTX version has none.
#[cfg(all(target_arch = "nvptx64", not(target_feature = "ptx74")))]
const PREFETCH: L2Prefetch = L2Prefetch::None;

/// A thread's part of a tile of `rows` rows of `columns` 16-bit elements, spread over `threads`
/// threads; its layout in shared memory is that of [`SmemQ`](super::config::SmemQ) and similar
/// layouts. All of these are constants.
#[derive(Clone, Copy)]
pub struct Rows {
    rows: u32,
    columns: u32,
    /// Columns of a swizzled row of shared memory; 0: a row holds all columns and is padded.
    piece: u32,
    threads: u32,
    /// The thread's first row.
    pub row: u32,
    /// The thread's first column.
    column: u32,
    /// The offset of that element in shared memory, in bytes from the tile.
    place: u32,
}

/// Bytes of an element.
const BYTES: u32 = 2;
/// Elements that are moved at once.
const WIDTH: u32 = 8;

impl Rows {
    /// The part of `thread` of a tile in pieces of `piece` columns.
    #[inline(always)]
    #[must_use]
    pub fn new(rows: u32, columns: u32, piece: u32, threads: u32, thread: u32) -> Self {
        let mut part = Self { rows, columns, piece, threads, row: 0, column: 0, place: 0 };
        let across = part.run() / WIDTH;
        (part.row, part.column) = (thread / across, thread % across * WIDTH);
        part.place = offset((rows, columns), piece, part.row, part.column);
        part
    }

    /// The part of another thread of the same tile.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, thread: u32) -> Self {
        Self::new(self.rows, self.columns, self.piece, self.threads, thread)
    }

    /// Columns of a row that neighbouring threads copy.
    const fn run(&self) -> u32 {
        match self.piece {
            0 => 16,
            piece => piece,
        }
    }

    /// Rows that the threads copy at a time.
    #[inline(always)]
    #[must_use]
    pub const fn rows_at_once(&self) -> u32 {
        self.threads / (self.run() / WIDTH)
    }

    /// The offset of the thread's element `row` rows and `column` columns further on. Both are
    /// constants.
    #[inline(always)]
    const fn place(&self, row: u32, column: u32) -> u32 {
        let further = offset((self.rows, self.columns), self.piece, row, column);
        if self.piece == 0 {
            return self.place + further;
        }
        // The bits of the row and of the step are disjoint, so that the swizzle of the sum is the
        // exclusive or of both. Only 3 bits can be set in both; the rest is added, which the copy
        // takes as an immediate.
        const EXCHANGED: u32 = 7 * WIDTH * BYTES;
        (self.place ^ further & EXCHANGED) + (further & !EXCHANGED)
    }

    /// Calls `f` for each of the thread's rows with the row, then for each word of the row with its
    /// place in shared memory and in the row, in bytes.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn each<R: Copy>(&self, mut row: impl FnMut(u32) -> R, mut word: impl FnMut(R, u32, u32)) {
        if cfg!(target_arch = "nvptx64") {
            return self.of_each(row, word);
        }
        // One function for all callers, which the simulator's build compiles once.
        let (row, word): (&mut dyn FnMut(u32) -> R, &mut dyn FnMut(R, u32, u32)) = (&mut row, &mut word);
        self.of_each(row, word);
    }

    /// The loops of [`each`](Self::each).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn of_each<R: Copy>(&self, mut row: impl FnMut(u32) -> R, mut word: impl FnMut(R, u32, u32)) {
        let (at_once, run) = (self.rows_at_once(), self.run());
        // A tile of few rows leaves some threads without a word.
        if at_once > self.rows && self.row >= self.rows {
            return;
        }
        let mut first = 0;
        while first < self.rows {
            let of_row = row(self.row + first);
            let mut column = 0;
            while column < self.columns {
                word(of_row, self.place(first, column), (self.column + column) * BYTES);
                column += run;
            }
            first += at_once;
        }
    }

    /// Starts copying the rows to the tile at the shared address `tile`. `source` returns the
    /// address of a row, and whether it exists; a row that does not exist becomes zeros.
    ///
    /// # Safety
    /// Rows that exist may be read and are aligned to 16 bytes; until the wait only this copy
    /// accesses the tile. The tile's rows are a multiple of [`rows_at_once`](Self::rows_at_once),
    /// or fewer.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn load(&self, tile: u32, source: impl FnMut(u32) -> (u64, bool)) {
        self.each(source, |(address, exists), place, at| {
            cp_async_zfill(
                CpAsyncKind::Cg16,
                PREFETCH,
                tile + place,
                address + u64::from(at),
                if exists { 16 } else { 0 },
            );
        });
    }

    /// Writes the rows of the tile at the shared address `tile`. `target` returns the address of a
    /// row, and whether it exists.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn store(&self, tile: u32, target: impl FnMut(u32) -> (u64, bool)) {
        self.each(target, |(address, exists), place, at| {
            Word128::store_global_if(exists, address + u64::from(at), Word128::load_shared(tile + place))
        });
    }
}

/// The offset of an element in shared memory, in bytes from the tile: `rows` by `columns` elements,
/// in pieces of `piece` columns.
#[inline(always)]
#[must_use]
pub const fn offset((rows, columns): (u32, u32), piece: u32, row: u32, column: u32) -> u32 {
    if piece == 0 {
        return (row * (columns + 8) + column) * BYTES;
    }
    let plain = column / piece * (rows * piece) + row * piece + column % piece;
    let mask = swizzle_of_piece(piece).source_mask() as u32;
    (plain ^ (plain & mask) >> 3) * BYTES
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::config::{Shape, SmemK, piece};
    use super::super::hopper::{self as hopper, D80, D96, D128, SmemQ};
    use super::*;
    use half::bf16;
    use moye_device::tensor::StaticLayout;
    use std::collections::BTreeMap;

    /// Exactly one thread copies each element of the tile, to the element's offset in the layout.
    fn lies_where_the_layout_says<const D: i64>(threads: u32) {
        type K<const D: i64> = SmemK<Shape<bf16, D, D, 64, 64, false>>;
        lie_as::<K<D>>(D, threads, piece(D));
    }

    /// The same check for 64 rows of `columns` columns in the layout `L`.
    fn lie_as<L: StaticLayout>(columns: i64, threads: u32, piece: u32) {
        let (layout, swizzle) = (L::LAYOUT, L::SWIZZLE);
        let mut seen = BTreeMap::new();
        for thread in 0..threads {
            let rows = Rows::new(64, columns as u32, piece, threads, thread);
            rows.each(
                |row| row,
                |row, place, at| {
                    for i in 0..WIDTH {
                        let column = at / BYTES + i;
                        let index = i64::from(row) + 64 * i64::from(column);
                        let want = swizzle.apply(layout.at(index)) as u32 * BYTES;
                        assert_eq!(
                            place + i * BYTES,
                            want,
                            "({row}, {column}) of 64 x {columns}, {threads} threads"
                        );
                        assert!(seen.insert((row, column), thread).is_none(), "({row}, {column}) twice");
                    }
                },
            );
        }
        assert_eq!(seen.len() as i64, 64 * columns);
    }

    #[test]
    fn rows_lie_where_the_tile_layouts_say() {
        for threads in [32, 128] {
            lies_where_the_layout_says::<64>(threads);
            lies_where_the_layout_says::<80>(threads);
            lies_where_the_layout_says::<96>(threads);
            lies_where_the_layout_says::<128>(threads);
            lies_where_the_layout_says::<192>(threads);
            lies_where_the_layout_says::<256>(threads);
        }
    }

    #[test]
    fn rows_lie_where_the_layouts_for_hopper_say() {
        lie_as::<SmemQ<D80<bf16>>>(80, 128, hopper::piece(80));
        lie_as::<SmemQ<D96<bf16>>>(96, 128, hopper::piece(96));
        lie_as::<SmemQ<D128<bf16>>>(128, 128, hopper::piece(128));
    }
}
