//! Epilogues: `activation(alpha * sum + beta * c + bias)`.
//!
//! Accumulators are staged in shared memory: each warp writes its own at their place in the tile,
//! and the block reads the tile back by rows, so that every access to global memory is coalesced
//! and has 16 bytes, if the rows of C are aligned.

use super::config::{ArgumentsOf, Storage, Tiled};
use super::rows::{Place, Staged, write_rows};
use super::scalar::Convertible;
use super::smem::SumsOf;
use moye_device::algorithm::{copy, transform};
use moye_device::arch::{Fma as _, sync_threads};
use moye_device::atom::mma::MmaAtom;
use moye_device::atom::{AccumulatorOf, OfC, PartitionMma, StaticTiledMma};
use moye_device::memory::{Element, GlobalMut, SharedArray, SharedStorage};
use moye_device::tensor::{
    Aligned, Fragment, GlobalTensor, IdentityOf, Matrix, SharedTensor, StaticLayout as _, UnitStride,
};

/// The stages of A and of B, (BLK_M, BLK_K, PIPE) and (BLK_N, BLK_K, PIPE).
pub type StagesOf<G> = (
    SharedTensor<<G as Tiled>::Operand, <G as Tiled>::SmemA>,
    SharedTensor<<G as Tiled>::Operand, <G as Tiled>::SmemB>,
);

/// How a block's tile of C is stored.
pub trait Epilogue<G: Tiled> {
    /// The parameters beside [`Arguments`](super::Arguments): a struct that the kernel takes as a
    /// separate parameter, or `()`.
    type Parameters: Copy;
    /// A tile's first row is a multiple of this.
    const GRANULE: usize = 1;
    /// Whether blocks whose tile is in bounds of C call [`last_tile`](Self::last_tile) for the last
    /// K tile, instead of [`store`](Self::store).
    const TAKES_LAST_TILE: bool = false;

    /// Writes the tile from the accumulators `(MMA, MMA_M, MMA_N)` of all threads.
    ///
    /// # Safety
    /// All threads of the product call it together, and none needs the stages in shared memory any
    /// more. The tile is writable, and another block that writes a part of it writes the same
    /// values.
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        arguments: &ArgumentsOf<G>,
        parameters: &Self::Parameters,
        place: Place,
    );

    /// Multiplies the last K tile, which is in `stage`, and stores the tile of C, which is in
    /// bounds.
    ///
    /// # Safety
    /// All threads of the product call it together. The K tile has arrived for all of them, and no
    /// thread writes its stage. The tile of C is writable, and another block that writes a part of
    /// it writes the same values. Only for epilogues with
    /// [`TAKES_LAST_TILE`](Self::TAKES_LAST_TILE).
    unsafe fn last_tile(
        _sums: &mut Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        _stages: StagesOf<G>,
        _stage: u32,
        _arguments: &ArgumentsOf<G>,
        _parameters: &Self::Parameters,
        _place: Place,
    ) {
        const { assert!(!Self::TAKES_LAST_TILE, "an epilogue with TAKES_LAST_TILE implements last_tile") };
    }
}

/// Stages the tile in shared memory, for atoms whose threads have scattered pairs.
pub struct ThroughShared;

impl<G: Tiled> Epilogue<G> for ThroughShared
where
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum>,
{
    type Parameters = ();

    #[inline(always)]
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        arguments: &ArgumentsOf<G>,
        (): &(),
        place: Place,
    ) {
        through_shared::<G>(sums, arguments, place)
    }
}

/// Stores directly from registers, for threads with 16-byte runs along M of an M-contiguous C: only
/// `alpha * sum`. With every option of the full epilogue the code for this many runs would be long;
/// products that need more use a second kernel.
///
/// The columns of C start at multiples of 16 bytes.
pub struct Direct;

/// A thread's part of an M-contiguous C: (MMA, MMA_M, MMA_N).
pub type PartOfC<G> = PartitionMma<IdentityOf<<G as Tiled>::TileC>, <G as Tiled>::Mma, OfC>;

impl Direct {
    /// The thread's part of the tile of C, (MMA, MMA_M, MMA_N).
    #[inline(always)]
    pub(super) fn part_of<G: Tiled>(
        arguments: &ArgumentsOf<G>,
        place: Place,
    ) -> GlobalTensor<GlobalMut<G::Output>, Aligned<UnitStride<0>, 16>, PartOfC<G>>
    where
        <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum>,
    {
        let (first_m, first_n) = place.first;
        let c =
            arguments.c.offset(place.offset + i64::from(first_n) * arguments.ldc).offset(i64::from(first_m));
        let strides = Aligned::<_, 16>(UnitStride::<0>(arguments.ldc));
        let (m, n) = (arguments.m - first_m, arguments.n - first_n);
        let m_c = Matrix::new(c, (m, n), strides); // (M, N), from the tile on
        let g_c = m_c.local_tile::<G::TileC, _>((0, 0)); // (BLK_M, BLK_N)
        G::Mma::get_slice(place.thread).partition_c(g_c)
    }

    /// The result of an accumulator.
    #[inline(always)]
    pub(super) fn result<G: Tiled>(arguments: &ArgumentsOf<G>, sum: G::Sum) -> G::Output {
        G::Output::narrow(arguments.alpha.fma(sum.widen(), G::Scalar::ZERO))
    }
}

impl<G> Epilogue<G> for Direct
where
    G: Tiled,
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum>,
{
    type Parameters = ();
    const GRANULE: usize = 16 / G::Output::BYTES;

    #[inline(always)]
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        arguments: &ArgumentsOf<G>,
        (): &(),
        place: Place,
    ) {
        let (m, n) = (arguments.m - place.first.0, arguments.n - place.first.1);
        let whole = m >= const { G::TileC::LAYOUT.extent(0) as u32 }
            && n >= const { G::TileC::LAYOUT.extent(1) as u32 };
        let mut t_g_c = Self::part_of::<G>(arguments, place); // (MMA, MMA_M, MMA_N)
        let mut results = t_g_c.make_fragment_like();
        transform(sums, &mut results, |sum| Self::result::<G>(arguments, sum));
        if whole {
            copy(&results, &mut t_g_c.whole());
        } else {
            copy(&results, &mut t_g_c);
        }
    }
}

/// The body of [`ThroughShared`].
///
/// # Safety
/// As [`Epilogue::store`].
#[inline(always)]
pub(super) unsafe fn through_shared<G: Tiled>(
    sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
    arguments: &ArgumentsOf<G>,
    place: Place,
) where
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum>,
{
    const {
        assert!(
            SharedArray::<G::Sum, SumsOf<G>>::BYTES <= <Storage<G> as SharedStorage>::BYTES,
            "the accumulators of a tile need more shared memory than the stages, whose memory they use: take more stages, or \
             a smaller tile"
        );
    }
    let s_c = SharedArray::<G::Sum, SumsOf<G>>::take(); // (BLK_M, BLK_N)
    let mut t_s_c = G::Mma::get_slice(place.thread).partition_c(s_c); // (MMA, MMA_M, MMA_N)
    copy(sums, &mut t_s_c);
    sync_threads();
    write_rows::<G>(arguments, SharedArray::<G::Sum, SumsOf<G>>::take(), place);
}

impl<G: Tiled> Staged for G {
    type Operand = G::Operand;
    type Sum = G::Sum;
    type Scalar = G::Scalar;
    type Output = G::Output;
    type TileC = G::TileC;
    type Sums = SumsOf<G>;
    const THREADS: u32 = G::Mma::MMA.threads() as u32;
}
