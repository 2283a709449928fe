//! Partial results for other ranks: stored in their memory as the threads hold them, and added there
//! to the same threads' accumulators.
//!
//! A *slot* has the partial results of one rank, rounded to `T`, tile by tile; in a tile warpgroup
//! by warpgroup, and in a warpgroup a vector of 16 bytes of each thread after the other. So a
//! warpgroup's part is one bulk copy through shared memory, which crosses the link while the next
//! tile is multiplied, and the owner's loads are coalesced. Both sides have the same tiles.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::arrivals::FLAG_BYTES;
use crate::kernel::Half;
use core::marker::PhantomData;
use moye_device::arch::{
    FULL_WARP, Word as _, Word128, bulk_commit_group, bulk_prefetch, bulk_store, bulk_wait_group_read,
    fence_proxy_async_shared, opaque, sync_warp, wait_flag,
};
use moye_device::atom::tma::{TmaCopy, TmaTensor};
use moye_device::collective::{
    Accumulators, Mainloop, RowsOfA, Sink, Team, TileEpilogue, WARPGROUP, WorkTile,
};
use moye_device::kernel::KernelParam;
use moye_device::memory::{Element, SharedStorage};
use moye_device::tensor::StaticLayout;

/// Bytes of a tile of `rows` x `columns` in a slot.
pub const fn slot_bytes(rows: u32, columns: u32) -> u32 {
    2 * rows * columns
}

/// Vectors that are loaded together: more would take registers from the accumulators.
const AT_ONCE: u32 = 8;

/// Vectors of a thread: eight results each.
const fn vectors<M: Mainloop>() -> u32 {
    (Accumulators::<M>::SIZE / 8) as u32
}

/// Bytes of a warpgroup's part of a tile.
const fn part<M: Mainloop>() -> u32 {
    16 * WARPGROUP * vectors::<M>()
}

/// The part of a tile of this thread's warpgroup.
#[inline(always)]
fn part_of<M: Mainloop>(slot: u64, tile: &WorkTile, tiles_n: u32, team: &Team) -> u64 {
    let tile = u64::from(tile.m * tiles_n + tile.n);
    let bytes = const { slot_bytes(M::TILE.0, M::TILE.1) };
    slot + tile * u64::from(bytes) + u64::from(team.warpgroup() * const { part::<M>() })
}

/// A part of a tile for each warpgroup, in shared memory.
pub struct Parcels<M>(PhantomData<M>);

impl<M: Mainloop> SharedStorage for Parcels<M> {
    const BYTES: usize = slot_bytes(M::TILE.0, M::TILE.1) as usize;
    const ALIGN: usize = 128;
    /// The address of the first.
    type Tensors = u32;

    #[inline(always)]
    unsafe fn at(base: u32) -> u32 {
        base
    }
}

/// The sink that fills a slot, in memory that the device reaches.
#[derive(Clone, Copy, Debug)]
pub struct ToSlot<T> {
    slot: u64,
    /// Tiles along N.
    tiles_n: u32,
    element: PhantomData<T>,
}

impl<T: Half> ToSlot<T> {
    /// To the slot at an address, with this many tiles along N.
    #[inline(always)]
    #[must_use]
    pub const fn new(slot: u64, tiles_n: u32) -> Self {
        Self { slot, tiles_n, element: PhantomData }
    }
}

impl<T: Half, M: Mainloop<Accumulator = f32>> Sink<M> for ToSlot<T> {
    type Storage = Parcels<M>;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(&self, tCrC: &Accumulators<M>, parcels: &u32, tile: &WorkTile, team: &Team, _: &mut M) {
        let (thread, barrier) = (team.within_warpgroup(), team.warpgroup_barrier());
        let parcel = parcels + team.warpgroup() * const { part::<M>() };
        if thread == 0 {
            bulk_wait_group_read::<0>();
        }
        barrier.sync();
        for v in 0..const { vectors::<M>() } {
            let word = |i: u32| {
                let at = (8 * v + 2 * i) as usize;
                T::pair(tCrC[at], tCrC[at + 1]) as u32
            };
            let vector = Word128([word(0), word(1), word(2), word(3)]);
            // SAFETY: the vector is the thread's, and TMA has read what was there.
            unsafe { Word128::store_shared(parcel + 16 * (WARPGROUP * v + thread), vector) };
        }
        fence_proxy_async_shared();
        barrier.sync();
        if thread == 0 {
            let place = part_of::<M>(self.slot, tile, self.tiles_n, team);
            // SAFETY: the barrier follows each thread's writes and fence; the slot is the kernel's.
            unsafe { bulk_store(place, parcel, const { part::<M>() }, None) };
            bulk_commit_group();
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn finish(&self, _team: &Team) {
        bulk_wait_group_read::<0>();
    }
}

/// The slots of a rank: one for each other rank.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Slots {
    /// The address of the first.
    pub first: u64,
    /// Bytes from one to the next.
    pub apart: u64,
    /// The address of the flags of all ranks, [`FLAG_BYTES`] apart.
    pub flags: u64,
    /// How many slots there are.
    pub count: u32,
    /// What the flags of the other ranks hold when the slots are complete.
    pub epoch: u32,
    /// This rank, whose flag is not waited for.
    pub rank: u32,
    /// Tiles along N.
    pub tiles_n: u32,
}

/// Adds the [`Slots`] to the accumulators, in their order: the sum is the same in each run. Each
/// thread waits for the flags while the last products of its tile run.
#[derive(Clone, Copy, Debug)]
pub struct AddSlots<T> {
    slots: Slots,
    element: PhantomData<T>,
}

impl<T: Half> AddSlots<T> {
    /// Adds these.
    #[inline(always)]
    #[must_use]
    pub const fn new(slots: Slots) -> Self {
        Self { slots, element: PhantomData }
    }
}

impl<M: Mainloop<Accumulator = f32>, T: Half> TileEpilogue<M> for AddSlots<T> {
    type Loaded = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(&self, _: &WorkTile, _: &Team) {
        let Slots { count, flags, epoch, rank, .. } = self.slots;
        for other in 0..=count {
            if other != rank {
                // SAFETY: each rank has a flag.
                unsafe { wait_flag(flags + u64::from(other * FLAG_BYTES), epoch) };
            }
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn apply(&self, tCrC: &mut Accumulators<M>, (): (), tile: &WorkTile, team: &Team) {
        let Slots { first, apart, count, tiles_n, .. } = self.slots;
        // `opaque`: computed while the accumulators wait, it would take a register.
        for slot in 0..opaque(count) {
            let place = part_of::<M>(first + u64::from(slot) * apart, tile, tiles_n, team);
            let place = place + u64::from(16 * opaque(team.within_warpgroup()));
            for v in 0..const { vectors::<M>() } {
                // SAFETY: the slot has the thread's vectors, and the flag says that they are there.
                let vector = unsafe { Word128::load_global(place + u64::from(16 * WARPGROUP * v)) };
                for i in 0..4 {
                    let at = (8 * v) as usize + 2 * i;
                    tCrC[at] += value::<T>(vector.0[i]);
                    tCrC[at + 1] += value::<T>(vector.0[i] >> 16);
                }
                if (v + 1).is_multiple_of(AT_ONCE) {
                    sync_warp(FULL_WARP);
                }
            }
        }
    }
}

/// The element in the lower half of a word.
#[inline(always)]
pub(crate) fn value<T: Half>(word: u32) -> f32 {
    moye_device::arch::Convert::<f32>::convert(T::from_bits(word as u16))
}

/// The rows of A, and the [`Slots`] of a tile of `N` columns: the thread that loads a tile has L2
/// fetch them, long before they are added. What is not written yet is fetched in vain.
#[derive(Debug)]
pub struct Fetching<C, const N: u32> {
    a: TmaTensor<C, 2>,
    slots: Slots,
}

impl<C, const N: u32> Clone for Fetching<C, N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<C, const N: u32> Copy for Fetching<C, N> {}

impl<C, const N: u32> Fetching<C, N> {
    /// The rows of `a`, and these slots.
    #[inline(always)]
    #[must_use]
    pub const fn new(a: TmaTensor<C, 2>, slots: Slots) -> Self {
        Self { a, slots }
    }
}

impl<T: Element, L: StaticLayout, const N: u32> RowsOfA<TmaCopy<T, L, 2>, 2> for Fetching<TmaCopy<T, L, 2>, N> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn rows_of(&self, tile: &WorkTile, block: u32) -> TmaTensor<TmaCopy<T, L, 2>, 2> {
        let Slots { first, apart, count, tiles_n, .. } = self.slots;
        let bytes = slot_bytes(block, N);
        for slot in 0..count {
            let place = first + u64::from(slot) * apart;
            let number = tile.m * tiles_n + tile.n;
            // SAFETY: the slot has the tile.
            unsafe { bulk_prefetch(place + u64::from(number) * u64::from(bytes), bytes) };
        }
        self.a.offset([(tile.m * block) as i32, 0])
    }
}
