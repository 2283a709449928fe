//! What becomes of an accumulator.

use super::config::{Epilogue, MmaConfig};
use crate::algorithm::{copy, transform};
use crate::arch::sync_threads;
use crate::atom::{AccumulatorOf, StaticTiledCopy, StaticTiledMma};
use crate::memory::{GlobalMut, SharedArray, SharedStorage};
use crate::tensor::{Fragment, GlobalTensor, IdentityOf, StaticLayout};
use core::marker::PhantomData;

/// A conversion of a sum to an element of C.
pub trait Convert<From, To> {
    /// The element nearest to the sum.
    fn convert(sum: From) -> To;
}

/// The accumulator's type is C's.
pub struct AsIs;

impl<T> Convert<T, T> for AsIs {
    #[inline(always)]
    fn convert(sum: T) -> T {
        sum
    }
}

/// Rounds to the nearest of C's, ties to even.
pub struct Rounded;

impl Convert<f32, half::f16> for Rounded {
    #[inline(always)]
    fn convert(sum: f32) -> half::f16 {
        crate::arch::f32_to_f16(sum)
    }
}

impl Convert<f32, half::bf16> for Rounded {
    #[inline(always)]
    fn convert(sum: f32) -> half::bf16 {
        crate::arch::f32_to_bf16(sum)
    }
}

/// Through shared memory: each warp writes its sums where they belong in the tile, and the block reads rows of it back,
/// so that every store to global memory is a coalesced one of 16 bytes.
///
/// `S` is the tile in shared memory, `(BLK_M, BLK_N)` with padded rows; `T` copies it out, 16 bytes a thread.
pub struct ThroughShared<V, S, T>(PhantomData<(V, S, T)>);

impl<G, V, S, T> Epilogue<G> for ThroughShared<V, S, T>
where
    G: MmaConfig,
    V: Convert<G::Sum, G::Output>,
    S: StaticLayout,
    T: StaticTiledCopy<Element = G::Output>,
{
    #[inline(always)]
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        tile: GlobalTensor<GlobalMut<G::Output>, G::StridesC, IdentityOf<G::TileC>>,
        thread: u32,
    ) {
        const {
            assert!(
                SharedArray::<G::Output, S>::BYTES <= <super::config::Storage<G> as SharedStorage>::BYTES,
                "the tile of C needs more shared memory than the stages, which it takes the place of: take more stages, or a \
                 smaller tile"
            );
        }
        // SAFETY: the caller has no use for the stages any more.
        let s_c = unsafe { SharedArray::<G::Output, S>::take() }; // (BLK_M, BLK_N)
        let mut t_s_c = G::Mma::get_slice(thread).partition_c(s_c); // (MMA, MMA_M, MMA_N)
        // SAFETY: each element belongs to one thread.
        unsafe {
            let mut rounded = t_s_c.make_fragment_like();
            transform(sums, &mut rounded, V::convert);
            copy(&rounded, &mut t_s_c);
        }
        sync_threads();
        let out = T::get_slice(thread);
        let t_s = out.partition_s(s_c); // (CPY, CPY_M, CPY_N)
        let mut t_g = out.partition_d(tile); // (CPY, CPY_M, CPY_N)
        // SAFETY: a barrier is behind the writes; each element of C belongs to one thread.
        unsafe { copy(&t_s, &mut t_g) };
    }
}

/// Straight from the registers: each thread stores what it has, two neighbours at a time.
pub struct Direct<V>(PhantomData<V>);

impl<G, V> Epilogue<G> for Direct<V>
where
    G: MmaConfig,
    V: Convert<G::Sum, G::Output>,
{
    #[inline(always)]
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        tile: GlobalTensor<GlobalMut<G::Output>, G::StridesC, IdentityOf<G::TileC>>,
        thread: u32,
    ) {
        let mut t_g_c = G::Mma::get_slice(thread).partition_c(tile); // (MMA, MMA_M, MMA_N)
        // SAFETY: each element of C belongs to one thread.
        unsafe {
            let mut rounded = t_g_c.make_fragment_like();
            transform(sums, &mut rounded, V::convert);
            copy(&rounded, &mut t_g_c);
        }
    }
}
