//! The mainloop: the language's multistage mainloop on tensor cores or CUDA cores, for the tile of
//! a block.
//!
//! A tile that would cross C's edge is moved back to end there, if possible: predicates make a tile
//! at an edge slower than a whole tile.

use super::arguments::Arguments;
use super::config::{ArgumentsOf, MmaConfig, OfLeading as _, Stages, TileC, Tiled};
use super::rows::Place;
use super::sink::TileSink;
use core::marker::PhantomData;
use moye_device::arch::{Fma as _, cp_async_wait_all, sync_threads};
use moye_device::atom::StaticTiledMma as _;
use moye_device::collective::{
    Accumulators, Batches, Mainloop, Multistage, MultistageConfig, StagesOf, WorkTile,
};
use moye_device::memory::{Element, SharedArray};
use moye_device::tensor::Strides as _;

/// A mainloop of these products, for their sinks.
pub trait TiledLoop:
    Mainloop<
        Mma = <Self::Tiling as Tiled>::Mma,
        TileC = TileC<Self::Tiling>,
        Accumulator = <Self::Tiling as Tiled>::Sum,
    >
{
    /// The tiling.
    type Tiling: Tiled;

    /// The kernel's arguments.
    fn arguments(&self) -> &ArgumentsOf<Self::Tiling>;

    /// The stages in shared memory. The sink may overwrite them, except the last K tile's.
    fn stages(&self) -> Stages<Self::Tiling>;

    /// The stage of the tile's last K tile, if the sink must multiply it.
    fn last_stage(&self) -> Option<u32>;

    /// The thread's place in a tile of C.
    fn place(&self, tile: &WorkTile) -> Place;
}

impl Place {
    /// The place of `thread` in a tile whose first row and column are `first`.
    #[inline(always)]
    pub fn new<T: Element, O: Element, S: Element>(
        arguments: &Arguments<T, O, S>,
        tile: &WorkTile,
        first: (u32, u32),
        thread: u32,
    ) -> Self {
        let (batch, split) = (tile.batch / arguments.splits, tile.batch % arguments.splits);
        let offset = i64::from(batch) * arguments.batch_c + i64::from(split) * arguments.split_c;
        Self { first, offset, thread }
    }
}

/// The mainloop of the configuration `G`.
pub struct Loop<G: MmaConfig> {
    arguments: ArgumentsOf<G>,
    stages: Stages<G>,
    thread: u32,
    /// The stage of the last K tile, if the sink multiplies it.
    last: Option<u32>,
}

/// The configuration's copies, for [`Multistage`].
pub struct Copies<G>(PhantomData<G>);

impl<G: MmaConfig> MultistageConfig for Copies<G> {
    type Element = G::Operand;
    type StridesA = G::StridesA;
    type StridesB = G::StridesB;
    type SmemA = G::SmemA;
    type SmemB = G::SmemB;
    type LoadA = G::LoadA;
    type LoadB = G::LoadB;
    type ReadA = G::ReadA;
    type ReadB = G::ReadB;
    type Mma = G::Mma;
}

impl<G: MmaConfig> Mainloop for Loop<G> {
    type Mma = G::Mma;
    type TileC = TileC<G>;
    type Accumulator = G::Sum;
    type Storage = (SharedArray<G::Operand, G::SmemA>, SharedArray<G::Operand, G::SmemB>);
    type Operands = ArgumentsOf<G>;

    const THREADS: u32 = G::Mma::THREADS;
    const TILE: (u32, u32, u32) = <Multistage<Copies<G>> as Mainloop>::TILE;

    #[inline(always)]
    unsafe fn start(arguments: ArgumentsOf<G>, stages: StagesOf<Self>, thread: u32, _: u32) -> Self {
        Self { arguments, stages, thread, last: None }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        let arguments = &self.arguments;
        let (first_m, first_n) = first::<G>(arguments, tile);
        let (k, k_end) = (tile.k * const { G::TILE.2 }, tile.k_end * const { G::TILE.2 });
        let batch = tile.batch / arguments.splits;
        let a = (arguments.a, (arguments.m, arguments.k), G::StridesA::of_leading(arguments.lda));
        let b = (arguments.b, (arguments.n, arguments.k), G::StridesB::of_leading(arguments.ldb));
        let mA = Batches::new(a.0, a.1, a.2, arguments.batch_a).part(batch, (first_m, k), k_end); // (M, K)
        let mB = Batches::new(b.0, b.1, b.2, arguments.batch_b).part(batch, (first_n, k), k_end); // (N, K)
        let leaves_last = const { G::Sink::TAKES_LAST_TILE };
        self.last = Multistage::<Copies<G>>::multiply(mA, mB, self.stages, self.thread, leaves_last, tCrC);
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn complete(&mut self, _: &mut Accumulators<Self>) {
        cp_async_wait_all();
        // If the sink multiplies the last tile, that tile has arrived for all threads.
        if self.last.is_none() {
            sync_threads();
        }
    }
}

impl<G: MmaConfig> TiledLoop for Loop<G> {
    type Tiling = G;

    #[inline(always)]
    fn arguments(&self) -> &ArgumentsOf<G> {
        &self.arguments
    }

    #[inline(always)]
    fn stages(&self) -> Stages<G> {
        self.stages
    }

    #[inline(always)]
    fn last_stage(&self) -> Option<u32> {
        self.last
    }

    #[inline(always)]
    fn place(&self, tile: &WorkTile) -> Place {
        Place::new(&self.arguments, tile, first::<G>(&self.arguments, tile), self.thread)
    }
}

/// A tile's first row and column. Blocks at an edge take the last whole tile, if there is one,
/// which overlaps its neighbour. Both write equal results to the overlap, which is correct unless C
/// is read first.
#[inline(always)]
pub(super) fn first<G: MmaConfig>(arguments: &ArgumentsOf<G>, tile: &WorkTile) -> (u32, u32) {
    let moves = arguments.beta == G::Scalar::ZERO;
    let (m, n, _) = const { G::TILE };
    (
        moved(tile.m * m, arguments.m, m, moves, const { granule_m::<G>() }),
        moved(tile.n * n, arguments.n, n, moves, const { granule_n::<G>() }),
    )
}

/// The first row (or column) of a tile of `block` rows that starts at `start`: moved back to end at
/// `end`, if there are enough rows and `granule` divides the extent.
#[inline(always)]
#[must_use]
pub const fn moved(start: u32, end: u32, block: u32, moves: bool, granule: u32) -> u32 {
    let moves = moves && end >= block && end.is_multiple_of(granule);
    if moves && start + block > end { end - block } else { start }
}

/// The granularity by which a tile may be moved along M: 16 bytes if A or C is contiguous along M.
const fn granule_m<G: MmaConfig>() -> u32 {
    let written = if G::Sink::ALONG_M { 16 / G::Output::BYTES as u32 } else { 1 };
    let read = granule::<G>(G::StridesA::UNIT);
    if read > written { read } else { written }
}

/// The granularity along N if C's is one element.
const fn granule_n<G: MmaConfig>() -> u32 {
    granule::<G>(G::StridesB::UNIT)
}

const fn granule<G: MmaConfig>(unit: Option<usize>) -> u32 {
    if matches!(unit, Some(0)) { 16 / G::Operand::BYTES as u32 } else { 1 }
}
