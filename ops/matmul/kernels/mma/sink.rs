//! Sinks: `activation(alpha * sum + beta * c + bias)` to C, or `alpha * accumulator`.
//!
//! [`ThroughShared`] stages accumulators in shared memory: each warp writes its own, and the block
//! reads the tile by rows, so that every access to global memory is coalesced, and of 16 bytes if
//! the rows of C are aligned. With [`Direct`], threads whose registers hold 16-byte runs of C store
//! these.

use super::config::{ArgumentsOf, TileC, Tiled};
use super::mainloop::TiledLoop;
use super::rows::{Place, Staged, write_rows};
use super::scalar::Convertible as _;
use super::smem::SumsOf;
use moye_device::algorithm::{copy, transform};
use moye_device::arch::Fma as _;
use moye_device::atom::{OfC, PartitionMma, StaticTiledMma as _};
use moye_device::collective::{Accumulators, Sink, Team, WorkTile};
use moye_device::memory::{GlobalMut, SharedArray, SharedStorage};
use moye_device::tensor::{Aligned, GlobalTensor, IdentityOf, Matrix, UnitStride};

/// Constants of a sink that the mainloop reads.
pub trait TileSink: Copy {
    /// Whether C is M-contiguous and stored in 16-byte vectors, to which tiles are aligned.
    const ALONG_M: bool = false;
    /// Whether it multiplies the last K tile of an in-bounds tile.
    const TAKES_LAST_TILE: bool = false;
}

/// Stages the tile in shared memory, for atoms whose threads hold scattered pairs. A block computes
/// one tile: the loads of another tile would overwrite the accumulators.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThroughShared;

impl TileSink for ThroughShared {}

impl<M: TiledLoop> Sink<M> for ThroughShared {
    type Storage = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(&self, tCrC: &Accumulators<M>, (): &(), tile: &WorkTile, team: &Team, mainloop: &mut M) {
        const {
            assert!(
                SharedArray::<<M::Tiling as Tiled>::Sum, SumsOf<M::Tiling>>::BYTES
                    <= <M::Storage as SharedStorage>::BYTES,
                "the accumulators of a tile need more shared memory than the stages, whose memory they use: take more stages, or \
                 a smaller tile"
            );
        }
        let base = mainloop.stages().0.pointer().address();
        let sC = SharedArray::<<M::Tiling as Tiled>::Sum, SumsOf<M::Tiling>>::at(base); // (BLK_M, BLK_N)
        let mut tCsC = M::Mma::get_slice(team.thread).partition_c(sC); // (MMA, MMA_M, MMA_N)
        copy(tCrC, &mut tCsC);
        team.sync();
        write_rows::<M::Tiling>(mainloop.arguments(), sC, mainloop.place(tile));
    }
}

/// Stores directly from registers, for threads with 16-byte runs along M of an M-contiguous C: only
/// `alpha * accumulator`. With every option of the full epilogue the code would be long, because it
/// is repeated for each run; products that need more use a second kernel.
///
/// The columns of C start at multiples of 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl TileSink for Direct {
    const ALONG_M: bool = true;
}

/// A thread's part of an M-contiguous C: (MMA, MMA_M, MMA_N).
pub type PartOfC<G> = PartitionMma<IdentityOf<TileC<G>>, <G as Tiled>::Mma, OfC>;

impl Direct {
    /// The thread's part of the tile of C, (MMA, MMA_M, MMA_N).
    #[inline(always)]
    pub(super) fn part_of<G: Tiled>(
        arguments: &ArgumentsOf<G>,
        place: Place,
    ) -> GlobalTensor<GlobalMut<G::Output>, Aligned<UnitStride<0>, 16>, PartOfC<G>> {
        let (first_m, first_n) = place.first;
        let c =
            arguments.c.offset(place.offset + i64::from(first_n) * arguments.ldc).offset(i64::from(first_m));
        let strides = Aligned::<_, 16>(UnitStride::<0>(arguments.ldc));
        let mC = Matrix::new(c, (arguments.m - first_m, arguments.n - first_n), strides); // (M, N), from the tile on
        G::Mma::get_slice(place.thread).partition_c(mC.local_tile::<TileC<G>, _>((0, 0)))
    }

    /// The result of an accumulator.
    #[inline(always)]
    pub(super) fn result<G: Tiled>(arguments: &ArgumentsOf<G>, sum: G::Sum) -> G::Scalar {
        arguments.alpha.fma(sum.widen(), G::Scalar::ZERO)
    }

    /// Stores a thread's part of the tile.
    ///
    /// # Safety
    /// Same contract as [`Sink::store`].
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub(super) unsafe fn write<M: TiledLoop>(tCrC: &Accumulators<M>, mainloop: &M, place: Place) {
        let arguments = mainloop.arguments();
        let (m, n) = (arguments.m - place.first.0, arguments.n - place.first.1);
        let whole = m >= const { M::TILE.0 } && n >= const { M::TILE.1 };
        let mut tCgC = Self::part_of::<M::Tiling>(arguments, place); // (MMA, MMA_M, MMA_N)
        let mut results = tCgC.make_fragment_like(); // (MMA, MMA_M, MMA_N)
        transform(tCrC, &mut results, |sum| Self::result::<M::Tiling>(arguments, sum));
        if whole {
            copy(&results, &mut tCgC.whole());
        } else {
            copy(&results, &mut tCgC);
        }
    }
}

impl<M: TiledLoop> Sink<M> for Direct {
    type Storage = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(&self, tCrC: &Accumulators<M>, (): &(), tile: &WorkTile, _: &Team, mainloop: &mut M) {
        Self::write(tCrC, mainloop, mainloop.place(tile));
    }
}

impl<G: Tiled> Staged for G {
    type Operand = G::Operand;
    type Sum = G::Sum;
    type Scalar = G::Scalar;
    type Output = G::Output;
    type TileC = TileC<G>;
    type Sums = SumsOf<G>;
    const THREADS: u32 = G::Mma::THREADS;
}
