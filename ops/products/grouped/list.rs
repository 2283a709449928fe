//! Products of matrices anywhere in memory: a [`List`] of their extents and results, and their
//! tensor maps, are a table in the device's memory, or parameters of the kernel.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::kernel::{Grouped, Tiling, Wide};
use crate::operand::ScalesAt;
use core::marker::PhantomData;
use moye_device::algorithm::CopyAs;
use moye_device::arch::fence_proxy_tensormap;
use moye_device::collective::*;
use moye_device::memory::TensorMapPointer;
use moye_device::pipeline::Filling;
use moye_device::prelude::*;

/// Stages of the mainloop.
const STAGES: u32 = 4;
/// Words of a product in a table: the maps of A and B, and the product.
pub const WORDS: usize = 48;
/// Words of a tensor map.
pub const MAP: usize = 16;
/// The most products in a kernel's parameters.
pub const MOST: usize = 4;

/// A product of a list, without its maps.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, KernelParam)]
pub struct Listed {
    /// The address of C.
    pub c: u64,
    /// Stride between the rows of C.
    pub row: i64,
    /// Stride between the columns of C.
    pub column: i64,
    /// The scales of A.
    pub scale_a: ScalesAt,
    /// The scales of B.
    pub scale_b: ScalesAt,
    /// Rows of A.
    pub m: u32,
    /// Rows of B.
    pub n: u32,
    /// Elements of a row.
    pub k: u32,
    /// 1 if rows of C are contiguous, and begin and end at multiples of 16 bytes.
    pub aligned: u32,
}

impl Listed {
    /// The words after the maps.
    pub fn words(&self) -> [u64; 9] {
        let Self { c, row, column, scale_a, scale_b, m, n, k, aligned } = *self;
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let [of_a, of_b] = [scale_a, scale_b].map(|scales| [scales.address, pair(scales.row, scales.k)]);
        [c, row as u64, column as u64, pair(m, n), pair(k, aligned), of_a[0], of_a[1], of_b[0], of_b[1]]
    }

    /// The product with these words.
    ///
    /// # Safety
    /// The words are readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn read(words: Global<u64>) -> Self {
        // SAFETY: a product has nine words.
        unsafe {
            let [mn, k_aligned] = [words.read(3u32), words.read(4u32)];
            let [scale_a, scale_b] = [5u32, 7].map(|at| {
                let strides = words.read(at + 1);
                ScalesAt { address: words.read(at), row: strides as u32, k: (strides >> 32) as u32, batch: 0 }
            });
            Self {
                c: words.read(0u32),
                row: words.read(1u32) as i64,
                column: words.read(2u32) as i64,
                scale_a,
                scale_b,
                m: mn as u32,
                n: (mn >> 32) as u32,
                k: k_aligned as u32,
                aligned: (k_aligned >> 32) as u32,
            }
        }
    }
}

/// The products of a list.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, KernelParam)]
pub struct List {
    /// The address of a table, [`WORDS`] for each product from a multiple of 64 bytes on, which no
    /// thread of the kernel's launch writes. 0: the products are the fields below, and their maps
    /// are the kernel's parameters.
    pub table: u64,
    /// The first product.
    pub first: Listed,
    /// The second.
    pub second: Listed,
    /// The third.
    pub third: Listed,
    /// The fourth.
    pub fourth: Listed,
    /// The number of products.
    pub count: u32,
}

/// The tensor maps of A and B of up to [`MOST`] products, which are parameters of a kernel.
pub type Maps = [[TensorMapPointer; 2]; MOST];

/// A [`List`] with its maps.
#[derive(Clone, Copy)]
pub struct Products {
    list: List,
    maps: Maps,
}

/// The value for a product, without an index, which would put the values into local memory.
#[inline(always)]
fn chosen<V: Copy>(values: [V; MOST], product: u32) -> V {
    let mut value = values[0];
    #[allow(clippy::needless_range_loop, reason = "an index is a constant once it is unrolled")]
    for i in 1..MOST {
        if product == i as u32 {
            value = values[i];
        }
    }
    value
}

impl Products {
    /// The words of a product in the table.
    #[inline(always)]
    fn words(&self, product: u32, word: usize) -> Global<u64> {
        Global::from_address(self.list.table).offset((product as usize * WORDS + word) as i64)
    }

    /// A product.
    ///
    /// # Safety
    /// The product exists, in readable memory.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn of(&self, product: u32) -> Listed {
        if self.list.table != 0 {
            // SAFETY: the table has the product's words.
            return unsafe { Listed::read(self.words(product, 2 * MAP)) };
        }
        let List { first, second, third, fourth, .. } = self.list;
        chosen([first, second, third, fourth], product)
    }

    /// The tensor map of operand 0 or 1 of a product.
    #[inline(always)]
    fn map(&self, product: u32, operand: usize) -> TensorMapPointer {
        if self.list.table != 0 {
            return TensorMapPointer::from_address(self.words(product, operand * MAP).address());
        }
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
pub struct FillListed<S> {
    /// The products.
    pub products: Products,
    /// The product whose maps in the table this thread has acquired last.
    acquired: u32,
    stages: PhantomData<S>,
}

/// The mainloop.
pub type Loop<T> = Filled<FillListed<Halves<T>>, <Wide as Tiling<T>>::Mma, STAGES>;

impl<S: ListStages<PIPE>, const PIPE: u32> Fill<PIPE, 1> for FillListed<S> {
    type Operands = Self;
    type A = S::Element;
    type B = S::Element;
    type StagesA = S::A;
    type StagesB = S::B;
    /// The maps.
    type Tile = [TensorMapPointer; 2];
    const BYTES: u32 = LoadA::<S::Element, S::A, 3>::BYTES + LoadB::<S::Element, S::B, 3>::BYTES;

    #[inline(always)]
    fn new(operands: Self) -> Self {
        operands
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn tile(&mut self, tile: &WorkTile) -> Self::Tile {
        let maps = [0, 1].map(|operand| self.products.map(tile.batch, operand));
        if self.products.list.table != 0 && self.acquired != tile.batch {
            self.acquired = tile.batch;
            // SAFETY: the table has the product's maps, which the host has written.
            maps.into_iter().for_each(|map| unsafe { fence_proxy_tensormap(map) });
        }
        maps
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
        // SAFETY: the product exists.
        let Listed { m, .. } = unsafe { self.products.of(tile.batch) };
        m.saturating_sub(tile.m * const { S::A::LAYOUT.extent(0) as u32 })
    }
}

/// The tiles of all products for the mainloop `M`, one product after the other.
pub struct ListTiles<M> {
    products: Products,
    /// The worker's next tile, counted from the first of `product` on.
    next: u32,
    product: u32,
    mainloop: PhantomData<M>,
}

impl<M> Clone for ListTiles<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for ListTiles<M> {}

impl<M: Mainloop> TileScheduler for ListTiles<M> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        while self.product < self.products.list.count {
            // SAFETY: the product exists.
            let Listed { m, n, k, .. } = unsafe { self.products.of(self.product) };
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

/// To the results of the list, of elements `O`.
#[derive(Clone, Copy)]
pub struct ToListed<O> {
    products: Products,
    elements: PhantomData<O>,
}

impl<M: Mainloop<Accumulator = f32>, O: Paired> Sink<M> for ToListed<O>
where
    f32: CopyAs<O>,
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
        // SAFETY: the product exists, and its result is writable; one team stores each tile.
        unsafe {
            let Listed { c, row, column, m, n: columns, aligned, .. } = self.products.of(tile.batch);
            let c = GlobalMut::from_address(c);
            let target = Target::<O> { c, group: 0, row, column, columns, aligned, tensor: 0 };
            let sink = ToSpans::new(target, OfProduct(m));
            Sink::<M>::store(&sink, tCrC, staging, tile, team, mainloop);
        }
    }
}

/// Computes the products of a list by the mainloop `M` with stages `S`, to results `O`.
///
/// # Safety
/// The contract of [`grouped_list`] for the copies of `S`; all threads of a kernel with the storage
/// of `M` and [`ToListed`] call it together.
#[inline(always)]
pub unsafe fn multiply<M, S, O>(list: List, maps: Maps)
where
    M: WarpSpecialised<Operands = FillListed<S>, Accumulator = f32>,
    S: Copy,
    O: Paired,
    f32: CopyAs<O>,
{
    let products = Products { list, maps };
    let fill = FillListed { products, acquired: u32::MAX, stages: PhantomData };
    let scheduler = ListTiles::<M> { products, next: M::worker().number, product: 0, mainloop: PhantomData };
    let sink = ToListed::<O> { products, elements: PhantomData };
    // SAFETY: the list's maps, extents and results are as the contract says; all threads are here.
    unsafe { gemm_warp_specialised::<M, _, _, _>(fill, scheduler, (), sink) };
}

/// `c = a b^T` for each product of the list, by a persistent grid.
///
/// # Safety
/// The maps of the products are in the table or parameters: of (M, K, 1) and (N, K, 1) in memory of
/// the device, built by [`CopyA`](super::kernel::CopyA) and [`CopyB`](super::kernel::CopyB) of
/// [`Wide`]. Results overlap no operand and no other result. K is 1 or more. Maps of products past
/// the number are not used.
#[kernel(
    threads = Loop::<T>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<T>, ToListed<T>>,
    instances = (grouped_list_bf16<bf16>, grouped_list_f16<f16>)
)]
pub unsafe fn grouped_list<T: Grouped>(
    a0: TensorMap,
    b0: TensorMap,
    a1: TensorMap,
    b1: TensorMap,
    a2: TensorMap,
    b2: TensorMap,
    a3: TensorMap,
    b3: TensorMap,
    list: List,
) where
    f32: CopyAs<T>,
{
    let maps = [
        [a0.pointer(), b0.pointer()],
        [a1.pointer(), b1.pointer()],
        [a2.pointer(), b2.pointer()],
        [a3.pointer(), b3.pointer()],
    ];
    multiply::<Loop<T>, _, T>(list, maps);
}
