//! Products of matrices anywhere in memory. Their tensor maps and extents are [`Products`]: a table
//! in the device's memory, which the host has made, or parameters of the kernel.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::kernel::{Grouped, Tiling, Wide};
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, KernelParam)]
pub struct Listed {
    /// The address of C, and the elements between its rows and columns.
    pub c: u64,
    /// See `c`.
    pub row: i64,
    /// See `c`.
    pub column: i64,
    /// Rows of A.
    pub m: u32,
    /// Rows of B.
    pub n: u32,
    /// Elements of a row.
    pub k: u32,
    /// 1 where rows of C are contiguous, and begin and end at multiples of 16 bytes.
    pub aligned: u32,
}

impl Listed {
    /// The words after the maps.
    pub fn words(&self) -> [u64; 5] {
        let Self { m, n, k, .. } = *self;
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        [self.c, self.row as u64, self.column as u64, pair(m, n), pair(k, self.aligned)]
    }

    /// The product with these words.
    ///
    /// # Safety
    /// The words are readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn read(words: Global<u64>) -> Self {
        // SAFETY: a product has five words.
        unsafe {
            let [mn, k_aligned] = [words.read(3u32), words.read(4u32)];
            Self {
                c: words.read(0u32),
                row: words.read(1u32) as i64,
                column: words.read(2u32) as i64,
                m: mn as u32,
                n: (mn >> 32) as u32,
                k: k_aligned as u32,
                aligned: (k_aligned >> 32) as u32,
            }
        }
    }
}

/// Where products of a list are.
pub trait Products: Copy {
    /// Their number.
    fn count(&self) -> u32;

    /// A product.
    ///
    /// # Safety
    /// There is the product, in readable memory.
    unsafe fn of(&self, product: u32) -> Listed;

    /// The tensor map of operand 0 or 1 of a product.
    fn map(&self, product: u32, operand: usize) -> TensorMapPointer;
}

impl Products for List {
    #[inline(always)]
    fn count(&self) -> u32 {
        self.count
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn of(&self, product: u32) -> Listed {
        // SAFETY: the table has the product's words.
        unsafe { Listed::read(self.table.offset((product as usize * WORDS + 2 * MAP) as i64)) }
    }

    #[inline(always)]
    fn map(&self, product: u32, operand: usize) -> TensorMapPointer {
        let map = self.table.offset((product as usize * WORDS + operand * MAP) as i64);
        TensorMapPointer::from_address(map.address())
    }
}

/// Products of a kernel's parameters at most.
pub const MOST: usize = 4;

/// Up to [`MOST`] products as a parameter.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, KernelParam)]
pub struct Four {
    /// The products.
    pub first: Listed,
    /// See `first`.
    pub second: Listed,
    /// See `first`.
    pub third: Listed,
    /// See `first`.
    pub fourth: Listed,
    /// Their number.
    pub count: u32,
}

/// Products whose maps are parameters of the kernel.
#[derive(Clone, Copy)]
pub struct Passed {
    /// Without the maps.
    pub products: Four,
    /// The maps of A and B.
    pub maps: [[TensorMapPointer; 2]; MOST],
}

/// The value for a product: no index, with which the values would be in local memory.
#[inline(always)]
pub fn chosen<V: Copy>(values: [V; MOST], product: u32) -> V {
    let mut value = values[0];
    #[allow(clippy::needless_range_loop, reason = "an index is a constant once it is unrolled")]
    for i in 1..MOST {
        if product == i as u32 {
            value = values[i];
        }
    }
    value
}

impl Products for Passed {
    #[inline(always)]
    fn count(&self) -> u32 {
        self.products.count
    }

    #[inline(always)]
    unsafe fn of(&self, product: u32) -> Listed {
        let Four { first, second, third, fourth, .. } = self.products;
        chosen([first, second, third, fourth], product)
    }

    #[inline(always)]
    fn map(&self, product: u32, operand: usize) -> TensorMapPointer {
        chosen(self.maps.map(|maps| maps[operand]), product)
    }
}

/// The stages of a list's mainloop, `PIPE` of them.
pub trait ListStages<const PIPE: u32>: Copy + Send + Sync + 'static {
    /// The elements.
    type Element: Element;
    /// Stages of A, (BLK_M, BLK_K, PIPE).
    type A: StaticLayout;
    /// Stages of B, (BLK_N, BLK_K, PIPE).
    type B: StaticLayout;
}

/// f16 or bf16, in tiles of 128 x 256.
#[derive(Clone, Copy)]
pub struct Halves<T>(PhantomData<T>);

impl<T: Grouped> ListStages<STAGES> for Halves<T> {
    type Element = T;
    type A = <Wide as Tiling<T>>::SmemA;
    type B = <Wide as Tiling<T>>::SmemB;
}

/// Both operands of a tile's product, by its maps.
#[derive(Clone, Copy)]
pub struct FillListed<S, P> {
    /// The products.
    pub list: P,
    stages: PhantomData<S>,
}

impl<S, P> FillListed<S, P> {
    /// The operands of these products.
    #[inline(always)]
    pub const fn new(list: P) -> Self {
        Self { list, stages: PhantomData }
    }
}

/// The mainloop.
pub type Loop<T, P = List> = Filled<FillListed<Halves<T>, P>, <Wide as Tiling<T>>::Mma, STAGES>;

impl<S: ListStages<PIPE>, P: Products, const PIPE: u32> Fill<PIPE, 1> for FillListed<S, P> {
    type Element = S::Element;
    type StagesA = S::A;
    type StagesB = S::B;
    const BYTES: u32 = LoadA::<S::Element, S::A, 3>::BYTES + LoadB::<S::Element, S::B, 3>::BYTES;
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
        stages: (SharedTensor<S::Element, S::A>, SharedTensor<S::Element, S::B>),
        filling: &Filling,
    ) {
        let (sA, sB) = filling.of(stages); // (BLK_M, BLK_K), (BLK_N, BLK_K)
        let [m, n, k_tile] =
            const { [S::A::LAYOUT.extent(0), S::B::LAYOUT.extent(0), S::A::LAYOUT.extent(1)] };
        let start = |first: u32| [first as i32, (k_tile as u32 * k) as i32, 0];
        let [to_a, to_b] = [sA.address_of((0u32, 0u32)), sB.address_of((0u32, 0u32))];
        let (copy_a, copy_b) =
            const { (LoadA::<S::Element, S::A, 3>::TILE, LoadB::<S::Element, S::B, 3>::TILE) };
        // SAFETY: the stage is free and expects the bytes of both tiles; the maps of the list are
        // of these copies.
        unsafe {
            copy_a.load(to_a, a, start(m as u32 * tile.m), filling.barrier(), None, None);
            copy_b.load(to_b, b, start(n as u32 * tile.n), filling.barrier(), None, None);
        }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn rows(&self, tile: &WorkTile) -> u32 {
        // SAFETY: there is the product.
        let Listed { m, .. } = unsafe { self.list.of(tile.batch) };
        m.saturating_sub(tile.m * const { S::A::LAYOUT.extent(0) as u32 })
    }
}

/// The tiles of all products for the mainloop `M`, one product after the other.
pub struct ListTiles<M, P> {
    list: P,
    /// The worker's next tile, counted from the first of `product` on.
    next: u32,
    product: u32,
    mainloop: PhantomData<M>,
}

impl<M, P: Copy> Clone for ListTiles<M, P> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<M, P: Copy> Copy for ListTiles<M, P> {}

impl<M: Mainloop, P: Products> ListTiles<M, P> {
    /// The tiles of this block's worker.
    #[inline(always)]
    pub fn new(list: P) -> Self {
        Self { list, next: M::worker().number, product: 0, mainloop: PhantomData }
    }
}

impl<M: Mainloop, P: Products> TileScheduler for ListTiles<M, P> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        while self.product < self.list.count() {
            // SAFETY: there is the product.
            let Listed { m, n, k, .. } = unsafe { self.list.of(self.product) };
            let (tiles, place) = (M::tiles((m, n, k), 1), self.next);
            if place < tiles.count() {
                let worker = M::worker();
                self.next += worker.count;
                let rows = const { 2048 / M::TILE.0 };
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

/// To the results of the list, of elements `T`.
#[derive(Clone, Copy)]
pub struct ToListed<T, P> {
    list: P,
    elements: PhantomData<T>,
}

impl<T, P> ToListed<T, P> {
    /// To the results of these products.
    #[inline(always)]
    pub const fn new(list: P) -> Self {
        Self { list, elements: PhantomData }
    }
}

impl<M: Mainloop<Accumulator = f32>, T: Paired, P: Products> Sink<M> for ToListed<T, P>
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
        // SAFETY: there is the product, whose result is writable; each tile is one team's.
        unsafe {
            let Listed { c, row, column, m, n: columns, aligned, .. } = self.list.of(tile.batch);
            let c = GlobalMut::from_address(c);
            let target = Target::<T> { c, group: 0, row, column, columns, aligned, tensor: 0 };
            let sink = ToSpans::new(target, OfProduct(m));
            Sink::<M>::store(&sink, tCrC, staging, tile, team, mainloop);
        }
    }
}

/// Computes the products of a list.
///
/// # Safety
/// The contract of [`grouped_list`]; all threads of a kernel with its storage call it together.
#[inline(always)]
unsafe fn multiply<T: Grouped, P: Products>(list: P)
where
    f32: CopyAs<T>,
{
    let fill = FillListed::<Halves<T>, P>::new(list);
    let (scheduler, sink) = (ListTiles::<Loop<T, P>, P>::new(list), ToListed::<T, P>::new(list));
    // SAFETY: the list's maps, extents and results are as the contract says; all threads are here.
    unsafe { gemm_warp_specialised::<Loop<T, P>, _, _, _>(fill, scheduler, (), sink) };
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
    shared = StorageOf<Loop<T>, ToListed<T, List>>,
    instances = (grouped_list_bf16<bf16>, grouped_list_f16<f16>),
    table = GroupedListKernels
)]
pub unsafe fn grouped_list<T: Grouped>(list: List)
where
    f32: CopyAs<T>,
{
    multiply::<T, _>(list);
}

/// [`grouped_list`] of up to four products, whose maps are parameters.
///
/// # Safety
/// As [`grouped_list`]: maps of products past the number are not used.
#[kernel(
    threads = Loop::<T, Passed>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<T, Passed>, ToListed<T, Passed>>,
    instances = (grouped_pairs_bf16<bf16>, grouped_pairs_f16<f16>),
    table = GroupedPairsKernels
)]
pub unsafe fn grouped_pairs<T: Grouped>(
    a0: TensorMap,
    b0: TensorMap,
    a1: TensorMap,
    b1: TensorMap,
    a2: TensorMap,
    b2: TensorMap,
    a3: TensorMap,
    b3: TensorMap,
    products: Four,
) where
    f32: CopyAs<T>,
{
    let maps = [
        [a0.pointer(), b0.pointer()],
        [a1.pointer(), b1.pointer()],
        [a2.pointer(), b2.pointer()],
        [a3.pointer(), b3.pointer()],
    ];
    multiply::<T, _>(Passed { products, maps });
}
