//! Sinks: scales of columns, and stores of each result type.
#![allow(non_snake_case, reason = "CuTe's names")]

use core::ops::Range;
use moye_device::algorithm::{quad_reduce, quad_transpose};
use moye_device::arch::{Word as _, f32x2_to_e4m3x2, opaque};
use moye_device::atom::mma::{accumulator_column, accumulator_row};
use moye_device::collective::*;
use moye_device::number::F8E4M3;
use moye_device::prelude::*;

/// A `wgmma` mainloop whose instructions are stacked along M, one for each warpgroup.
pub trait Tile8: Mainloop<Accumulator = f32, Mma: StaticTiledMma<Atom: WgmmaAtom>> + 'static {}
impl<M: Mainloop<Accumulator = f32, Mma: StaticTiledMma<Atom: WgmmaAtom>> + 'static> Tile8 for M {}

/// The factors of columns of the result: scales of whole rows of B. Null: none.
#[derive(Clone, Copy, Debug)]
pub struct ByColumns {
    /// A scale for each column and matrix of B.
    pub scales: BlockScales,
    /// The number of columns. Columns past the end are clamped to the last.
    pub end: u32,
}

impl<M: Tile8> TileEpilogue<M> for ByColumns {
    type Loaded = ();

    #[inline(always)]
    unsafe fn load(&self, _: &WorkTile, _: &Team) {}

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn apply(&self, tCrC: &mut Accumulators<M>, (): (), tile: &WorkTile, team: &Team) {
        if self.scales.scales.address() == 0 {
            return;
        }
        let first = tile.n * M::TILE.1 + accumulator_column(team.thread % 32);
        for eight in 0..const { M::TILE.1 / 8 } {
            // Opaque: otherwise all places are computed first and take registers.
            let column = opaque(first) + 8 * eight;
            let [low, high] = [column.min(self.end - 1), (column + 1).min(self.end - 1)];
            // SAFETY: each column of each matrix has a scale.
            let (low, high) =
                unsafe { (self.scales.read(tile.batch, low, 0), self.scales.read(tile.batch, high, 0)) };
            let at = 4 * eight as usize;
            tCrC[at] *= low;
            tCrC[at + 1] *= high;
            tCrC[at + 2] *= low;
            tCrC[at + 3] *= high;
        }
    }
}

/// The destination of the scales of an 8-bit result: one for 1 x 128 elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct OutScales {
    /// The first one.
    pub scales: GlobalMut<f32>,
    /// Elements from row to row, from block to block, and from the end of a padded group to the
    /// next.
    pub row: i64,
    /// See `row`.
    pub column: i64,
    /// See `row`.
    pub group: i64,
}

/// A result type: f32, f16, bf16, or e4m3 with scales.
pub trait Out: Element {
    /// The sink of a tile.
    type Sink<M: Tile8>: Sink<M>;

    /// The sink to the rows of `groups` in `target`, with its map `c` if it has one.
    fn sink<M: Tile8>(
        c: &TensorMap,
        target: Target<Self>,
        scales: OutScales,
        groups: Groups,
    ) -> Self::Sink<M>;
}

/// The sink of results `O` of a mainloop.
pub type SinkOf<O, M> = <O as Out>::Sink<M>;

macro_rules! boxed {
    ($($t:ty),+) => { $(
        impl Out for $t {
            type Sink<M: Tile8> = BoxesToSpans<$t, Groups>;

            #[inline(always)]
            fn sink<M: Tile8>(
                c: &TensorMap,
                target: Target<Self>,
                _: OutScales,
                groups: Groups,
            ) -> Self::Sink<M> {
                let c = (target.tensor > 0).then(|| StoreC::<$t>::tensor(c));
                BoxesToSpans::new(c, groups.rows, target, groups)
            }
        }
    )+ };
}
boxed!(f16, bf16);

impl Out for f32 {
    type Sink<M: Tile8> = ToSpans<f32, Groups>;

    #[inline(always)]
    fn sink<M: Tile8>(_: &TensorMap, target: Target<Self>, _: OutScales, groups: Groups) -> Self::Sink<M> {
        ToSpans::new(target, groups)
    }
}

impl Out for F8E4M3 {
    type Sink<M: Tile8> = Quantised;

    #[inline(always)]
    fn sink<M: Tile8>(_: &TensorMap, target: Target<Self>, scales: OutScales, spans: Groups) -> Quantised {
        Quantised { target, scales, spans }
    }
}

/// To rows of e4m3 with a scale for 1 x 128 elements: the greatest magnitude divided by 448, or 1
/// if that magnitude is below 1e-30.
#[derive(Clone, Copy, Debug)]
pub struct Quantised {
    target: Target<F8E4M3>,
    scales: OutScales,
    spans: Groups,
}

/// The greatest e4m3.
const GREATEST: f32 = 448.0;
/// Elements with one scale.
const BLOCK: u32 = 128;
/// Blocks of eight columns of a block.
const EIGHTS: u32 = BLOCK / 8;

impl<M: Tile8> Sink<M> for Quantised {
    type Storage = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(&self, tCrC: &Accumulators<M>, (): &(), tile: &WorkTile, team: &Team, _: &mut M) {
        const { assert!(M::TILE.1.is_multiple_of(BLOCK), "a tile has whole blocks of the result") };
        let lane = team.within_warpgroup() % 32;
        let row = 16 * (team.thread / 32) + accumulator_row(lane);
        // SAFETY: the spans' memory is readable; C and its scales have the rows, each of which is
        // one tile's.
        unsafe {
            let (first, left) = self.spans.of_tile(tile, M::TILE.0);
            for part in 0..const { M::TILE.1 / BLOCK } {
                let block = tile.n * const { M::TILE.1 / BLOCK } + part;
                for below in 0..2 {
                    let at = (4 * EIGHTS * part + 2 * below) as usize;
                    let values = at..at + 4 * EIGHTS as usize;
                    let row = row + 8 * below;
                    let place = [tile.batch, first + row, block];
                    self.store_row::<M>(tCrC, values, place, row < left, lane);
                }
            }
        }
    }
}

impl Quantised {
    /// Stores a quad's row of a block, in which the thread has the values at every fourth place of
    /// `values` and those after them.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the row is writable if `exists`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store_row<M: Tile8>(
        &self,
        tCrC: &Accumulators<M>,
        values: Range<usize>,
        [group, row, block]: [u32; 3],
        exists: bool,
        lane: u32,
    ) {
        let Target { c, columns, aligned, .. } = self.target;
        let mut amax = 0.0f32;
        for eight in 0..EIGHTS as usize {
            let at = values.start + 4 * eight;
            amax = amax.max(tCrC[at].abs()).max(tCrC[at + 1].abs());
        }
        let amax = quad_reduce(amax, f32::max);
        let (scale, inverse) = if amax < 1e-30 { (1.0, 1.0) } else { (amax / GREATEST, GREATEST / amax) };
        let quad = lane % 4;
        let of = |group_stride: i64, row_stride: i64| {
            i64::from(group) * group_stride + i64::from(row) * row_stride
        };
        let scales = self.scales;
        let at = of(scales.group, scales.row) + i64::from(block) * scales.column;
        // SAFETY: the row's block has a scale, which one lane writes.
        unsafe {
            scales.scales.offset(at).write_if(exists && quad == 0 && block * BLOCK < columns, scale);
        }
        let line = of(self.target.group, self.target.row);
        let pair = |eight: u32| {
            let at = values.start + 4 * eight as usize;
            u32::from(f32x2_to_e4m3x2(tCrC[at] * inverse, tCrC[at + 1] * inverse))
        };
        for four in 0..EIGHTS / 4 {
            let eight = 4 * four;
            let pairs = [pair(eight), pair(eight + 1), pair(eight + 2), pair(eight + 3)];
            if aligned > 0 {
                // A lane receives the eight bytes of one group of eight.
                let [low, high] = quad_transpose([pairs[0] | pairs[1] << 16, pairs[2] | pairs[3] << 16]);
                let column = block * BLOCK + 8 * (eight + quad);
                let address = c.offset(line + i64::from(column)).address();
                // SAFETY: rows are contiguous from multiples of 16 bytes on, and whole vectors.
                unsafe {
                    u64::store_global_if(
                        exists && column < columns,
                        address,
                        u64::from(low) | u64::from(high) << 32,
                    );
                }
                continue;
            }
            for i in 0..4 {
                let column = block * BLOCK + 8 * (eight + i) + accumulator_column(lane);
                for second in 0..2 {
                    let column = column + second;
                    let at = line + i64::from(column) * self.target.column;
                    let bits = (pairs[i as usize] >> (8 * second)) as u8;
                    // SAFETY: the element is in bounds, and only this lane writes it.
                    unsafe {
                        c.offset(at).write_if(exists && column < columns, F8E4M3::from_bits(bits));
                    }
                }
            }
        }
    }
}
