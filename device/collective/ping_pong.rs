//! Ping-pong: two consumer warpgroups that compute tiles in turn.

use super::mainloop::{Accumulators, Mainloop, StagesOf, WARPGROUP, WarpSpecialised};
use super::tiles::{WorkTile, Worker};
use crate::atom::StaticTiledMma as _;

/// The mainloop `M` of one warpgroup, by two of them in turn: while one multiplies, the other
/// applies its epilogue and writes C. Cooperative warpgroups leave the tensor cores idle meanwhile,
/// but share a tile twice as large.
///
/// [`gemm_warp_specialised`](super::gemm_warp_specialised) passes the turn.
pub struct PingPong<M>(M);

/// The mainloop's tiled MMA has one warpgroup, or the kernel does not compile.
const fn one_warpgroup<M: Mainloop>() {
    assert!(
        M::Mma::THREADS == WARPGROUP && M::TEAMS == 1,
        "PingPong: each of two warpgroups computes a tile, so that the tiled MMA has 128 threads"
    );
}

impl<M: WarpSpecialised> Mainloop for PingPong<M> {
    type Mma = M::Mma;
    type TileC = M::TileC;
    type Accumulator = M::Accumulator;
    type Storage = M::Storage;
    type Operands = M::Operands;

    const THREADS: u32 = {
        one_warpgroup::<M>();
        M::THREADS + WARPGROUP
    };
    const TILE: (u32, u32, u32) = M::TILE;
    const TEAMS: u32 = 2;
    const CLUSTER: u32 = M::CLUSTER;

    #[inline(always)]
    fn worker() -> Worker {
        M::worker()
    }

    #[inline(always)]
    unsafe fn start(operands: Self::Operands, stages: StagesOf<Self>, thread: u32, warpgroup: u32) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { M::start(operands, stages, thread, warpgroup) })
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        // SAFETY: the caller's contract.
        unsafe { self.0.issue(tile, tCrC) }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn complete(&mut self, tCrC: &mut Accumulators<Self>) {
        // SAFETY: the caller's contract.
        unsafe { self.0.complete(tCrC) }
    }
}

impl<M: WarpSpecialised> WarpSpecialised for PingPong<M> {
    type Producer = M::Producer;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn init(stages: &StagesOf<Self>) {
        // SAFETY: the caller's contract.
        unsafe { M::init(stages) }
    }

    #[inline(always)]
    unsafe fn producer(operands: Self::Operands, stages: StagesOf<Self>) -> Self::Producer {
        // SAFETY: the caller's contract.
        unsafe { M::producer(operands, stages) }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load(producer: &mut Self::Producer, tile: &WorkTile) {
        // SAFETY: the caller's contract.
        unsafe { M::load(producer, tile) }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn finish(producer: Self::Producer) {
        // SAFETY: the caller's contract.
        unsafe { M::finish(producer) }
    }

    #[inline(always)]
    unsafe fn skip(&mut self, tile: &WorkTile) {
        // SAFETY: the caller's contract.
        unsafe { self.0.skip(tile) }
    }
}
