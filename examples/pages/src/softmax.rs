//! Row softmax: one warp for each row, in two passes.

use core::f32::consts::LOG2_E;
use moye_device::prelude::*;

/// Rows of a block.
pub const BLK_M: u32 = 4;

static_layout! {
    pub Tile<T: Storable> = layout!((4, { 32 * 128 / T::BITS })); // (BLK_M, BLK_N): 16 bytes a thread
}
tiled_copy! {
    pub Rows<T: Storable>: TiledCopy<AutoVectorizingCopy, T> = TiledCopy::new(layout!((4, 32):(32, 1)), layout!((1, { 128 / T::BITS })));
}

/// A grid of `ceil(m / BLK_M)` blocks.
///
/// # Safety
/// `x` and `y`, equal or disjoint, are `m` rows of `n` elements, `ld` apart, aligned to 16 bytes.
#[kernel(threads = Rows::<T>::THREADS, instances = (softmax_f32<f32>, softmax_bf16<bf16>))]
pub unsafe fn softmax<T: Element + Convert<f32>>(x: Global<T>, y: GlobalMut<T>, m: u32, n: u32, ld: i64)
where
    f32: Convert<T>,
{
    let rows = Rows::<T>::get_slice(thread_idx().x);
    let gX = tile!(tensor!(x, (m, n), (ld, 1), align = 16), Tile<T>, (block_idx().x, _)); // (BLK_M, BLK_N, n)
    let gY = tile!(tensor!(y, (m, n), (ld, 1), align = 16), Tile<T>, (block_idx().x, _)); // (BLK_M, BLK_N, n)
    let (tXgX, tXgY) = (rows.partition_s(gX), rows.partition_d(gY)); // (CPY, CPY_M, CPY_N, n)

    let (mut max, mut sum) = (tXgX.rows(f32::MIN), tXgX.rows(0.0)); // (CPY_M)
    for tile in 0..gX.tiles() {
        let mut tXrX = tXgX.at((.., .., .., tile)).load_as(f32::NEG_INFINITY); // (CPY, CPY_M, CPY_N)
        let before = max;
        max = tXrX.fold_rows(&before, f32::max);
        let rescale = before.zip(&max, |before, max| math::fast::exp2((before - max) * LOG2_E));
        sum.apply_with(&rescale, |sum, by| sum * by);
        tXrX.apply_rows(&max, |x, max| math::fast::exp2((x - max) * LOG2_E));
        sum = tXrX.fold_rows(&sum, f32::add);
    }
    let all = max.clone().across_lanes(f32::max);
    sum.apply_with(&max.zip(&all, |max, all| math::fast::exp2((max - all) * LOG2_E)), |sum, by| sum * by);
    let inverse = sum.across_lanes(f32::add).map(math::fast::rcp);
    for tile in 0..gX.tiles() {
        let mut tXrX = tXgX.at((.., .., .., tile)).load_as(0.0f32); // (CPY, CPY_M, CPY_N)
        tXrX.apply_rows(&all, |x, max| math::fast::exp2((x - max) * LOG2_E));
        tXrX.apply_rows(&inverse, |x, by| x * by);
        copy(&tXrX.convert::<T>(), tXgY.at((.., .., .., tile)));
    }
}
