//! The epilogue of steps 1 to 4: C from registers.

use moye_device::prelude::*;

/// Rounds a thread's accumulators of a tile `L` and writes them to tile `tile` of C, in words of
/// two adjacent elements.
///
/// # Safety
/// All threads of `mma` call it; C has this tile, in rows of `n` elements.
#[inline(always)]
pub unsafe fn store_tile<M: StaticTiledMma<Atom: WgmmaAtom>, L: StaticLayout>(
    mma: ThrMma<M>,
    tCrC: &Fragment<f32, AccumulatorOf<L, M>>,
    c: GlobalMut<bf16>,
    n: u32,
    tile: (u32, u32),
) {
    let strides = WholeTiles(Aligned::<_, 4>(UnitStride::<1>(n.into())));
    let gC = Matrix::new(c, (u32::MAX >> 1, n), strides).local_tile::<L, _>(tile); // (BLK_M, BLK_N)
    // One thread writes each pair.
    copy(tCrC, mma.partition_c(gC));
}
