//! Sinks: how a tile of C is stored from registers.

use super::Team;
use super::mainloop::{Accumulators, Mainloop};
use super::tiles::WorkTile;
use crate::algorithm::{CopyAs, copy};
use crate::atom::StaticTiledMma;
use crate::memory::{GlobalPointer, GlobalPointerMut, SharedStorage};
use crate::tensor::{Matrix, Rank, Strides};

/// Matrices of one shape in global memory, at a constant distance from each other.
#[derive(Clone, Copy)]
pub struct Batches<P, S> {
    pointer: P,
    shape: (u32, u32),
    strides: S,
    distance: i64,
}

impl<P: GlobalPointer, S: Strides<Rank = Rank<2>>> Batches<P, S> {
    /// Matrices of `shape` elements, the first at `pointer`, `distance` elements apart: 0 if all
    /// are the same, or there is one.
    #[inline(always)]
    #[must_use]
    pub const fn new(pointer: P, shape: (u32, u32), strides: S, distance: i64) -> Self {
        Self { pointer, shape, strides, distance }
    }

    /// Matrix `batch`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn at(&self, batch: u32) -> Matrix<P, S> {
        let pointer = self.pointer.offset(i64::from(batch) * self.distance);
        Matrix::new(pointer, self.shape, self.strides)
    }

    /// The part of matrix `batch` from the element `first` on, up to column `end`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn part(&self, batch: u32, first: (u32, u32), end: u32) -> Matrix<P, S> {
        let end = end.min(self.shape.1);
        let offset = i64::from(first.0) * self.strides.along(0) + i64::from(first.1) * self.strides.along(1);
        let pointer = self.pointer.offset(i64::from(batch) * self.distance).offset(offset);
        Matrix::new(pointer, (self.shape.0 - first.0, end - first.1), self.strides)
    }

    /// Rows and columns of each matrix.
    #[inline(always)]
    #[must_use]
    pub const fn shape(&self) -> (u32, u32) {
        self.shape
    }
}

/// A sink's tensors in shared memory.
pub type StagingOf<K, M> = <<K as Sink<M>>::Storage as SharedStorage>::Tensors;

/// Writes the tiles of a mainloop `M`.
pub trait Sink<M: Mainloop>: Copy {
    /// Its shared memory, or `()`.
    type Storage: SharedStorage;

    /// Whether [`store`](Self::store) uses the tile's last stage of the mainloop. Otherwise the
    /// stage is [released](Mainloop::release) before the epilogue.
    #[inline(always)]
    fn borrows_stage(&self) -> bool {
        false
    }

    /// Waits until [`store`](Self::store) may write to its staging memory, while the last products
    /// of the tile run.
    ///
    /// # Safety
    /// All threads of the team call it.
    #[inline(always)]
    unsafe fn prepare(&self, _staging: &StagingOf<Self, M>, _team: &Team) {}

    /// Stores a tile. Elements out of bounds of C are skipped.
    ///
    /// # Safety
    /// All threads of the team, or of the warpgroups that hold the complete accumulators, call it,
    /// each with its own accumulators of the tile. C is writable memory of the device, and nothing
    /// else accesses the elements of the tile.
    unsafe fn store(
        &self,
        accumulators: &Accumulators<M>,
        staging: &StagingOf<Self, M>,
        tile: &WorkTile,
        team: &Team,
        mainloop: &mut M,
    );

    /// Waits until no store in flight refers to the block's shared memory.
    ///
    /// # Safety
    /// All threads of the team call it, after the last tile.
    #[inline(always)]
    unsafe fn finish(&self, _team: &Team) {}
}

/// Stores from registers directly to global memory, each thread its own elements, by the widest
/// stores that the strides allow.
///
/// f32 is rounded to f16 or bf16 in pairs, if C has that type.
#[derive(Clone, Copy)]
pub struct ToGlobal<P, S>(Batches<P, S>);

impl<P: GlobalPointerMut, S: Strides<Rank = Rank<2>>> ToGlobal<P, S> {
    /// Stores to the matrices `c`, (M, N).
    #[inline(always)]
    #[must_use]
    pub const fn new(c: Batches<P, S>) -> Self {
        Self(c)
    }
}

impl<M: Mainloop, P: GlobalPointerMut, S: Strides<Rank = Rank<2>>> Sink<M> for ToGlobal<P, S>
where
    M::Accumulator: CopyAs<P::Element>,
{
    type Storage = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(&self, tCrC: &Accumulators<M>, (): &(), tile: &WorkTile, team: &Team, _: &mut M) {
        let gC = self.0.at(tile.batch).local_tile::<M::TileC, _>((tile.m, tile.n)); // (BLK_M, BLK_N)
        let tCgC = M::Mma::get_slice(team.thread).partition_c(gC); // (MMA, MMA_M, MMA_N)
        // SAFETY: C is writable; each element belongs to one thread.
        unsafe { copy(tCrC, tCgC) };
    }
}
