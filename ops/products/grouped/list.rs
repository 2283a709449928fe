//! Products of matrices anywhere in memory: the tensor maps and extents of each are in a table in
//! the device's memory, which the host has made.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::kernel::{CopyA, CopyB, Grouped, Tiling, Wide};
use crate::filled::{Fill, Filled};
use core::marker::PhantomData;
use moye_device::algorithm::CopyAs;
use moye_device::collective::*;
use moye_device::memory::TensorMapPointer;
use moye_device::pipeline::Filling;
use moye_device::prelude::*;

/// Stages of the mainloop.
const STAGES: u32 = 4;
/// Words of a product in the table: the maps of A and B, the place of C, and the extents.
pub const WORDS: usize = 40;
/// Words of a tensor map.
pub const MAP: usize = 16;

/// The table of a list of products.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct List {
    /// The words, from a multiple of 64 bytes on.
    pub table: Global<u64>,
    /// Products.
    pub count: u32,
}

/// A product of the list, without its maps.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// The address of C, and the elements between its rows and columns.
    pub c: u64,
    /// See `c`.
    pub row: i64,
    /// See `c`.
    pub column: i64,
    /// M, N and K.
    pub extents: [u32; 3],
    /// 1 where rows of C are contiguous, and begin and end at multiples of 16 bytes.
    pub aligned: u32,
}

impl Listed {
    /// The words after the maps.
    pub fn words(&self) -> [u64; 5] {
        let [m, n, k] = self.extents;
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        [self.c, self.row as u64, self.column as u64, pair(m, n), pair(k, self.aligned)]
    }
}

impl List {
    /// A product.
    ///
    /// # Safety
    /// The table is readable, and has the product.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn of(&self, product: u32) -> Listed {
        let words = self.table.offset((product as usize * WORDS + 2 * MAP) as i64);
        // SAFETY: the table has the product's words.
        unsafe {
            let [mn, k_aligned] = [words.read(3u32), words.read(4u32)];
            Listed {
                c: words.read(0u32),
                row: words.read(1u32) as i64,
                column: words.read(2u32) as i64,
                extents: [mn as u32, (mn >> 32) as u32, k_aligned as u32],
                aligned: (k_aligned >> 32) as u32,
            }
        }
    }

    /// The tensor map of operand 0 or 1 of a product.
    #[inline(always)]
    fn map(&self, product: u32, operand: usize) -> TensorMapPointer {
        let map = self.table.offset((product as usize * WORDS + operand * MAP) as i64);
        TensorMapPointer::from_address(map.address())
    }
}

/// Both operands of a tile's product, by its maps.
#[derive(Clone, Copy)]
pub struct FillListed<T> {
    list: List,
    elements: PhantomData<T>,
}

/// The mainloop.
pub type Loop<T> = Filled<FillListed<T>, <Wide as Tiling<T>>::Mma, STAGES>;
/// The rows of A and B of a tile.
type StagesA<T> = <Wide as Tiling<T>>::SmemA;
type StagesB<T> = <Wide as Tiling<T>>::SmemB;

impl<T: Grouped> Fill<STAGES, 1> for FillListed<T> {
    type Element = T;
    type StagesA = StagesA<T>;
    type StagesB = StagesB<T>;
    const BYTES: u32 = CopyA::<T, Wide>::BYTES + CopyB::<T, Wide, 1>::BYTES;
    /// The maps.
    type Tile = [TensorMapPointer; 2];

    #[inline(always)]
    unsafe fn tile(&self, tile: &WorkTile) -> Self::Tile {
        [0, 1].map(|operand| self.list.map(tile.batch, operand))
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(
        &self,
        &[a, b]: &Self::Tile,
        tile: &WorkTile,
        k: u32,
        stages: (SharedTensor<T, StagesA<T>>, SharedTensor<T, StagesB<T>>),
        filling: &Filling,
    ) {
        let (sA, sB) = filling.of(stages); // (128, 64), (256, 64)
        let (m, n, k_tile) = const { Loop::<T>::TILE };
        let start = |first: u32| [first as i32, (k_tile * k) as i32, 0];
        let [to_a, to_b] = [sA.address_of((0u32, 0u32)), sB.address_of((0u32, 0u32))];
        let (copy_a, copy_b) = const { (CopyA::<T, Wide>::TILE, CopyB::<T, Wide, 1>::TILE) };
        // SAFETY: the stage is free and expects the bytes of both tiles; the maps of the table are
        // of these copies.
        unsafe {
            copy_a.load(to_a, a, start(m * tile.m), filling.barrier(), None, None);
            copy_b.load(to_b, b, start(n * tile.n), filling.barrier(), None, None);
        }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn rows(&self, tile: &WorkTile) -> u32 {
        // SAFETY: the table has the product.
        let [m, ..] = unsafe { self.list.of(tile.batch) }.extents;
        m.saturating_sub(tile.m * const { Loop::<T>::TILE.0 })
    }
}

/// The tiles of all products, one product after the other.
#[derive(Clone, Copy)]
pub struct ListTiles<T> {
    list: List,
    /// The worker's next tile, counted from the first of `product` on.
    next: u32,
    product: u32,
    elements: PhantomData<T>,
}

impl<T: Grouped> TileScheduler for ListTiles<T> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        while self.product < self.list.count {
            // SAFETY: the table has the product.
            let [m, n, k] = unsafe { self.list.of(self.product) }.extents;
            let (tiles, place) = (Loop::<T>::tiles((m, n, k), 1), self.next);
            if place < tiles.count() {
                let worker = Loop::<T>::worker();
                self.next += worker.count;
                let rows = const { 2048 / Loop::<T>::TILE.0 };
                let tile = Bands::new(tiles, rows).work(worker, place, (0, tiles.k));
                return Some(WorkTile { batch: self.product, ..tile });
            }
            self.next -= tiles.count();
            self.product += 1;
        }
        None
    }
}

/// The rows of a tile in its product's result.
#[derive(Clone, Copy)]
struct OfProduct(u32);

impl RowSpans for OfProduct {
    #[inline(always)]
    unsafe fn of_tile(&self, tile: &WorkTile, block: u32) -> (u32, u32) {
        (tile.m * block, self.0.saturating_sub(tile.m * block))
    }

    #[inline(always)]
    fn end(&self, _: u32) -> u32 {
        self.0
    }
}

/// To the results of the list.
#[derive(Clone, Copy)]
pub struct ToListed<T> {
    list: List,
    elements: PhantomData<T>,
}

impl<M: Mainloop<Accumulator = f32>, T: Grouped> Sink<M> for ToListed<T>
where
    f32: CopyAs<T>,
{
    type Storage = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(
        &self,
        tCrC: &Accumulators<M>,
        staging: &(),
        tile: &WorkTile,
        team: &Team,
        mainloop: &mut M,
    ) {
        // SAFETY: the table has the product, whose result is writable; each tile is one team's.
        unsafe {
            let Listed { c, row, column, extents: [m, columns, _], aligned } = self.list.of(tile.batch);
            let c = GlobalMut::from_address(c);
            let target = Target::<T> { c, group: 0, row, column, columns, aligned, tensor: 0 };
            let sink = ToSpans::new(target, OfProduct(m));
            Sink::<M>::store(&sink, tCrC, staging, tile, team, mainloop);
        }
    }
}

/// `c = a b^T` for each product of the list, by a persistent grid.
///
/// # Safety
/// The table has the products: maps of (M, K, 1) and (N, K, 1), made by [`CopyA`] and [`CopyB`] of
/// [`Wide`], in memory of the device, and results that overlap no operand and no other result. K is
/// 1 or more.
#[kernel(
    threads = Loop::<T>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<T>, ToListed<T>>,
    instances = (grouped_list_bf16<bf16>, grouped_list_f16<f16>),
    table = GroupedListKernels
)]
pub unsafe fn grouped_list<T: Grouped>(list: List)
where
    f32: CopyAs<T>,
{
    let (next, elements) = (Loop::<T>::worker().number, PhantomData::<T>);
    let scheduler = ListTiles { list, next, product: 0, elements };
    let (fill, sink) = (FillListed { list, elements }, ToListed { list, elements });
    gemm_warp_specialised::<Loop<T>, _, _, _>(fill, scheduler, (), sink);
}
