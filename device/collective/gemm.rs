//! The kernels' bodies: a scheduler, a mainloop, an epilogue and a sink make a product.

use super::epilogue::{Epilogue, apply};
use super::mainloop::{Mainloop, WARPGROUP, WarpSpecialised};
use super::scheduler::TileScheduler;
use super::sink::Sink;
use super::{FixUp, Team, TeamStorage};
use crate::arch::{
    FULL_WARP, arrive_barrier, decrease_registers, increase_registers, overlap_launches, shuffle,
    sync_barrier, thread_idx,
};
use crate::atom::StaticTiledMma as _;
use crate::memory::SharedStorage;
use crate::tensor::Fragment;

/// The `shared` declaration of a kernel with the mainloop `M` and the sink `K`.
pub type StorageOf<M, K> = (<M as Mainloop>::Storage, <K as Sink<M>>::Storage, TeamStorage);

/// A sink's tensors in shared memory.
type StagingOf<M, K> = <<K as Sink<M>>::Storage as SharedStorage>::Tensors;

/// The body of a kernel all of whose threads load and multiply.
///
/// # Safety
/// The kernel declares [`StorageOf<M, K>`] and `M::THREADS` threads. Operands and epilogue point to
/// readable memory, the sink to writable memory; C overlaps no operand. Each tile of C has one
/// worker, or as many as the scheduler reduces.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn gemm<M, S, E, K>(operands: M::Operands, scheduler: S, epilogue: E, sink: K)
where
    M: Mainloop<Accumulator: FixUp>,
    S: TileScheduler,
    E: Epilogue<M::Accumulator>,
    K: Sink<M>,
{
    let thread = thread_idx().x;
    // SAFETY: the caller's contract. Accumulators are written before they are read.
    unsafe {
        let (stages, staging, word) = StorageOf::<M, K>::take();
        let team = Team::new(0, thread, M::THREADS, word);
        overlap_launches();
        let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
        let mut mainloop = M::start(operands, stages, thread, warpgroup);
        consume(&mut mainloop, scheduler, epilogue, sink, &staging, &team);
        sink.finish(&team);
    }
}

/// The body of a kernel with a producer warp and consumer warpgroups: these compute each tile
/// together (*cooperative*), or tiles in turn where the mainloop is [`PingPong`](super::PingPong).
///
/// # Safety
/// As [`gemm`]; the grid is launched in clusters of `M::CLUSTER` blocks.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn gemm_warp_specialised<M, S, E, K>(operands: M::Operands, mut scheduler: S, epilogue: E, sink: K)
where
    M: WarpSpecialised<Accumulator: FixUp>,
    S: TileScheduler,
    E: Epilogue<M::Accumulator>,
    K: Sink<M>,
{
    let (thread, consumers) = (thread_idx().x, const { M::TEAMS * M::Mma::THREADS / WARPGROUP });
    // `warpgroup` is uniform across the warp; the shuffle tells the compiler so.
    let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
    // SAFETY: the caller's contract. Each warpgroup takes one role as a whole.
    unsafe {
        let (stages, staging, word) = StorageOf::<M, K>::take();
        M::init(&stages);
        overlap_launches();
        // The comparison with 0 makes the compiler put the producer's side first. With the
        // consumers' first ptxas 13.0.88 spills 252 bytes of a tile of 128 x 256 by two warpgroups.
        if warpgroup.wrapping_sub(consumers) == 0 {
            give_registers(consumers);
            if thread == consumers * WARPGROUP {
                let mut producer = M::producer(operands, stages);
                while let Some(tile) = scheduler.next_tile() {
                    M::load(&mut producer, &tile);
                }
                M::finish(producer);
            }
        } else {
            take_registers(consumers);
            let number = if const { M::TEAMS == 1 } { 0 } else { warpgroup };
            let team = Team::new(number, thread % M::Mma::THREADS, M::Mma::THREADS, word);
            let mut mainloop = M::start(operands, stages, team.thread, warpgroup);
            if const { M::TEAMS == 1 } {
                consume(&mut mainloop, scheduler, epilogue, sink, &staging, &team);
            } else {
                consume_in_turn(&mut mainloop, scheduler, epilogue, sink, &staging, &team);
            }
            sink.finish(&team);
        }
    }
}

/// Computes all tiles of the scheduler.
///
/// # Safety
/// All threads of the team call it; the kernel's contract.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn consume<M, S, E, K>(
    mainloop: &mut M,
    mut scheduler: S,
    epilogue: E,
    sink: K,
    staging: &StagingOf<M, K>,
    team: &Team,
) where
    M: Mainloop<Accumulator: FixUp>,
    S: TileScheduler,
    E: Epilogue<M::Accumulator>,
    K: Sink<M>,
{
    // SAFETY: the caller's contract. Accumulators are written before they are read.
    unsafe {
        let mut tCrC = Fragment::uninit(); // (MMA, MMA_M, MMA_N)
        while let Some(tile) = scheduler.next_tile() {
            mainloop.issue(&tile, &mut tCrC);
            mainloop.complete(&mut tCrC);
            if scheduler.fix_up(&tile, &mut tCrC, team) {
                apply::<M, E>(&epilogue, &mut tCrC, &tile, team.thread);
                sink.store(&tCrC, staging, &tile, team);
            }
        }
    }
}

/// Computes every second tile of the scheduler (*ping-pong*): while one of two teams multiplies,
/// the other applies its epilogue and writes C.
///
/// A team waits at its own barrier before it issues the products of a tile, and arrives at the
/// other's when it has issued them. The first tile needs no turn, and the last tile hands over no
/// turn, so that every arrival has its wait. The turn also gives the order that
/// [`WarpSpecialised::skip`] needs.
///
/// # Safety
/// All threads of both teams call it; the kernel's contract.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn consume_in_turn<M, S, E, K>(
    mainloop: &mut M,
    mut scheduler: S,
    epilogue: E,
    sink: K,
    staging: &StagingOf<M, K>,
    team: &Team,
) where
    M: WarpSpecialised<Accumulator: FixUp>,
    S: TileScheduler,
    E: Epilogue<M::Accumulator>,
    K: Sink<M>,
{
    // SAFETY: the caller's contract. Accumulators are written before they are read.
    unsafe {
        let mut tCrC = Fragment::uninit(); // (MMA, MMA_M, MMA_N)
        let (mut turn, mut is_first) = (0, true);
        let mut next = scheduler.next_tile();
        while let Some(tile) = next {
            next = scheduler.next_tile();
            if turn == team.number {
                if !is_first {
                    sync_barrier(TURN + team.number, 2 * team.threads);
                }
                mainloop.issue(&tile, &mut tCrC);
                if next.is_some() {
                    arrive_barrier(TURN + 1 - team.number, 2 * team.threads);
                }
                mainloop.complete(&mut tCrC);
                if scheduler.fix_up(&tile, &mut tCrC, team) {
                    apply::<M, E>(&epilogue, &mut tCrC, &tile, team.thread);
                    sink.store(&tCrC, staging, &tile, team);
                }
            } else {
                mainloop.skip(&tile);
            }
            (turn, is_first) = (1 - turn, false);
        }
    }
}

/// The named barriers of the two teams' turns, after those of the teams.
const TURN: u32 = 5;

/// Gives away the registers that a producer warpgroup needs not: with two consumers 128 (40 + 2 *
/// 232) are the 64,512 that a block of 384 threads begins with, with three 128 (32 + 3 * 160) those
/// of 512 threads. One consumer has enough.
///
/// # Safety
/// As [`decrease_registers`].
#[inline(always)]
unsafe fn give_registers(consumers: u32) {
    // SAFETY: the caller's contract.
    unsafe {
        match consumers {
            2 => decrease_registers::<40>(),
            3 => decrease_registers::<32>(),
            _ => {}
        }
    }
}

/// Takes the registers that [`give_registers`] gives away.
///
/// # Safety
/// As [`increase_registers`].
#[inline(always)]
unsafe fn take_registers(consumers: u32) {
    // SAFETY: the caller's contract.
    unsafe {
        match consumers {
            2 => increase_registers::<232>(),
            3 => increase_registers::<160>(),
            _ => {}
        }
    }
}
