//! Lists of products of 8-bit floats with the scales of their blocks: the mainloop is
//! [`FilledPromoted`], whose operands and scales a tile's product says.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::block_scaled::kernel::{Mma, Smem};
use crate::filled::{FillScaled, FilledPromoted, TileScales};
use crate::grouped::list::{
    FillListed, Four, ListStages, ListTiles, Listed, MAP, MOST, Passed, Products, ToListed, chosen,
};
use moye_device::algorithm::CopyAs;
use moye_device::collective::*;
use moye_device::memory::TensorMapPointer;
use moye_device::prelude::*;

/// Stages of the mainloop.
const STAGES: u32 = 6;
/// Words of a product in the table: the maps of A and B, the product, and its scales.
pub const WORDS: usize = 48;

/// Operands of 8 bits, in tiles of 128 x 128.
#[derive(Clone, Copy)]
pub struct Bytes;

impl ListStages<STAGES> for Bytes {
    type Element = u8;
    type A = Smem<128, 6>;
    type B = Smem<128, 6>;
}

/// The copy of a stage of A, and of B.
pub type CopyA = LoadA<u8, Smem<128, 6>, 3>;
/// See [`CopyA`].
pub type CopyB = LoadB<u8, Smem<128, 6>, 3>;

/// Products of a list, with scales.
pub trait ScaledProducts: Products {
    /// The scales of A and of B.
    ///
    /// # Safety
    /// There is the product, in readable memory.
    unsafe fn scales(&self, product: u32) -> [BlockScales; 2];
}

/// The table of a list.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct ScaledList {
    /// The words, from a multiple of 64 bytes on.
    pub table: Global<u64>,
    /// Products.
    pub count: u32,
}

/// The place of the scales in a product's words: after its five.
pub const SCALES: usize = 2 * MAP + 5;

impl ScaledList {
    /// The words of a product from `word` on.
    #[inline(always)]
    fn words(&self, product: u32, word: usize) -> Global<u64> {
        self.table.offset((product as usize * WORDS + word) as i64)
    }
}

impl Products for ScaledList {
    #[inline(always)]
    fn count(&self) -> u32 {
        self.count
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn of(&self, product: u32) -> Listed {
        // SAFETY: the table has the product's words.
        unsafe { Listed::read(self.words(product, 2 * MAP)) }
    }

    #[inline(always)]
    fn map(&self, product: u32, operand: usize) -> TensorMapPointer {
        TensorMapPointer::from_address(self.words(product, operand * MAP).address())
    }
}

impl ScaledProducts for ScaledList {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn scales(&self, product: u32) -> [BlockScales; 2] {
        let words = self.words(product, SCALES);
        [0u32, 2].map(|at| {
            // SAFETY: the table has the product's words.
            let (scales, strides) = unsafe { (words.read(at), words.read(at + 1)) };
            let (row, k) = (strides as u32, (strides >> 32) as u32);
            BlockScales { scales: Global::from_address(scales), row, k, batch: 0 }
        })
    }
}

/// The scales of up to four products as a parameter.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct FourScales {
    /// The scales of A of the first product, and so on.
    pub a0: BlockScales,
    /// The scales of B.
    pub b0: BlockScales,
    /// See `a0`.
    pub a1: BlockScales,
    /// See `b0`.
    pub b1: BlockScales,
    /// See `a0`.
    pub a2: BlockScales,
    /// See `b0`.
    pub b2: BlockScales,
    /// See `a0`.
    pub a3: BlockScales,
    /// See `b0`.
    pub b3: BlockScales,
}

/// Products whose maps are parameters of the kernel, with scales.
#[derive(Clone, Copy)]
pub struct PassedScaled {
    passed: Passed,
    scales: FourScales,
}

impl Products for PassedScaled {
    #[inline(always)]
    fn count(&self) -> u32 {
        self.passed.count()
    }

    #[inline(always)]
    unsafe fn of(&self, product: u32) -> Listed {
        // SAFETY: there is the product.
        unsafe { self.passed.of(product) }
    }

    #[inline(always)]
    fn map(&self, product: u32, operand: usize) -> TensorMapPointer {
        self.passed.map(product, operand)
    }
}

impl ScaledProducts for PassedScaled {
    #[inline(always)]
    unsafe fn scales(&self, product: u32) -> [BlockScales; 2] {
        let FourScales { a0, b0, a1, b1, a2, b2, a3, b3 } = self.scales;
        let all: [[BlockScales; 2]; MOST] = [[a0, b0], [a1, b1], [a2, b2], [a3, b3]];
        chosen(all, product)
    }
}

impl<P: ScaledProducts> FillScaled<STAGES> for FillListed<Bytes, P> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn scales(&self, tile: &WorkTile) -> TileScales {
        // SAFETY: there is the product.
        let (Listed { m, n, .. }, of) = unsafe { (self.list.of(tile.batch), self.list.scales(tile.batch)) };
        TileScales { of, rows: [m, n] }
    }
}

/// The mainloop.
pub type Loop<P> = FilledPromoted<FillListed<Bytes, P>, Mma<SM90_64x128x32_F32E4M3E4M3_SS_TN, 2>, STAGES>;

/// Computes the products of a list.
///
/// # Safety
/// The contract of [`block_scaled_list`]; all threads of a kernel with its storage call it
/// together.
#[inline(always)]
unsafe fn multiply<O: Paired, P: ScaledProducts>(list: P)
where
    f32: CopyAs<O>,
{
    let (scheduler, sink) = (ListTiles::<Loop<P>, P>::new(list), ToListed::<O, P>::new(list));
    // SAFETY: the list's maps, scales and results are as the contract says; all threads are here.
    unsafe { gemm_warp_specialised::<Loop<P>, _, _, _>(FillListed::new(list), scheduler, (), sink) };
}

/// `c = (scale_a a) (scale_b b)^T` of e4m3 for each product of the list, by a persistent grid.
///
/// # Safety
/// The table has the products: maps of (M, K, 1) and (N, K, 1), made by [`CopyA`] and [`CopyB`], in
/// memory of the device, scales for their blocks of 1 x 128 and 128 x 128, and results that overlap
/// no operand and no other result. K is 1 or more.
#[kernel(
    threads = Loop::<ScaledList>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<ScaledList>, ToListed<O, ScaledList>>,
    instances = (block_scaled_list_bf16<bf16>, block_scaled_list_f32<f32>),
    table = ScaledListKernels
)]
pub unsafe fn block_scaled_list<O: Paired>(list: ScaledList)
where
    f32: CopyAs<O>,
{
    multiply::<O, _>(list);
}

/// [`block_scaled_list`] of up to four products, whose maps and scales are parameters.
///
/// # Safety
/// As [`block_scaled_list`]: maps and scales of products past the number are not used.
#[kernel(
    threads = Loop::<PassedScaled>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<PassedScaled>, ToListed<O, PassedScaled>>,
    instances = (block_scaled_pairs_bf16<bf16>, block_scaled_pairs_f32<f32>),
    table = ScaledPairsKernels
)]
pub unsafe fn block_scaled_pairs<O: Paired>(
    a0: TensorMap,
    b0: TensorMap,
    a1: TensorMap,
    b1: TensorMap,
    a2: TensorMap,
    b2: TensorMap,
    a3: TensorMap,
    b3: TensorMap,
    products: Four,
    scales: FourScales,
) where
    f32: CopyAs<O>,
{
    let maps = [
        [a0.pointer(), b0.pointer()],
        [a1.pointer(), b1.pointer()],
        [a2.pointer(), b2.pointer()],
        [a3.pointer(), b3.pointer()],
    ];
    multiply::<O, _>(PassedScaled { passed: Passed { products, maps }, scales });
}
