//! The consumer warps.

use super::{Job, SgemmConfig};
use crate::mma::{ArgumentsOf, LastTile as _, Stages, TileC};
use moye_device::algorithm::{clear, copy};
use moye_device::arch::{FULL_WARP, increase_registers, sync_warp};
use moye_device::atom::{StaticTiledCopy, StaticTiledMma};
use moye_device::pipeline::Consumer;
use moye_device::tensor::{Fragment, OneStage, StaticLayout};

/// Takes registers.
///
/// # Safety
/// All warps of a warpgroup call it once.
#[inline(always)]
pub(super) unsafe fn registers<G: SgemmConfig>() {
    match const { G::REGISTERS[1] } {
        216 => increase_registers::<216>(),
        _ => increase_registers::<224>(),
    }
}

/// Multiplies all K tiles, and stores the tile of C.
///
/// # Safety
/// All threads of the consumer warps call it, each with its number; the kernel's contract.
#[inline(always)]
pub(super) unsafe fn multiply<G: SgemmConfig, const STAGES: u32>(
    mut consumer: Consumer<STAGES, 1>,
    (sA, sB): Stages<G>, // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
    arguments: &ArgumentsOf<G>,
    job: Job,
    thread: u32,
) {
    let mma = G::Mma::get_slice(thread);
    let (mut tCrA, mut tCrB) = (
        // (MMA, MMA_M, MMA_K)
        mma.partition_fragment_a(&sA.at((.., .., 0))),
        // (MMA, MMA_N, MMA_K)
        mma.partition_fragment_b(&sB.at((.., .., 0))),
    );
    let mut tCrC = mma.accumulator::<TileC<G>>(); // (MMA, MMA_M, MMA_N)
    let (copy_a, copy_b) = (G::ReadA::get_slice(thread), G::ReadB::get_slice(thread));
    let tCsA = copy_a.partition_s(sA); // (CPY, MMA_M, MMA_K, PIPE)
    let tCsB = copy_b.partition_s(sB); // (CPY, MMA_N, MMA_K, PIPE)
    let steps = const { G::Mma::MMA.partition_a(OneStage::<G::SmemA>::LAYOUT).extent(2) as u32 };
    // Loads the fragments of a step from the stage that holds its tile, which is full, to the
    // registers of step `$to`.
    macro_rules! read {
        ($stage:expr, $step:expr => $to:expr) => {
            let (stage, step): (u32, u32) = ($stage, $step);
            let (a, b) = (tCsA.at((.., .., step, stage)), tCsB.at((.., .., step, stage))); // (CPY, MMA_M), (CPY, MMA_N)
            copy(a, copy_a.retile_d(&mut tCrA).at_mut((.., .., $to)));
            copy(b, copy_b.retile_d(&mut tCrB).at_mut((.., .., $to)));
        };
    }
    // The fragments of a step.
    macro_rules! multiply {
        ($step:expr) => {
            mma.gemm(&mut tCrC, tCrA.at((.., .., $step)), tCrB.at((.., .., $step)))
        };
    }
    // The first tile has no previous tile, whose last step is multiplied here: it multiplies zeros.
    clear(&mut tCrA.at_mut((.., .., steps - 1)));
    clear(&mut tCrB.at_mut((.., .., steps - 1)));
    let mut before = None;
    for _ in 0..job.tiles - 1 {
        if let Some(before) = before {
            let read = last_read(&tCrA, &tCrB, steps - 1);
            // Each lane loads for itself, and one lane arrives for all of them.
            sync_warp(FULL_WARP);
            consumer.release_read(before, read, arguments.reserved);
        }
        // The wait is before all arithmetic, not within it: `ptxas` orders instructions within
        // a block without branches.
        let full = consumer.wait();
        read!(full.index(), 0 => 0);
        multiply!(steps - 1);
        for step in 0..steps - 1 {
            read!(full.index(), step + 1 => step + 1);
            multiply!(step);
        }
        before = Some(full);
    }
    let last = consumer.wait();
    multiply!(steps - 1);
    // The sink multiplies the last K tile itself, and stores C meanwhile. No stage is filled any
    // more.
    let place = job.place::<G>(arguments, thread);
    G::Sink::last_tile(&mut tCrC, ((sA, sB), last.index()), arguments, place);
}

/// A value that depends on a register of each vector that was loaded in a step.
#[inline(always)]
fn last_read<A: StaticLayout, B: StaticLayout>(
    tCrA: &Fragment<f32, A>, // (MMA, MMA_M, MMA_K)
    tCrB: &Fragment<f32, B>, // (MMA, MMA_N, MMA_K)
    step: u32,
) -> u32 {
    let (a, b) = (tCrA.at((.., .., step)), tCrB.at((.., .., step))); // (MMA, MMA_M), (MMA, MMA_N)
    let (m, n) = const { (A::LAYOUT.take(0, 2).size() as usize, B::LAYOUT.take(0, 2).size() as usize) };
    let mut read = 0;
    // SAFETY: the step was loaded; vectors have four numbers.
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
