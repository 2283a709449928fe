//! A mainloop whose stages a custom producer fills.

use moye_device::collective::*;
use core::marker::PhantomData;


/// How the stages of a mainloop `M` are filled: by one thread of each block.
pub trait Fill<M: Mainloop>: Copy {
    /// The thread.
    type Producer;

    /// The producer of a block's stages.
    ///
    /// # Safety
    /// Same contract as [`WarpSpecialised::producer`].
    unsafe fn producer(self, stages: StagesOf<M>) -> Self::Producer;

    /// Fills the stages of a tile's K tiles.
    ///
    /// # Safety
    /// Same contract as [`WarpSpecialised::load`].
    unsafe fn load(producer: &mut Self::Producer, tile: &WorkTile);

    /// Ends the producer.
    ///
    /// # Safety
    /// Same contract as [`WarpSpecialised::finish`].
    unsafe fn finish(producer: Self::Producer);
}

/// The mainloop `M`, with stages that `F` fills.
pub struct FilledBy<M, F>(M, PhantomData<F>);

impl<M: WarpSpecialised, F: Fill<M>> Mainloop for FilledBy<M, F> {
    type Mma = M::Mma;
    type TileC = M::TileC;
    type Accumulator = M::Accumulator;
    type Storage = M::Storage;
    type Operands = (M::Operands, F);

    const THREADS: u32 = M::THREADS;
    const TILE: (u32, u32, u32) = M::TILE;
    const TEAMS: u32 = M::TEAMS;
    const CLUSTER: u32 = M::CLUSTER;

    #[inline(always)]
    fn worker() -> Worker {
        M::worker()
    }

    #[inline(always)]
    unsafe fn start((operands, _): Self::Operands, stages: StagesOf<M>, thread: u32, warpgroup: u32) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { M::start(operands, stages, thread, warpgroup) }, PhantomData)
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, accumulators: &mut Accumulators<M>) {
        // SAFETY: the caller's contract.
        unsafe { self.0.issue(tile, accumulators) }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn complete(&mut self, accumulators: &mut Accumulators<M>) {
        // SAFETY: the caller's contract.
        unsafe { self.0.complete(accumulators) }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn release(&mut self) {
        // SAFETY: the caller's contract.
        unsafe { self.0.release() }
    }
}

impl<M: WarpSpecialised, F: Fill<M>> WarpSpecialised for FilledBy<M, F> {
    type Producer = F::Producer;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn init((operands, _): Self::Operands, stages: &StagesOf<M>) {
        // SAFETY: the caller's contract.
        unsafe { M::init(operands, stages) }
    }

    #[inline(always)]
    unsafe fn producer((_, fill): Self::Operands, stages: StagesOf<M>) -> F::Producer {
        // SAFETY: the caller's contract.
        unsafe { fill.producer(stages) }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(producer: &mut F::Producer, tile: &WorkTile) {
        // SAFETY: the caller's contract.
        unsafe { F::load(producer, tile) }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn finish(producer: F::Producer) {
        // SAFETY: the caller's contract.
        unsafe { F::finish(producer) }
    }

    #[inline(always)]
    unsafe fn leave() {
        // SAFETY: the caller's contract.
        unsafe { M::leave() }
    }

    #[inline(always)]
    unsafe fn skip(&mut self, tile: &WorkTile) {
        // SAFETY: the caller's contract.
        unsafe { self.0.skip(tile) }
    }
}
