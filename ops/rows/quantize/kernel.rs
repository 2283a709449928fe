//! Quantisation to 8 bits with a scale for each tile. Whole rows are in registers. For other tiles
//! the threads of a block keep some elements in registers between the reduction of the magnitudes
//! and the conversion, and read the others again, from the caches.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::code::{encode, scale_of};
use crate::place::{Place, read, read_all, values, write};
use crate::thread;
use crate::tiles::Tiles;
use moye_device::algorithm::*;
use moye_device::arch::{opaque, overlap_launches, overlap_next_launch, prmt};
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Vectors that a thread of a tile holds: all of 128 x 128 elements of 16 bits.
const HELD: usize = 8;
/// Vectors that a thread loads at a time beyond the ones that it holds.
const REST: usize = 1;
/// Vectors of a thread in a tile where all elements have one scale.
pub const WHOLE: usize = 4;
/// Bytes of a side of a transposed tile, and elements of a side of a tile with a scale.
pub const SIDE: u32 = 128;

static_layout! {
    /// A value for each warp.
    Warps = layout!(8);
    /// The transpose of a tile: (four rows, column).
    Transpose = layout!((32, 128));
}

/// `q = x / scale` along rows, rounded and saturated, with the scale that makes the greatest
/// magnitude of a row the greatest value of the type `code`; a block for each `C::ROWS` rows;
/// shapes that are `AHEAD` step over the rows.
///
/// # Safety
/// `x` and `q` hold `m` rows of `n` elements, `ldx` and `ldq` apart, and `scales` an element for
/// each, `lds` apart. Rows of `x` are aligned to `C::ALIGN` bytes, those of `q` to as many of its
/// elements; `n` is at most `C::COLUMNS`. The results are disjoint from `x`.
#[kernel(
    threads = C::BLOCK,
    shared = (scratch: SharedArray<f32, RowScratch>, stage: RowStage<T, C>),
    instances = quantize_rows<f32 | f16 | bf16, Lanes4 | Warp | Block128 | Block256 | Block1024>,
    table = QuantizeRowsKernels
)]
pub unsafe fn quantize_rows<T: Element + Convert<f32>, C: RowShape>(
    x: Global<T>,
    q: GlobalMut<u8>,
    scales: GlobalMut<f32>,
    m: u32,
    n: u32,
    ldx: RowStride,
    ldq: RowStride,
    lds: RowStride,
    code: u32,
) {
    overlap_launches();
    let mut team = RowTeam::<C>::new(scratch);
    let load = RowCopy::<T, C>::get_slice(thread_idx().x);
    stage.start(&load.partition_s(team.rows(x, (m, n), ldx)));
    loop {
        let load = RowCopy::<T, C>::get_slice(thread::<C>());
        let store = RowCopyWith::<u8, T, C>::get_slice(thread::<C>());
        let (gX, gQ) = (team.rows(x, (m, n), ldx), team.rows(q, (m, n), ldq)); // (BLK_M, BLK_N)
        let mut tXrX = stage.take(&team, &load.partition_s(gX)); // (CPY, CPY_M, CPY_N)
        stage.start(&load.partition_s(team.rows_at(x, (m, n), ldx, team.next_tile())));
        let amax = tXrX.fold_rows(&tXrX.rows(0.0f32), |max, x| max.max(x.abs())); // (CPY_M)
        let (scale, inverse) = scale_of(code, team.reduce(amax, f32::max)[0]);
        if let Some(row) = team.leader().filter(|&row| row < m) {
            scales.write(i64::from(row) * lds.row, scale);
        }
        tXrX.apply(|x| x * inverse);
        team.store_bytes(&tXrX, &store.partition_d(gQ), |values| encode(code, values));
        if !team.step(m) {
            return;
        }
    }
}

/// The two launches of [`quantize_whole`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// The magnitudes of the tiles.
    Magnitudes,
    /// The elements, scaled by the maximum of the magnitudes.
    Elements,
}

/// Row and column of a vector, and the number of its elements that exist.
struct VectorPlace {
    row: u32,
    column: u32,
    existing: u32,
}

/// A tile, whose vectors are dealt to the threads in turn.
#[derive(Clone, Copy)]
struct TileOf<T: Element> {
    x: Global<T>,
    q: GlobalMut<u8>,
    of_x: Place,
    of_q: Place,
    tiles: Tiles,
    first_row: u32,
    first_column: u32,
    rows: u32,
    columns: u32,
}

impl<T: Element + Convert<f32>> TileOf<T> {
    const VECTOR: u32 = (16 / T::BYTES) as u32;

    /// Vectors of a row.
    #[inline(always)]
    fn in_row(self) -> u32 {
        self.columns.div_ceil(Self::VECTOR)
    }

    /// The place of a vector.
    #[inline(always)]
    fn place(self, i: u32) -> VectorPlace {
        let in_row = self.in_row();
        let (row, at) = if self.columns == SIDE {
            let in_row = const { SIDE * T::BYTES as u32 / 16 };
            (i / in_row, i % in_row)
        } else if self.rows == 1 {
            (0, i)
        } else {
            (i / in_row, i % in_row)
        };
        let column = at * Self::VECTOR;
        let existing = if i < self.rows * in_row { (self.columns - column).min(Self::VECTOR) } else { 0 };
        VectorPlace { row: self.first_row + row, column: self.first_column + column, existing }
    }

    /// Loads the vectors of a thread from `from` on.
    ///
    /// # Safety
    /// The tile is readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load<const N: usize>(self, from: u32) -> [[u32; 4]; N] {
        let mut all = [(self.x, 0u32); N];
        for (to, i) in all.iter_mut().zip(0..) {
            let VectorPlace { row, column, existing } = self.place(from + i * THREADS);
            *to = (self.x.offset(self.of_x.at(block_idx().y, row, column)), existing);
        }
        // SAFETY: the tile is accessible; aligned tiles have whole vectors.
        unsafe { read_all(&all, self.of_x.element, self.tiles.aligned) }
    }

    /// Converts and writes the vectors of a thread from `from` on, and calls `keep` with row,
    /// column and value of each four bytes of the tile.
    ///
    /// # Safety
    /// The tile is writable, and no other thread writes these vectors.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn store<const N: usize>(
        self,
        words: &[[u32; 4]; N],
        from: u32,
        inverse: f32,
        mut keep: impl FnMut(u32, u32, u32),
    ) {
        // Recompute the places: keeping them since the load would take too many registers.
        let (Self { of_q, tiles, .. }, from) = (self, opaque(from));
        for (word, i) in words.iter().zip(0..) {
            let VectorPlace { row, column, existing } = self.place(from + i * THREADS);
            // Keep the words in registers: the f32 values would take twice as many.
            let x = values::<T>(&word.map(opaque));
            let scaled =
                |i: usize| [x[i] * inverse, x[i + 1] * inverse, x[i + 2] * inverse, x[i + 3] * inverse];
            let q = self.q.offset(of_q.at(block_idx().y, row, column));
            let low = encode(tiles.code, scaled(0));
            let (row_in, column_in) = (row - self.first_row, column - self.first_column);
            if existing > 0 {
                keep(row_in, column_in, low);
            }
            // SAFETY: the tile is accessible; aligned tiles have whole vectors.
            unsafe {
                if const { 16 / T::BYTES == 8 } {
                    let high = encode(tiles.code, scaled(4));
                    if existing > 0 {
                        keep(row_in, column_in + 4, high);
                    }
                    let both = u64::from(high) << 32 | u64::from(low);
                    write(q, of_q.element, existing, tiles.aligned, both);
                } else {
                    write(q, of_q.element, existing, tiles.aligned, low);
                }
            }
        }
    }
}

/// The greatest magnitude of vectors.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn greatest<T: Element + Convert<f32>, const N: usize>(words: &[[u32; 4]; N]) -> f32 {
    let mut max = 0.0f32;
    for word in words {
        // By reference: an iterator over the array itself stays a loop.
        for x in &values::<T>(word) {
            max = max.max(x.abs());
        }
    }
    max
}

impl<T: Element + Convert<f32>> TileOf<T> {
    /// Tile `i` of the block's matrix, and its coordinate (row, column) among the tiles.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn new(
        i: u32,
        x: Global<T>,
        q: GlobalMut<u8>,
        [of_x, of_q]: [Place; 2],
        tiles: Tiles,
    ) -> (Self, (u32, u32)) {
        let (across, _) = tiles.count();
        let (row, column) = (i / across, i % across);
        let (first_row, first_column) = (row * tiles.tile_rows, column * tiles.tile_columns);
        let columns = tiles.tile_columns.min(tiles.columns - first_column);
        let rows = tiles.tile_rows.min(tiles.rows - first_row);
        (Self { x, q, of_x, of_q, tiles, first_row, first_column, rows, columns }, (row, column))
    }
}

/// [`quantize_rows`] for tiles of any shape, a block for each; also writes the transpose of one
/// matrix in tiles of 128 x 128, unless its address is 0. Grid: `(tiles, matrices)`.
///
/// # Safety
/// `x` and `q` hold the matrices, `scales` an element for each tile, and `transposed` the transpose
/// of the matrix. The results are disjoint from `x`. With `aligned_transposed` four bytes of a
/// row of `transposed` are at multiples of 4.
#[kernel(
    threads = THREADS,
    min_blocks = 4,
    shared = (scratch: SharedArray<f32, Warps>, tile: SharedArray<u32, Transpose>),
    instances = quantize<f32 | f16 | bf16>,
    table = QuantizeKernels
)]
pub unsafe fn quantize<T: Element + Convert<f32>>(
    x: Global<T>,
    q: GlobalMut<u8>,
    scales: GlobalMut<f32>,
    tiles: Tiles,
    of_x: Place,
    of_q: Place,
    of_scales: Place,
    transposed: GlobalMut<u8>,
    of_transposed: Place,
    aligned_transposed: bool,
) {
    overlap_launches();
    let (thread, matrix) = (thread_idx().x, block_idx().y);
    let (of, (tile_row, tile_column)) = TileOf::new(block_idx().x, x, q, [of_x, of_q], tiles);
    let (vectors, rest) = (of.rows * of.in_row(), thread + HELD as u32 * THREADS);

    let held = of.load::<HELD>(thread);
    let (mut amax, mut next) = (greatest::<T, _>(&held), rest);
    while next < vectors {
        amax = amax.max(greatest::<T, _>(&of.load::<REST>(next)));
        next += REST as u32 * THREADS;
    }
    let (scale, inverse) = scale_of(tiles.code, block_reduce(amax, scratch, f32::max));
    if thread == 0 {
        scales.write(of_scales.at(matrix, tile_row, tile_column), scale);
    }
    let (mut tile, transposes) = (tile, transposed.address() != 0);
    let mut keep = |row: u32, column: u32, bytes: u32| {
        if transposes {
            tile.set((column / 4, row), bytes);
        }
    };
    of.store(&held, thread, inverse, &mut keep);
    next = rest;
    while next < vectors {
        of.store(&of.load::<REST>(next), next, inverse, &mut keep);
        next += REST as u32 * THREADS;
    }
    if transposes {
        sync_threads();
        let (rows, columns, aligned) = (tiles.rows, tiles.columns, aligned_transposed);
        let to = Transposed { to: transposed, place: of_transposed, aligned, rows, columns };
        let word = |row: u32, column: u32| match row < of.rows && column < of.columns {
            true => tile.get((column / 4, row)),
            false => 0,
        };
        to.write(tile, tile_row, tile_column, matrix, word);
    }
}

/// [`quantize`] with one scale, in two launches: the magnitude of each block's tiles, and the
/// elements, scaled by their maximum. A block takes every `n`th tile of a matrix, of which each
/// thread holds its vectors. Grid: `(n, matrices)`, `n` at most the number of tiles.
///
/// # Safety
/// Same contract as [`quantize`], with one element of `scales` and tiles of at most `WHOLE` vectors
/// a thread; `magnitudes` holds one for each block, which a launch with [`Step::Magnitudes`] of the
/// same grid has written just before. `x` was written before that launch.
#[kernel(
    threads = THREADS,
    min_blocks = 3,
    shared = (scratch: SharedArray<f32, Warps>),
    instances = quantize_whole<f32 | f16 | bf16>,
    table = QuantizeWholeKernels
)]
pub unsafe fn quantize_whole<T: Element + Convert<f32>>(
    x: Global<T>,
    q: GlobalMut<u8>,
    scales: GlobalMut<f32>,
    magnitudes: GlobalMut<f32>,
    tiles: Tiles,
    step: u32,
    of_x: Place,
    of_q: Place,
) {
    let (thread, block, (_, count), blocks) = (thread_idx().x, block_idx(), tiles.count(), grid_dim());
    let tile = |i: u32| TileOf::new(i, x, q, [of_x, of_q], tiles).0;
    // The next tile is in flight while one is used.
    let load = |i: u32| if i < count { tile(i).load::<WHOLE>(thread) } else { [[0; 4]; WHOLE] };
    if step == Step::Magnitudes as u32 {
        overlap_next_launch();
        let (mut i, mut held, mut amax) = (block.x, load(block.x), 0.0f32);
        while i < count {
            i += blocks.x;
            let next = load(i);
            amax = amax.max(greatest::<T, _>(&held));
            held = next;
        }
        amax = block_reduce(amax, scratch, f32::max);
        if thread == 0 {
            magnitudes.write(block.y * blocks.x + block.x, amax);
        }
        return;
    }
    // In reverse order: the elements that the previous launch read last are in L2. That launch has
    // waited for its predecessors, so `x` may be read.
    let mut i = block.x + (count - 1 - block.x) / blocks.x * blocks.x;
    let mut held = load(i);
    overlap_launches();
    let (mut amax, mut other) = (0.0f32, thread);
    while other < blocks.x * blocks.y {
        amax = amax.max(magnitudes.read(other));
        other += THREADS;
    }
    let (scale, inverse) = scale_of(tiles.code, block_reduce(amax, scratch, f32::max));
    if thread == 0 && block.x == 0 && block.y == 0 {
        scales.write(0, scale);
    }
    loop {
        // Before the first tile the index wraps to above `count`.
        let before = i.wrapping_sub(blocks.x);
        let next = load(before);
        tile(i).store(&held, thread, inverse, |_, _, _| ());
        if before >= count {
            return;
        }
        (i, held) = (before, next);
    }
}

/// The transposes of matrices of bytes.
struct Transposed {
    to: GlobalMut<u8>,
    place: Place,
    /// Whether four bytes of a row form a word at a multiple of 4.
    aligned: bool,
    /// Rows and columns of the matrix that is transposed.
    rows: u32,
    columns: u32,
}

impl Transposed {
    /// Writes the transpose of a tile of a matrix; `word` returns four bytes of it from a row and a
    /// column on. A thread transposes four by four at a time.
    ///
    /// # Safety
    /// All threads of the block call it, and `shared` belongs to them; `word` may read it, as other
    /// threads have written it before a barrier. The transpose is writable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn write(
        self,
        shared: SharedTensor<u32, Transpose>,
        tile_row: u32,
        tile_column: u32,
        matrix: u32,
        word: impl Fn(u32, u32) -> u32,
    ) {
        let (mut shared, lane, warp) = (shared, lane_id(), thread_idx().x / 32);
        let mut all = [[0u32; 4]; 4];
        for (turned, quad) in all.iter_mut().zip(0..) {
            // Rows 4 part to 4 part + 3 of the tile, columns 4 lane to 4 lane + 3.
            let first = 4 * (warp + 8 * quad);
            let mut words = [0u32; 4];
            for (of_row, row) in words.iter_mut().zip(first..) {
                *of_row = word(row, 4 * lane);
            }
            let [a, b, c, d] = words;
            let (low, high) =
                ([prmt(a, b, 0x5140), prmt(c, d, 0x5140)], [prmt(a, b, 0x7362), prmt(c, d, 0x7362)]);
            *turned = [
                prmt(low[0], low[1], 0x5410),
                prmt(low[0], low[1], 0x7632),
                prmt(high[0], high[1], 0x5410),
                prmt(high[0], high[1], 0x7632),
            ];
        }
        // SAFETY: the threads write disjoint words after all have read theirs, and read these after
        // all have written.
        unsafe {
            sync_threads();
            for (turned, quad) in all.iter().zip(0..) {
                for (&word, i) in turned.iter().zip(0..) {
                    // Skewed, so that the lanes access different banks.
                    shared.set(((warp + 8 * quad + lane) % 32, 4 * lane + i), word);
                }
            }
            sync_threads();
            for i in 0..16 {
                let line = warp + 8 * i;
                let (column, row) = (tile_column * SIDE + line, tile_row * SIDE + 4 * lane);
                let word = shared.get(((lane + line / 4) % 32, line));
                let existing = if column < self.columns { self.rows.saturating_sub(row).min(4) } else { 0 };
                let to = self.to.offset(self.place.at(matrix, column, row));
                write::<u8, u32>(to, self.place.element, existing, self.aligned, word);
            }
        }
    }
}

/// The transposes of matrices of `rows` x `columns` bytes.
/// Grid: `(ceil(columns / SIDE), ceil(rows / SIDE), matrices)`. Four bytes of a row
/// form a word of `q` if `aligned`, and of the transposes if `aligned_transposed`.
///
/// # Safety
/// `q` holds the matrices, and `transposed` those of `columns` x `rows`, disjoint from them.
#[kernel(threads = THREADS, shared = (tile: SharedArray<u32, Transpose>))]
pub unsafe fn quantize_transpose(
    q: Global<u8>,
    transposed: GlobalMut<u8>,
    rows: u32,
    columns: u32,
    of_q: Place,
    of_transposed: Place,
    aligned: bool,
    aligned_transposed: bool,
) {
    overlap_launches();
    let block = block_idx();
    let word = |row: u32, column: u32| {
        let (row, column) = (block.y * SIDE + row, block.x * SIDE + column);
        let existing = if row < rows { columns.saturating_sub(column).min(4) } else { 0 };
        read::<u8, u32>(q.offset(of_q.at(block.z, row, column)), of_q.element, existing, aligned)
    };
    let to = Transposed { to: transposed, place: of_transposed, aligned: aligned_transposed, rows, columns };
    to.write(tile, block.y, block.x, block.z, word);
}
