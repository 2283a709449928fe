//! C from registers: what steps 1 to 4 do with their accumulators.

use moye_device::prelude::*;

/// Rounds a thread's accumulators of a tile `L` and writes them to tile `tile` of C: words of two
/// neighbours.
///
/// # Safety
/// All threads of `mma`; C has this tile, in rows of `n` elements.
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
    // Each pair is one thread's.
    copy(tCrC, mma.partition_c(gC));
}
