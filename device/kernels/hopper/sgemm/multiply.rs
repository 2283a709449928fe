//! The warps that multiply.

use super::{Job, SgemmConfig};
use crate::algorithm::{copy, gemm_tiled};
use crate::arch::{FULL_WARP, increase_registers, opaque, sync_warp};
use crate::atom::mma::{AddsInPlace, MmaAtom};
use crate::atom::{StaticTiledCopy, StaticTiledMma};
use crate::kernels::mma::{ArgumentsOf, Epilogue, StagesOf};
use crate::pipeline::Consumer;
use crate::tensor::{AllButLast, Fragment, StaticLayout};

/// Takes registers.
///
/// # Safety
/// All warps of a warpgroup, once.
#[inline(always)]
pub(super) unsafe fn registers<G: SgemmConfig>() {
    // SAFETY: the caller's contract.
    unsafe {
        match const { G::REGISTERS[1] } {
            216 => increase_registers::<216>(),
            _ => increase_registers::<192>(),
        }
    }
}

/// Multiplies all tiles along K, and writes the tile of C.
///
/// # Safety
/// All threads of the warps that multiply, each with its number; the kernel's contract.
#[inline(always)]
pub(super) unsafe fn multiply<G: SgemmConfig, const STAGES: u32>(
    mut consumer: Consumer<STAGES, 1>,
    (s_a, s_b): StagesOf<G>, // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
    arguments: &ArgumentsOf<G>,
    job: Job,
    thread: u32,
) where
    G::Mma: StaticTiledMma<Atom: MmaAtom<C = f32> + AddsInPlace>,
{
    let mma = G::Mma::get_slice(thread);
    // SAFETY: each step's part is read from shared memory before its product.
    let (mut t_r_a, mut t_r_b) = unsafe {
        (
            // (MMA, MMA_M, MMA_K)
            mma.partition_fragment_a(&s_a.slice_last(0)),
            // (MMA, MMA_N, MMA_K)
            mma.partition_fragment_b(&s_b.slice_last(0)),
        )
    };
    let mut t_r_c = mma.accumulator::<G::TileC>(); // (MMA, MMA_M, MMA_N)
    let (copy_a, copy_b) = (G::CopyA::get_slice(thread), G::CopyB::get_slice(thread));
    let t_s_r_a = copy_a.partition_s(s_a); // (CPY, MMA_M, MMA_K, PIPE)
    let t_s_r_b = copy_b.partition_s(s_b); // (CPY, MMA_N, MMA_K, PIPE)
    let steps = const { G::Mma::MMA.partition_a(AllButLast::<G::SmemA>::LAYOUT).extent(2) as u32 };
    // The fragments of a step, from the stage that holds its tile, to the registers of step `$to`.
    macro_rules! read {
        ($stage:expr, $step:expr => $to:expr) => {
            // SAFETY: the stage is full.
            unsafe {
                let (stage, step): (u32, u32) = ($stage, $step);
                let (a, b) =
                    (t_s_r_a.slice_last(stage).part_last(step), t_s_r_b.slice_last(stage).part_last(step));
                copy(&a, &mut copy_a.retile_d(&mut t_r_a).slice_last($to));
                copy(&b, &mut copy_b.retile_d(&mut t_r_b).slice_last($to));
            }
        };
    }
    macro_rules! multiply {
        ($step:expr) => {
            // SAFETY: the step's fragments have been read.
            unsafe { gemm_tiled(G::Mma::default(), &t_r_a.at_last($step), &t_r_b.at_last($step), &mut t_r_c) }
        };
    }
    let inside = arguments.m - job.first.0 >= const { G::EXTENTS[0] }
        && arguments.n - job.first.1 >= const { G::EXTENTS[1] };
    if inside {
        // SAFETY: the caller's contract: all tiles along K come, one at least.
        let mut full = unsafe { consumer.wait() };
        read!(full.index(), 0 => 0);
        // The epilogue multiplies the last tile along K itself, and writes C meanwhile.
        for turn in 0..job.tiles - 1 {
            let mut next = None;
            for step in 0..steps {
                // There always is a next one. It is asked all the same, since `ptxas` spreads the reads over the products where the wait may be left out
                // (record 14).
                if step == steps - G::AHEAD && turn + 1 < job.tiles {
                    // SAFETY: the caller's contract.
                    next = Some(unsafe { consumer.wait() });
                }
                let from = match &next {
                    Some(next) if step + 1 == steps => next.index(),
                    _ => full.index(),
                };
                read!(from, (step + 1) % steps => (step + 1) % steps);
                multiply!(step);
            }
            let read = last_read(&t_r_a, &t_r_b, steps - 1);
            // SAFETY: all lanes of a warp, which have met behind their last reads.
            unsafe {
                // Each lane reads by itself, and one says for all that they have.
                sync_warp(FULL_WARP);
                consumer.release_read(full, read, arguments.reserved);
            }
            match next {
                Some(next) => full = next,
                None => return,
            }
        }
        // SAFETY: the last tile along K has arrived, and is not released; each element of C belongs to one thread.
        unsafe {
            <G::Epilogue as Epilogue<G>>::last_tile(
                &mut t_r_c,
                (s_a, s_b),
                full.index(),
                arguments,
                job.place::<G>(arguments, thread),
            );
        }
    } else {
        // Another loop, since sums that go two ways from one take registers without a look at their banks (record 14). The compiler unrolls it, whatever its
        // end is, though it runs little.
        for _ in 0..job.tiles {
            // SAFETY: the caller's contract.
            let full = unsafe { consumer.wait() };
            let mut step = 0;
            while step < opaque(steps) {
                read!(full.index(), step => 0);
                multiply!(0);
                step += 1;
            }
            let read = last_read(&t_r_a, &t_r_b, 0);
            // SAFETY: all lanes of a warp, which have met behind their last reads.
            unsafe {
                // Each lane reads by itself, and one says for all that they have.
                sync_warp(FULL_WARP);
                consumer.release_read(full, read, arguments.reserved);
            }
        }
        // SAFETY: all of K is in the sums; each element of C belongs to one thread.
        unsafe { <G::Epilogue as Epilogue<G>>::store(&t_r_c, arguments, job.place::<G>(arguments, thread)) };
    }
}

/// Something that is made of a register of each word which was read for a step.
#[inline(always)]
fn last_read<A: StaticLayout, B: StaticLayout>(
    t_r_a: &Fragment<f32, A>, // (MMA, MMA_M, MMA_K)
    t_r_b: &Fragment<f32, B>, // (MMA, MMA_N, MMA_K)
    step: u32,
) -> u32 {
    let (a, b) = (t_r_a.at_last(step), t_r_b.at_last(step));
    let (m, n) = const { (AllButLast::<A>::LAYOUT.size() as usize, AllButLast::<B>::LAYOUT.size() as usize) };
    let mut read = 0;
    // SAFETY: the step was read; words have four numbers.
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
