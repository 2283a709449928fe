//! The sink through shared memory: `stmatrix` writes accumulators of `wgmma` to boxes, which TMA
//! stores.
//!
//! A box is 64 x 64 elements of 16 bits, swizzled by 128 bytes. Each warpgroup owns two boxes:
//! while TMA reads one, the warpgroup fills the other. The last stores continue while the next tile
//! is multiplied.

use super::Team;
use super::mainloop::{Accumulators, Mainloop, WARPGROUP};
use super::sink::Sink;
use super::tiles::WorkTile;
use crate::arch::{NamedBarrier, bulk_commit_group, bulk_wait_group_read, fence_proxy_async_shared};
use crate::atom::copy::SM90_U32x4_STSM_N;
use crate::atom::tma::{TmaCopy, TmaTensor};
use crate::atom::wgmma::{
    PackPair, SM90_64x64x16_F32BF16BF16_SS, SM90_64x64x16_F32F16F16_SS, WgmmaAtom, pack_fragment,
};
use crate::atom::{
    AccumulatorOf, RetileOf, StaticTiledCopy, StaticTiledMma, TiledMma, TilingError, make_tiled_copy_c,
};
use crate::layout::{
    ComposedLayout, IntTuple, Layout, Major, Swizzle, SwizzleBytes, make_col_major, shared_memory_atom,
};
use crate::memory::{Element, Shared, SharedArray};
use crate::tensor::{OneStage, StaticLayout, Tensor};
use crate::{layout, tiled_copy, tiled_mma};
use core::marker::PhantomData;

/// An element type of C that boxes support: f16 or bf16.
pub trait Boxed: PackPair {
    /// The instruction whose accumulators fill a box.
    type Box: WgmmaAtom<D = f32>;
}

impl Boxed for half::f16 {
    type Box = SM90_64x64x16_F32F16F16_SS;
}

impl Boxed for half::bf16 {
    type Box = SM90_64x64x16_F32BF16BF16_SS;
}

/// Rows and columns of a box.
const BOX: i64 = 64;

/// Boxes in shared memory, `(64, 64, COUNT)`.
#[derive(Clone, Copy, Debug)]
pub struct BoxLayout<const COUNT: i64>;

impl<const COUNT: i64> BoxLayout<COUNT> {
    const COMPOSED: ComposedLayout = shared_memory_atom(Major::K, SwizzleBytes::B128, 16)
        .tile_to_shape(IntTuple::flat(&[BOX, BOX, COUNT]));
}

impl<const COUNT: i64> StaticLayout for BoxLayout<COUNT> {
    const LAYOUT: Layout = Self::COMPOSED.layout;
    const SWIZZLE: Swizzle = Self::COMPOSED.swizzle;
}

/// The store of a box; the map of C, for a tensor of `R` modes (M, N) or (M, N, batch), is built
/// from it.
pub type StoreC<T, const R: usize = 2> = TmaCopy<T, OneStage<BoxLayout<1>>, R>;

/// The boxes of a mainloop's block: two for each consumer warpgroup, `(64, 64, boxes)`.
pub struct BoxesOf<M>(PhantomData<M>);

/// A warpgroup's accumulators as adjacent boxes: `(64, 64 * boxes)`.
pub struct RowOfBoxes<M>(PhantomData<M>);

macro_rules! marker {
    ($($name:ident)+) => { $(
        impl<M> Clone for $name<M> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<M> Copy for $name<M> {}
    )+ };
}
marker!(BoxesOf RowOfBoxes);

impl<M: Mainloop + 'static> StaticLayout for BoxesOf<M> {
    const LAYOUT: Layout = Self::COMPOSED.layout;
    const SWIZZLE: Swizzle = Self::COMPOSED.swizzle;
}

impl<M: Mainloop + 'static> BoxesOf<M> {
    const COMPOSED: ComposedLayout = shared_memory_atom(Major::K, SwizzleBytes::B128, 16)
        .tile_to_shape(IntTuple::flat(&[BOX, BOX, (2 * M::TEAMS * warpgroups::<M>()) as i64]));
}

impl<M: Mainloop + 'static> StaticLayout for RowOfBoxes<M> {
    const LAYOUT: Layout = make_col_major(IntTuple::flat(&[BOX, BOX * boxes::<M>() as i64]));
}

tiled_mma! {
    /// A warpgroup's accumulators in boxes: the same registers.
    pub(super) Boxes<T: Boxed>: TiledMma<T::Box> = TiledMma::new(layout!((1, 1, 1)));
}
tiled_copy! {
    /// Stores a box to shared memory.
    pub(super) ToShared<T: Boxed>: TiledCopy<SM90_U32x4_STSM_N, T> = make_tiled_copy_c(&Boxes::<T>::MMA);
}

/// Warpgroups of a mainloop's tiled MMA.
const fn warpgroups<M: Mainloop>() -> u32 {
    M::Mma::THREADS / WARPGROUP
}

/// Boxes of an instruction's accumulators, or a compile error.
const fn across<M: Mainloop>() -> u32 {
    let (rows, columns) = (M::Mma::MMA.tile_size(0), M::Mma::MMA.tile_size(1));
    if rows != BOX * warpgroups::<M>() as i64 || columns % BOX != 0 {
        TilingError::of("ThroughTma")
            .str("the tiled MMA covers ")
            .int(rows)
            .str(" x ")
            .int(columns)
            .str(" elements of C by ")
            .int(warpgroups::<M>() as i64)
            .str(" warpgroups: put these one below the other, and take an atom whose N is a multiple of 64")
            .raise();
    }
    (columns / BOX) as u32
}

/// Boxes of a warpgroup's part of the tile.
const fn boxes<M: Mainloop>() -> u32 {
    M::TILE.0 / (BOX as u32 * warpgroups::<M>()) * (M::TILE.1 / BOX as u32)
}

/// The row and the column of boxes of a warpgroup's box `b`; instructions are ordered along M
/// first.
#[inline(always)]
const fn place<M: Mainloop>(b: u32, warpgroup: u32) -> (u32, u32) {
    let (across, below) = const { (across::<M>(), M::TILE.0 / (BOX as u32 * warpgroups::<M>())) };
    let instruction = b / across;
    (instruction % below * const { warpgroups::<M>() } + warpgroup, instruction / below * across + b % across)
}

/// Waits until threads may reuse a tile in shared memory that [`store_tile`] has stored: TMA has
/// read it once at most the last `UNREAD` stores, of other tiles, are pending.
///
/// # Safety
/// All threads of `barrier` call it, each with its index; thread 0 is the same as in
/// [`store_tile`].
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn reuse_tile<const UNREAD: u32>(thread: u32, barrier: NamedBarrier) {
    if thread == 0 {
        bulk_wait_group_read::<UNREAD>();
    }
    barrier.sync();
}

/// Stores, by TMA, a tile that the threads of `barrier` have written to shared memory: a fence
/// makes their writes visible to TMA, and thread 0 issues the store as a separate group. Out of
/// bounds elements of the destination are skipped.
///
/// # Safety
/// All threads of `barrier` call it, each with its index. The tile stays unchanged until
/// [`reuse_tile`], and the block does not exit until thread 0 has waited for its stores.
/// `destination` belongs to a map of the copy, whose tensor is writable memory that no other thread
/// accesses.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn store_tile<T: Element, L: StaticLayout, N: StaticLayout, const R: usize>(
    tile: Tensor<Shared<T>, N>,
    destination: TmaTensor<TmaCopy<T, L, R>, R>,
    thread: u32,
    barrier: NamedBarrier,
) {
    fence_proxy_async_shared();
    barrier.sync();
    if thread == 0 {
        // SAFETY: the barrier follows each thread's writes and fence; the destination is writable.
        unsafe { TmaCopy::<T, L, R>::get_slice().store(tile, destination) };
        bulk_commit_group();
    }
}

/// Rounds accumulators to `T` and stores them by TMA to the tensor of a [`StoreC`] map. Out of
/// bounds elements are skipped.
#[derive(Clone, Copy)]
pub struct ThroughTma<T: Boxed, const R: usize = 2>(TmaTensor<StoreC<T, R>, R>);

impl<T: Boxed, const R: usize> ThroughTma<T, R> {
    /// Stores to the tensor `c` of coordinates, (M, N) or (M, N, batch).
    #[inline(always)]
    #[must_use]
    pub const fn new(c: TmaTensor<StoreC<T, R>, R>) -> Self {
        Self(c)
    }
}

impl<T: Boxed, M, const R: usize> Sink<M> for ThroughTma<T, R>
where
    M: Mainloop<Accumulator = f32, Mma: StaticTiledMma<Atom: WgmmaAtom>> + 'static,
{
    type Storage = SharedArray<T, BoxesOf<M>>;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(
        &self,
        tCrC: &Accumulators<M>,
        sC: &crate::tensor::SharedTensor<T, BoxesOf<M>>, // (64, 64, boxes)
        tile: &WorkTile,
        team: &Team,
        _: &mut M,
    ) {
        let (thread, warpgroup) = (team.thread % WARPGROUP, team.warpgroup());
        let to_shared = ToShared::<T>::get_slice(thread);
        let rounded = pack_fragment::<T, _>(tCrC);
        // (CPY, CPY_M, boxes)
        let tBrC = rounded.view_as::<RetileOf<AccumulatorOf<RowOfBoxes<M>, Boxes<T>>, ToShared<T>>>();
        let (rows, columns) = const { (M::TILE.0 / BOX as u32, M::TILE.1 / BOX as u32) };
        for b in 0..const { boxes::<M>() } {
            let sC = sC.at((.., .., 2 * (team.number + warpgroup) + b % 2)); // (64, 64)
            let (row, column) = place::<M>(b, warpgroup);
            let mut numbers = [tile.batch; R];
            (numbers[0], numbers[1]) = (tile.m * rows + row, tile.n * columns + column);
            // With an odd number of boxes, the first box is the last one of the previous tile.
            let same_again = b == 0 && const { boxes::<M>() % 2 == 1 };
            let barrier = team.warpgroup_barrier();
            // SAFETY: C is writable. A box is overwritten only after TMA has read it for its
            // last store.
            unsafe {
                if same_again {
                    reuse_tile::<0>(thread, barrier);
                } else {
                    reuse_tile::<1>(thread, barrier);
                }
                to_shared.copy(tBrC.at((.., .., b)), to_shared.partition_d(sC));
                store_tile(sC, self.0.at(numbers), thread, barrier);
            }
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn finish(&self, _team: &Team) {
        bulk_wait_group_read::<0>();
    }
}
