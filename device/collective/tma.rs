//! The mainloop of Hopper for tensors of A and B: TMA fills stages, `wgmma` reads them.
//!
//! In a cluster of blocks, whose tiles are adjacent along M and need the same columns of B, each
//! block loads its share of B's tile by multicast.

use super::filled::{Fill, Filled};
use super::tiles::WorkTile;
use crate::atom::TilingError;
use crate::atom::tma::{TmaCopy, TmaTensor};
use crate::memory::Element;
use crate::pipeline::Filling;
use crate::tensor::{OneStage, SharedTensor, StaticLayout};
use core::marker::PhantomData;

/// The copy of a stage of A for `L`, from a tensor of `R` modes, (M, K) or (M, K, batch).
pub type LoadA<T, L, const R: usize = 2> = TmaCopy<T, OneStage<L>, R>;
/// The copy of a stage of B for `L`, from a tensor of `R` modes, (N, K) or (N, K, batch); each
/// block of a cluster loads a share.
pub type LoadB<T, L, const R: usize = 2, const CLUSTER: u32 = 1> = TmaCopy<T, OneStage<L>, R, CLUSTER>;

/// The rows of A that a tile of C needs, in the tensor of a tensor map of `R` modes.
///
/// For a tensor of coordinates, the tile's index along M and its batch determine them. Implement
/// this for tiles that begin at any row, such as those of groups of rows.
pub trait RowsOfA<C, const R: usize>: Copy {
    /// The tensor that starts at the first row of a tile of `block` rows, and at the first element
    /// along K.
    ///
    /// # Safety
    /// The memory that it reads is readable.
    unsafe fn rows_of(&self, tile: &WorkTile, block: u32) -> TmaTensor<C, R>;

    /// The number of rows of C from the tile's first row on: warpgroups without rows skip the
    /// tile's products, and their accumulators are undefined. The sink must store only these rows,
    /// like [`ToSpans`](super::ToSpans) and [`BoxesToSpans`](super::BoxesToSpans).
    ///
    /// # Safety
    /// The memory that it reads is readable.
    #[inline(always)]
    unsafe fn rows(&self, _tile: &WorkTile, _block: u32) -> u32 {
        u32::MAX
    }
}

impl<T: Element, L: StaticLayout, const R: usize> RowsOfA<TmaCopy<T, L, R>, R>
    for TmaTensor<TmaCopy<T, L, R>, R>
{
    #[inline(always)]
    unsafe fn rows_of(&self, tile: &WorkTile, _block: u32) -> Self {
        self.at(numbers(tile.m, 0, tile.batch))
    }
}

/// Loads the tiles of A and of B by their tensor maps: the [`Fill`] of [`TmaWarpSpecialised`].
pub struct ByTma<T: Element, LA, LB, const CLUSTER: u32, const R: usize, A> {
    a: A,
    b: TmaTensor<LoadB<T, LB, R, CLUSTER>, R>,
    stages: PhantomData<LA>,
}

impl<T: Element, LA, LB, const CLUSTER: u32, const R: usize, A: Copy> Clone
    for ByTma<T, LA, LB, CLUSTER, R, A>
{
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Element, LA, LB, const CLUSTER: u32, const R: usize, A: Copy> Copy
    for ByTma<T, LA, LB, CLUSTER, R, A>
{
}

/// The mainloop: elements `T`, stages of A and B in shared memory `LA` and `LB`,
/// `(BLK_M, BLK_K, PIPE)` and `(BLK_N, BLK_K, PIPE)` with `PIPE` = `STAGES`, multiplied by `M` with
/// both operands in shared memory.
///
/// Its [`Operands`](Mainloop::Operands) are the tensors of coordinates of the tensor maps of A and
/// B, by [`LoadA`] and [`LoadB`], or for A any [`RowsOfA`]. Out of bounds elements are loaded as
/// zeros.
pub type TmaWarpSpecialised<
    T,
    LA,
    LB,
    M,
    const STAGES: u32,
    const CLUSTER: u32 = 1,
    const R: usize = 2,
    A = TmaTensor<LoadA<T, LA, R>, R>,
> = Filled<ByTma<T, LA, LB, CLUSTER, R, A>, M, STAGES, CLUSTER>;

/// The tensors have a supported number of modes, or the mainloop does not compile.
const fn check_rank(rank: usize) {
    if rank != 2 && rank != 3 {
        TilingError::of("TmaWarpSpecialised")
            .str("tensors of A and B have 2 modes, or 3 with a batch, and these have ")
            .int(rank as i64)
            .raise();
    }
}

/// The tile's coordinates in a tensor (MN, K) or (MN, K, batch).
#[inline(always)]
const fn numbers<const R: usize>(mn: u32, k: u32, batch: u32) -> [u32; R] {
    let mut numbers = [0; R];
    (numbers[0], numbers[1]) = (mn, k);
    if R > 2 {
        numbers[R - 1] = batch;
    }
    numbers
}

impl<T, LA, LB, const STAGES: u32, const CLUSTER: u32, const R: usize, A> Fill<STAGES, CLUSTER>
    for ByTma<T, LA, LB, CLUSTER, R, A>
where
    A: RowsOfA<LoadA<T, LA, R>, R>,
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
{
    type Operands = (A, TmaTensor<LoadB<T, LB, R, CLUSTER>, R>);
    type A = T;
    type B = T;
    type StagesA = LA;
    type StagesB = LB;
    /// A from the tile's first row on.
    type Tile = TmaTensor<LoadA<T, LA, R>, R>;

    const BYTES: u32 = {
        check_rank(R);
        LoadA::<T, LA, R>::BYTES + LoadB::<T, LB, R, CLUSTER>::BYTES
    };

    #[inline(always)]
    fn new((a, b): Self::Operands) -> Self {
        Self { a, b, stages: PhantomData }
    }

    #[inline(always)]
    unsafe fn tile(&mut self, tile: &WorkTile) -> Self::Tile {
        // SAFETY: the memory of the operands is readable.
        unsafe { self.a.rows_of(tile, const { LA::LAYOUT.extent(0) as u32 }) }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(
        &self,
        gA: &Self::Tile,
        tile: &WorkTile,
        k: u32,
        stages: (SharedTensor<T, LA>, SharedTensor<T, LB>),
        filling: &Filling,
    ) {
        let (load_a, load_b) = (LoadA::<T, LA, R>::get_slice(), LoadB::<T, LB, R, CLUSTER>::get_slice());
        let gB = load_b.partition_s(self.b.at(numbers(tile.n, k, tile.batch)));
        let (sA, sB) = filling.of(stages); // (BLK_M, BLK_K), (BLK_N, BLK_K)
        // SAFETY: the stage is free and expects the bytes; the kernel's contract covers the maps.
        unsafe {
            load_a.copy(gA.at(numbers(0, k, 0)), sA, filling);
            load_b.copy(gB, load_b.partition_d(sB), filling);
        }
    }

    #[inline(always)]
    unsafe fn rows(&self, tile: &WorkTile) -> u32 {
        // SAFETY: the memory that it reads is readable.
        unsafe { self.a.rows(tile, const { LA::LAYOUT.extent(0) as u32 }) }
    }
}
