//! The mainloop of the consumer warps.

use super::{LANDINGS, LOAD, Landings, ReadersOf, SgemmConfig, first};
use crate::kernels::mma::{ArgumentsOf, Place, Stages, TileC, TiledLoop};
use moye_device::algorithm::{clear, copy};
use moye_device::arch::{FULL_WARP, sync_warp};
use moye_device::atom::{StaticTiledCopy, StaticTiledMma};
use moye_device::collective::{Accumulators, Mainloop, StagesOf, WorkTile};
use moye_device::memory::SharedArray;
use moye_device::pipeline::{Consumer, PipelineStorage, Warps};
use moye_device::tensor::{Fragment, OneStage, StaticLayout};

/// The mainloop of the configuration `G`, with `STAGES` stages. It leaves the last K tile to the
/// sink.
///
/// The threads of the language's [`Multistage`](moye_device::collective::Multistage) load their
/// stages themselves. Here producer warps load them, and each consumer warp releases a stage after
/// reading it.
pub struct Loop<'a, G: SgemmConfig, const STAGES: u32> {
    arguments: &'a ArgumentsOf<G>,
    consumer: Consumer<STAGES, 1>,
    /// (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
    stages: Stages<G>,
    thread: u32,
    /// The stage of the last K tile.
    last: Option<u32>,
}

impl<'a, G: SgemmConfig, const STAGES: u32> Mainloop for Loop<'a, G, STAGES> {
    type Mma = G::Mma;
    type TileC = TileC<G>;
    type Accumulator = f32;
    type Storage = (
        SharedArray<f32, G::SmemA>,
        SharedArray<f32, G::SmemB>,
        Landings<G>,
        PipelineStorage<STAGES, ReadersOf<G>>,
        PipelineStorage<LANDINGS, Warps<LOAD>>,
    );
    type Operands = &'a ArgumentsOf<G>;

    /// The consumer warps.
    const THREADS: u32 = G::Mma::THREADS;
    const TILE: (u32, u32, u32) = G::TILE;

    #[inline(always)]
    unsafe fn start(
        arguments: &'a ArgumentsOf<G>,
        (sA, sB, _, pipeline, _): StagesOf<Self>,
        thread: u32,
        _: u32,
    ) -> Self {
        Self { arguments, consumer: pipeline.consumer(), stages: (sA, sB), thread, last: None }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, accumulators: &mut Accumulators<Self>) {
        let (sA, sB) = self.stages;
        let mma = G::Mma::get_slice(self.thread);
        let (mut tCrA, mut tCrB) = (
            // (MMA, MMA_M, MMA_K)
            mma.partition_fragment_a(&sA.at((.., .., 0))),
            // (MMA, MMA_N, MMA_K)
            mma.partition_fragment_b(&sB.at((.., .., 0))),
        );
        let mut tCrC = mma.accumulator::<TileC<G>>(); // (MMA, MMA_M, MMA_N)
        let (copy_a, copy_b) = (G::ReadA::get_slice(self.thread), G::ReadB::get_slice(self.thread));
        let tCsA = copy_a.partition_s(sA); // (CPY, MMA_M, MMA_K, PIPE)
        let tCsB = copy_b.partition_s(sB); // (CPY, MMA_N, MMA_K, PIPE)
        let steps = const { G::Mma::MMA.partition_a(OneStage::<G::SmemA>::LAYOUT).extent(2) as u32 };
        // Loads the fragments of a step from its tile's stage, which is full, to the registers of
        // step `$to`.
        macro_rules! read {
            ($stage:expr, $step:expr => $to:expr) => {
                let (stage, step): (u32, u32) = ($stage, $step);
                let (a, b) = (tCsA.at((.., .., step, stage)), tCsB.at((.., .., step, stage))); // (CPY, MMA_M), (CPY, MMA_N)
                copy(a, copy_a.retile_d(&mut tCrA).at_mut((.., .., $to)));
                copy(b, copy_b.retile_d(&mut tCrB).at_mut((.., .., $to)));
            };
        }
        macro_rules! multiply {
            ($step:expr) => {
                mma.gemm(&mut tCrC, tCrA.at((.., .., $step)), tCrB.at((.., .., $step)))
            };
        }
        // The loop multiplies the previous tile's last step; for the first tile that step is zeros.
        clear(&mut tCrA.at_mut((.., .., steps - 1)));
        clear(&mut tCrB.at_mut((.., .., steps - 1)));
        let mut before = None;
        for _ in tile.k..tile.k_end - 1 {
            if let Some(before) = before {
                let read = last_read(&tCrA, &tCrB, steps - 1);
                // One lane arrives after all lanes have loaded.
                sync_warp(FULL_WARP);
                self.consumer.release_read(before, read, self.arguments.reserved);
            }
            // The wait precedes all arithmetic: `ptxas` orders instructions only within a block
            // without branches.
            let full = self.consumer.wait();
            read!(full.index(), 0 => 0);
            multiply!(steps - 1);
            for step in 0..steps - 1 {
                read!(full.index(), step + 1 => step + 1);
                multiply!(step);
            }
            before = Some(full);
        }
        let last = self.consumer.wait();
        multiply!(steps - 1);
        *accumulators = tCrC;
        self.last = Some(last.index());
    }

    #[inline(always)]
    unsafe fn complete(&mut self, _: &mut Accumulators<Self>) {}
}

impl<G: SgemmConfig, const STAGES: u32> TiledLoop for Loop<'_, G, STAGES> {
    type Tiling = G;

    #[inline(always)]
    fn arguments(&self) -> &ArgumentsOf<G> {
        self.arguments
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
        Place::new(self.arguments, tile, first::<G>(self.arguments, tile), self.thread)
    }
}

/// A value that depends on a register of each vector loaded in a step.
#[inline(always)]
fn last_read<A: StaticLayout, B: StaticLayout>(
    tCrA: &Fragment<f32, A>, // (MMA, MMA_M, MMA_K)
    tCrB: &Fragment<f32, B>, // (MMA, MMA_N, MMA_K)
    step: u32,
) -> u32 {
    let (a, b) = (tCrA.at((.., .., step)), tCrB.at((.., .., step))); // (MMA, MMA_M), (MMA, MMA_N)
    let (m, n) = const { (A::LAYOUT.take(0, 2).size() as usize, B::LAYOUT.take(0, 2).size() as usize) };
    let mut read = 0;
    // SAFETY: the step was loaded; vectors have four elements.
    unsafe {
        let mut i = 0;
        while i < m {
            read ^= a.get(i).to_bits();
            i += 4;
        }
        let mut j = 0;
        while j < n {
            read ^= b.get(j).to_bits();
            j += 4;
        }
    }
    read
}
