//! Layouts of tiles in shared memory without bank conflicts, for both copies and reads.

use super::config::Tiled;
use core::marker::PhantomData;
use moye_device::layout::{ComposedLayout, IntTuple, Layout, Swizzle, layout};
use moye_device::memory::Element;
use moye_device::tensor::StaticLayout;

/// Bytes of a swizzled row: every bank once.
const ROW: i64 = 128;

/// A K-contiguous operand, (BLK, BLK_K, PIPE): rows of 128 bytes, whose eight 16-byte vectors are
/// permuted by the row's index modulo 8. For `ldmatrix`, which reads such a vector of each of eight
/// rows at a time.
///
/// 8-byte elements are loaded one by one; half a warp loads four of each of four rows: the vectors
/// are 32 bytes, permuted by the row's index modulo 4.
pub const fn k_major<T: Element>(extent: i64, k: i64, stages: i64) -> ComposedLayout {
    let row = ROW / T::BYTES as i64;
    let atom = Layout::new(IntTuple::flat(&[8, row]), IntTuple::flat(&[row, 1]));
    let swizzle = match T::BYTES {
        8 => Swizzle::new(2, 2, 2),
        bytes => Swizzle::new(3, (16 / bytes).trailing_zeros() as i64, 3),
    };
    ComposedLayout::new(swizzle, 0, atom).tile_to_shape(IntTuple::flat(&[extent, k, stages]))
}

/// An M-contiguous (or N-contiguous) operand of 16-bit elements, (BLK, BLK_K, PIPE): columns of 64
/// elements, whose eight 16-byte vectors are permuted by the column's index modulo 8. For
/// `ldmatrix.trans`.
pub const fn mn_major(extent: i64, k: i64, stages: i64) -> ComposedLayout {
    ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((64, 8):(1, 64)))
        .tile_to_shape(IntTuple::flat(&[extent, k, stages]))
}

/// The accumulators of a block's tile, (BLK_M, BLK_N), N-contiguous, in the memory of the stages.
///
/// Rows are padded by 8 elements: the threads of an atom write pairs of adjacent elements in four
/// or eight rows at a time, which the padding keeps in different banks. For 4-byte accumulators,
/// the two halves of each group of eight are swapped in every other run of four groups, so that
/// threads that read eight accumulators each have no bank conflicts either.
pub struct SumsOf<G>(PhantomData<G>);

/// A layout with its two modes swapped.
pub struct Transposed<L>(PhantomData<L>);

macro_rules! marker {
    ($($name:ident),+) => { $(
        impl<L> Clone for $name<L> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<L> Copy for $name<L> {}
    )+ };
}
marker!(SumsOf, Transposed);

impl<G: Tiled> StaticLayout for SumsOf<G> {
    const LAYOUT: Layout = {
        let (m, n, _) = G::TILE;
        let (m, n) = (m as i64, n as i64);
        Layout::new(IntTuple::flat(&[m, n]), IntTuple::flat(&[n + 8, 1]))
    };
    const SWIZZLE: Swizzle = if size_of::<G::Sum>() == 4 { Swizzle::new(1, 2, 3) } else { Swizzle::NONE };
}

impl<L: StaticLayout> StaticLayout for Transposed<L> {
    const LAYOUT: Layout = {
        let (first, second) = (L::LAYOUT.mode(0), L::LAYOUT.mode(1));
        Layout::new(
            IntTuple::flat(&[second.size(), first.size()]),
            IntTuple::flat(&[second.at(1), first.at(1)]),
        )
    };
    const SWIZZLE: Swizzle = L::SWIZZLE;
}
