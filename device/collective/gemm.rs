//! The kernels' bodies: scheduler, mainloop, epilogue and sink.
//!
//! They use only the public API, and a test copies this file into another crate: a custom body can
//! start from this file.

use super::{
    Accumulators, FixUp, Mainloop, Sink, StageProducer as _, StagesOf, StagingOf, Team, TeamStorage,
    TileEpilogue, TileScheduler, Turn, Turns, WARPGROUP, WarpSpecialised, WorkTile,
};
use crate::arch::{
    FULL_WARP, arrive_barrier, decrease_registers, elect, increase_registers, launch_dependents,
    overlap_launches, shuffle, sync_barrier, thread_idx, wait_for_prior_kernels,
};
use crate::atom::StaticTiledMma as _;
use crate::memory::SharedStorage;
use crate::tensor::Fragment;

/// The `shared` declaration of a kernel with the mainloop `M` and the sink `K`.
pub type StorageOf<M, K> = (<M as Mainloop>::Storage, <K as Sink<M>>::Storage, TeamStorage);

/// The body of a kernel all of whose threads load and multiply, or of its consumer threads.
///
/// # Safety
/// The kernel declares [`StorageOf<M, K>`], and its first `M::THREADS` threads call it together. It
/// has no other threads, unless the mainloop declares that a producer of the kernel fills its
/// stages. Operands and epilogue point to readable memory, the sink to writable memory; C overlaps
/// no operand, and has the shape of a [`ByElement`](super::ByElement). Each tile of C has one
/// worker, or several whose pieces the scheduler reduces.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn gemm<M, S, E, K>(operands: M::Operands, mut scheduler: S, epilogue: E, sink: K)
where
    M: Mainloop<Accumulator: FixUp>,
    S: TileScheduler,
    E: TileEpilogue<M>,
    K: Sink<M>,
{
    let thread = thread_idx().x;
    let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
    // SAFETY: all threads of the product call this; operands, epilogue and sink are accessible.
    // Accumulators are written before they are read.
    unsafe {
        let (stages, staging, words) = StorageOf::<M, K>::take();
        let team = Team::new(0, thread, warpgroup, M::THREADS, words);
        let mainloop = M::start(operands, stages, thread, warpgroup);
        let mut consumer = Consumer { mainloop, epilogue, sink, staging, team };
        let mut tCrC = Fragment::uninit(); // (MMA, MMA_M, MMA_N)
        let mut next = scheduler.next_tile().map(|tile| scheduler.place(tile));
        // The first tile's coordinates are computed before the wait for previous kernels.
        overlap_launches();
        while let Some(tile) = next {
            consumer.mainloop.issue(&tile, &mut tCrC);
            consumer.write(&scheduler, &tile, &mut tCrC);
            next = scheduler.next_tile().map(|tile| scheduler.place(tile));
        }
        consumer.finish();
    }
}

/// The body of a kernel with a producer warp and consumer warpgroups. These compute each tile
/// together (*cooperative*), or alternate tiles if the mainloop is [`PingPong`](super::PingPong).
///
/// Blocks without clusters, most of which compute one tile, wait for earlier kernels only after
/// they have computed its coordinates. Clusters, which compute many tiles, gain nothing from that.
///
/// # Safety
/// Same contract as [`gemm`]; the grid is launched in clusters of `M::CLUSTER` blocks.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn gemm_warp_specialised<M, S, E, K>(operands: M::Operands, scheduler: S, epilogue: E, sink: K)
where
    M: WarpSpecialised<Accumulator: FixUp>,
    S: TileScheduler,
    E: TileEpilogue<M>,
    K: Sink<M>,
{
    let thread = thread_idx().x;
    // `warpgroup` is uniform across the warp; the shuffle tells the compiler so.
    let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
    // SAFETY: all threads of the kernel call this; operands, epilogue and sink are accessible. Each
    // warpgroup takes one role as a whole.
    unsafe {
        let (stages, staging, words) = StorageOf::<M, K>::take();
        M::Producer::init(operands, &stages);
        if M::CLUSTER > 1 {
            overlap_launches();
        } else {
            launch_dependents();
        }
        // The producer is warpgroup 0, so that the compiler places its code first. With the
        // consumers first, ptxas 13.0.88 spills 252 bytes for tiles of 128 x 256 with two
        // warpgroups.
        if warpgroup == 0 {
            give_registers::<M>();
            if thread < 32 && elect(FULL_WARP) {
                produce::<M, S>(operands, stages, scheduler);
            }
            M::Producer::leave();
        } else {
            take_registers::<M>();
            // Shuffled again: ptxas spills the value from above in the largest kernels.
            let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0) - 1;
            let thread = thread - WARPGROUP;
            let (number, within) = if M::TEAMS == 1 { (0, warpgroup) } else { (warpgroup, 0) };
            let thread = if M::TEAMS == 1 { thread } else { thread % M::Mma::THREADS };
            let team = Team::new(number, thread, within, M::Mma::THREADS, words);
            let mainloop = M::start(operands, stages, thread, within);
            let mut consumer = Consumer { mainloop, epilogue, sink, staging, team };
            if M::TEAMS == 1 {
                consumer.cooperate(scheduler);
            } else {
                consumer.take_turns(scheduler);
            }
            consumer.finish();
        }
    }
}

/// Loads the stages of all tiles.
///
/// # Safety
/// One thread calls it; the kernel's contract.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
unsafe fn produce<M: WarpSpecialised, S: TileScheduler>(
    operands: M::Operands,
    stages: StagesOf<M>,
    mut scheduler: S,
) {
    // SAFETY: one thread produces; stages and operands are the kernel's.
    unsafe {
        let mut producer = M::Producer::new(operands, stages);
        if M::CLUSTER > 1 {
            while let Some(tile) = scheduler.next_tile() {
                producer.load(&scheduler.place(tile));
            }
        } else {
            let mut next = scheduler.next_tile().map(|tile| scheduler.place(tile));
            wait_for_prior_kernels();
            while let Some(tile) = next {
                producer.load(&tile);
                next = scheduler.next_tile().map(|tile| scheduler.place(tile));
            }
        }
        producer.finish();
    }
}

/// The state of a consumer thread from tile to tile.
struct Consumer<M, E, K, T> {
    mainloop: M,
    epilogue: E,
    sink: K,
    staging: T,
    team: Team,
}

impl<M, E, K> Consumer<M, E, K, StagingOf<K, M>>
where
    M: Mainloop<Accumulator: FixUp>,
    E: TileEpilogue<M>,
    K: Sink<M>,
{
    /// Waits for the accumulators of a tile whose products were issued, and writes C.
    ///
    /// # Safety
    /// All threads of the team call it; the kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn write<S: TileScheduler>(&mut self, scheduler: &S, tile: &WorkTile, tCrC: &mut Accumulators<M>) {
        let Self { mainloop, epilogue, sink, staging, team } = self;
        // SAFETY: all threads of the team write their parts of its tile.
        unsafe {
            let loaded = epilogue.load(tile, team);
            sink.prepare(staging, team);
            mainloop.complete(tCrC);
            if !sink.borrows_stage() {
                mainloop.release();
            }
            if scheduler.fix_up(tile, tCrC, team) {
                epilogue.apply(tCrC, loaded, tile, team);
                sink.store(tCrC, staging, tile, team, mainloop);
            }
        }
    }

    /// Completes the last tile.
    ///
    /// # Safety
    /// All threads of the team call it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn finish(mut self) {
        // SAFETY: all threads of the team have written their last tile.
        unsafe {
            self.sink.finish(&self.team);
            self.mainloop.release();
        }
    }
}

impl<M, E, K> Consumer<M, E, K, StagingOf<K, M>>
where
    M: WarpSpecialised<Accumulator: FixUp>,
    E: TileEpilogue<M>,
    K: Sink<M>,
{
    /// Computes all tiles of the scheduler, together with the other warpgroups of the team.
    ///
    /// # Safety
    /// All threads of the team call it; the kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn cooperate<S: TileScheduler>(&mut self, mut scheduler: S) {
        // SAFETY: all threads of the team call this. Accumulators are written before they are read,
        // but those of warpgroups without rows, which no sink of such mainloops stores.
        unsafe {
            let mut tCrC = Fragment::uninit(); // (MMA, MMA_M, MMA_N)
            let mut next = scheduler.next_tile();
            if M::CLUSTER == 1 {
                wait_for_prior_kernels();
            }
            while let Some(tile) = next {
                self.mainloop.issue(&tile, &mut tCrC);
                // The next tile is computed while the last products run.
                next = scheduler.next_tile();
                self.write(&scheduler, &scheduler.place(tile), &mut tCrC);
            }
        }
    }

    /// Computes alternate tiles of the scheduler: see [`PingPong`](super::PingPong).
    ///
    /// # Safety
    /// All threads of both teams call it; the kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn take_turns<S: TileScheduler>(&mut self, scheduler: S) {
        let (mut turns, number) = (Turns::new(scheduler, self.team.number), self.team.number);
        // SAFETY: all threads of both teams call this. Accumulators are written before they are
        // read, as in `cooperate`. The other team has waited for the stages of the previous tile
        // when it hands over the turn.
        unsafe {
            let mut tCrC = Fragment::uninit(); // (MMA, MMA_M, MMA_N)
            if M::CLUSTER == 1 {
                wait_for_prior_kernels();
            }
            while let Some(Turn { before, tile, precedes }) = turns.take_next() {
                if let Some(before) = before {
                    self.mainloop.skip(&before);
                    sync_barrier(TURN + number, 2 * self.team.threads);
                }
                self.mainloop.issue(&tile, &mut tCrC);
                if precedes {
                    arrive_barrier(TURN + 1 - number, 2 * self.team.threads);
                }
                let scheduler = turns.scheduler();
                self.write(scheduler, &scheduler.place(tile), &mut tCrC);
            }
        }
    }
}

/// The named barriers of the two teams' turns follow the barriers of the teams.
const TURN: u32 = 5;

/// Releases the registers that a producer warpgroup does not need: with two consumers
/// 128 * (40 + 2 * 232) equals the 64,512 registers with which a block of 384 threads starts, with
/// three consumers 128 * (32 + 3 * 160) those of 512 threads. One consumer has enough.
///
/// A block without a cluster computes its tile's coordinates before it waits, so its producer needs
/// more registers: 128 * (56 + 2 * 224). With two blocks an SM they start with 80 registers a
/// thread: 128 * (40 + 2 * 96).
///
/// # Safety
/// Same contract as [`decrease_registers`].
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
unsafe fn give_registers<M: Mainloop>() {
    // SAFETY: all warps of the warpgroup execute it, with at least as many registers.
    unsafe {
        match const { (consumers::<M>(), M::CLUSTER, M::BLOCKS_OF_SM) } {
            (2, 1, 1) => decrease_registers::<56>(),
            (2, _, 1 | 2) => decrease_registers::<40>(),
            (3, _, 1) => decrease_registers::<32>(),
            _ => {}
        }
    }
}

/// Takes the registers that [`give_registers`] releases.
///
/// # Safety
/// Same contract as [`increase_registers`].
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
unsafe fn take_registers<M: Mainloop>() {
    // SAFETY: all warps of the warpgroup execute it; another warpgroup releases the registers.
    unsafe {
        match const { (consumers::<M>(), M::CLUSTER, M::BLOCKS_OF_SM) } {
            (2, 1, 1) => increase_registers::<224>(),
            (2, _, 1) => increase_registers::<232>(),
            (2, _, 2) => increase_registers::<96>(),
            (3, _, 1) => increase_registers::<160>(),
            _ => {}
        }
    }
}

/// Consumer warpgroups of a mainloop.
const fn consumers<M: Mainloop>() -> u32 {
    M::TEAMS * M::Mma::THREADS / WARPGROUP
}
