//! Queries, keys and values of one product: rotary embedding of queries and keys in registers, and
//! stores of keys and values to the slots of caches.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::kernel::{End, Extents};
use super::residual::row_of;
use core::marker::PhantomData;
use moye_device::arch::{FULL_WARP, Word as _, Word128, opaque, shuffle_xor};
use moye_device::atom::mma::accumulator_column;
use moye_device::collective::*;
use moye_device::prelude::*;

/// Heads in memory: of queries by their row, of keys and values by the slot of a row.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, KernelParam)]
pub struct HeadsAt {
    /// The address of the first element.
    pub address: u64,
    /// Stride between pages.
    pub page: i64,
    /// Stride between the tokens of a page.
    pub token: i64,
    /// Stride between heads.
    pub head: i64,
    /// Stride between the elements of a head.
    pub element: i64,
    /// Whether heads are contiguous and start at multiples of 16 bytes.
    pub aligned: bool,
}

/// The end of a product of queries, keys and values: `heads` of queries, then `kv` of keys, then
/// `kv` of values, of `size` columns each.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
pub struct Qkv {
    /// Queries.
    pub q: HeadsAt,
    /// Keys.
    pub k: HeadsAt,
    /// Values.
    pub v: HeadsAt,
    /// The address of the position of each row, i32, or 0: queries and keys stay as they are.
    pub positions: u64,
    /// The address of cosines, f32: (positions, size / 2).
    pub cos: u64,
    /// The address of sines.
    pub sin: u64,
    /// Rows of cosines and sines. Positions past the last row yield NaN.
    pub rotations: u32,
    /// The address of the slot of each row, i32. Rows of slots below 0, or past `slots`, have no
    /// keys and values.
    pub slots_of_rows: u64,
    /// Slots.
    pub slots: u32,
    /// Tokens of a page.
    pub tokens: u32,
    /// Heads of queries.
    pub heads: u32,
    /// Heads of keys, and of values.
    pub kv: u32,
    /// Columns of a head: 32, 64, 128, or 256 in tiles of 256 columns.
    pub size: u32,
    /// Whether pairs are adjacent columns, instead of one in each half of a head.
    pub adjacent: bool,
}

/// Columns of a group of eight.
const EIGHT: u32 = 8;

/// The epilogue that rotates queries and keys.
#[derive(Clone, Copy)]
pub struct Rotated(Qkv, Extents);

impl Rotated {
    /// Cosines and sines of two neighbouring pairs of a head.
    ///
    /// # Safety
    /// The tables have their rows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn turns(&self, position: u32, pair: u32, two: bool) -> [[f32; 2]; 2] {
        let Qkv { cos, sin, rotations, size, .. } = self.0;
        let (known, at) = (position < rotations, i64::from(position) * i64::from(size / 2) + i64::from(pair));
        [cos, sin].map(|table| {
            let table = Global::<f32>::from_address(table).offset(at);
            // SAFETY: the position has a row.
            let [first, second] = unsafe { [table.read_if(known), table.offset(1).read_if(known && two)] };
            if known { [first, second] } else { [f32::NAN; 2] }
        })
    }
}

/// A rotation.
#[inline(always)]
fn rotate(a: f32, b: f32, cos: f32, sin: f32) -> [f32; 2] {
    [a.fma(cos, -(b * sin)), b.fma(cos, a * sin)]
}

impl<M: Mainloop<Accumulator = f32>> TileEpilogue<M> for Rotated {
    /// The positions of the thread's two rows.
    type Loaded = [u32; 2];

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(&self, tile: &WorkTile, team: &Team) -> [u32; 2] {
        let row = row_of::<M>(tile, team);
        let of = Global::<i32>::from_address(self.0.positions);
        // SAFETY: each row has a position.
        [row, row + 8]
            .map(|row| unsafe { of.offset(row).read_if(self.0.positions != 0 && row < self.1.m) as u32 })
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn apply(&self, tCrC: &mut Accumulators<M>, positions: [u32; 2], tile: &WorkTile, team: &Team) {
        let Qkv { size, heads, kv, adjacent, .. } = self.0;
        let first = tile.n * M::TILE.1 + accumulator_column(team.thread % 32);
        if self.0.positions == 0 || first >= (heads + kv) * size {
            return;
        }
        let is_rotated = |column: u32| column < (heads + kv) * size;
        // SAFETY: the tables have a row for each position below their number.
        unsafe {
            if adjacent {
                for at in (0..Accumulators::<M>::SIZE).step_by(2) {
                    // Opaque: otherwise all places are computed first and take registers.
                    let column = opaque(first) + EIGHT * (at as u32 / 4);
                    let [[cos, _], [sin, _]] = self.turns(positions[at / 2 % 2], column % size / 2, false);
                    if is_rotated(column) {
                        [tCrC[at], tCrC[at + 1]] = rotate(tCrC[at], tCrC[at + 1], cos, sin);
                    }
                }
                return;
            }
            // Eights between the halves of a head.
            unroll!(for distance in [2, 4, 8, 16] {
                if size == 2 * EIGHT * distance && M::TILE.1 >= size {
                    for eight in 0..const { M::TILE.1 / EIGHT } {
                        if eight & distance != 0 {
                            continue;
                        }
                        let column = opaque(first) + EIGHT * eight;
                        for below in 0..2 {
                            let at = (4 * eight + 2 * below) as usize;
                            let other = at + 4 * distance as usize;
                            let [cos, sin] = self.turns(positions[below as usize], column % size, true);
                            if is_rotated(column) {
                                for i in 0..2 {
                                    [tCrC[at + i], tCrC[other + i]] =
                                        rotate(tCrC[at + i], tCrC[other + i], cos[i], sin[i]);
                                }
                            }
                        }
                    }
                }
            });
        }
    }
}

/// Stores queries by row, keys and values by slot.
#[derive(Clone, Copy)]
pub struct ToHeads<T>(Qkv, Extents, PhantomData<T>);

/// Two lanes whose indices differ in `mask` exchange words: the lane with the bit set receives the
/// second one, the other lane the first. The words are in the order of the lanes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn exchanged(first: u32, second: u32, mask: u32, set: bool) -> [u32; 2] {
    let (keep, give) = if set { (second, first) } else { (first, second) };
    let got = shuffle_xor(FULL_WARP, give, mask);
    if set { [got, keep] } else { [keep, got] }
}

impl<T: Paired, M: Mainloop<Accumulator = f32>> Sink<M> for ToHeads<T> {
    type Storage = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(&self, tCrC: &Accumulators<M>, (): &(), tile: &WorkTile, team: &Team, _: &mut M) {
        let (Self(of, extents, _), lane) = (self, team.thread % 32);
        let (odd, high) = (lane % 2 == 1, lane % 4 >= 2);
        for below in 0..2 {
            let row = row_of::<M>(tile, team) + 8 * below;
            let exists = row < extents.m;
            // SAFETY: each row has a slot.
            let slot =
                unsafe { Global::<i32>::from_address(of.slots_of_rows).offset(row).read_if(exists) as u32 };
            let is_kept = exists && slot < of.slots;
            let (page, token) = (slot / of.tokens, slot % of.tokens);
            // Four eights are in one head.
            for four in 0..const { M::TILE.1 / (4 * EIGHT) } {
                let column = opaque(tile.n) * M::TILE.1 + 4 * EIGHT * four;
                let head = column / of.size;
                let (at, head, page, token, stored) = if head < of.heads {
                    (of.q, head, 0, row, exists)
                } else if head < of.heads + of.kv {
                    (of.k, head - of.heads, page, token, is_kept)
                } else {
                    (of.v, head - of.heads - of.kv, page, token, is_kept)
                };
                let stored = stored && column < extents.n;
                let place = i64::from(page) * at.page
                    + i64::from(token) * at.token
                    + i64::from(head) * at.head
                    + i64::from(column % of.size) * at.element;
                let to = GlobalMut::<T>::from_address(at.address).offset(place);
                let pair = |eight: u32| {
                    let at = (4 * (4 * four + eight) + 2 * below) as usize;
                    T::pair(tCrC[at], tCrC[at + 1]) as u32
                };
                let pairs = [pair(0), pair(1), pair(2), pair(3)];
                if at.aligned {
                    let [a, b] = exchanged(pairs[0], pairs[1], 1, odd);
                    let [c, d] = exchanged(pairs[2], pairs[3], 1, odd);
                    let ([w0, w2], [w1, w3]) = (exchanged(a, c, 2, high), exchanged(b, d, 2, high));
                    let to = to.offset(i64::from(EIGHT * (lane % 4))).address();
                    // SAFETY: the head has whole vectors, each of one lane.
                    unsafe { Word128::store_global_if(stored, to, Word128([w0, w1, w2, w3])) };
                    continue;
                }
                for i in 0..4 {
                    let column = EIGHT * i + accumulator_column(lane);
                    for second in 0..2 {
                        let bits = (pairs[i as usize] >> (16 * second)) as u16;
                        let to = to.offset(i64::from(column + second) * at.element).cast::<u16>();
                        // SAFETY: only this lane writes the element.
                        unsafe { to.write_if(stored, bits) };
                    }
                }
            }
        }
    }
}

impl<T: Paired, M: Mainloop<Accumulator = f32>> End<T, M> for Qkv {
    type Output = T;
    type Epilogue = Rotated;
    type Sink = ToHeads<T>;

    #[inline(always)]
    fn epilogue(&self, extents: Extents) -> Rotated {
        Rotated(*self, extents)
    }

    #[inline(always)]
    fn sink(&self, _: &TensorMap, _: Target<T>, extents: Extents) -> ToHeads<T> {
        ToHeads(*self, extents, PhantomData)
    }
}
