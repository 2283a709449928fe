//! What becomes of the sums: `activation(alpha * sum + beta * c + bias)`.
//!
//! The sums go through shared memory: each warp writes its own where they belong in the tile, and the block reads rows of it
//! back, so that every access to global memory is a coalesced one of 16 bytes, where the rows of C allow that.

use super::config::{ArgumentsOf, MmaConfig, Storage};
use super::scalar::{Convertible, finish};
use super::smem::{SumsOf, Transposed};
use crate::algorithm::{copy, transform};
use crate::arch::{Fma as _, sync_threads};
use crate::atom::copy::AutoVectorizingCopy;
use crate::atom::mma::MmaAtom;
use crate::atom::{AccumulatorOf, StaticTiledCopy, StaticTiledMma, TiledCopy};
use crate::layout::{IntTuple, Layout};
use crate::memory::{Element, Global, GlobalMut, SharedArray, SharedStorage};
use crate::tensor::{Aligned, Dense, Fragment, Matrix, StaticLayout, Strides, UnitStride};
use core::marker::PhantomData;

/// Rows of a tile of C as (BLK_N, BLK_M): each thread has 16 bytes of `O` along N, neighbours follow each other.
///
/// `T` is the element that is partitioned, which may be another than `O`: the sums, and what is written of them.
struct Rows<T, O, G>(PhantomData<(T, O, G)>);

impl<T, O, G> Clone for Rows<T, O, G> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, O, G> Copy for Rows<T, O, G> {}
impl<T, O, G> Default for Rows<T, O, G> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, O: Element, G: MmaConfig> Rows<T, O, G> {
    /// Elements that a thread has of a row.
    const VECTOR: usize = 16 / O::BYTES;
    /// Threads of a row.
    const ACROSS: u32 = G::TileC::LAYOUT.extent(1) as u32 / Self::VECTOR as u32;
    /// Rows that the block has at a time.
    const AT_ONCE: u32 = G::Mma::MMA.threads() as u32 / Self::ACROSS;
}

impl<T: Element, O: Element, G: MmaConfig> StaticTiledCopy for Rows<T, O, G> {
    type Atom = AutoVectorizingCopy;
    type Element = T;
    const COPY: TiledCopy<AutoVectorizingCopy, T> = {
        let (across, at_once) = (Self::ACROSS as i64, Self::AT_ONCE as i64);
        TiledCopy::new(
            Layout::new(IntTuple::flat(&[across, at_once]), IntTuple::flat(&[1, across])),
            Layout::new(IntTuple::flat(&[Self::VECTOR as i64, 1]), IntTuple::flat(&[1, 0])),
        )
    };
}

/// Where a block's tile lies.
#[derive(Clone, Copy)]
pub struct Place {
    /// The tile's first row and column in C.
    pub first: (u32, u32),
    /// What the block's batch and split are moved by in C, in elements.
    pub offset: i64,
    /// The thread.
    pub thread: u32,
}

/// How a block's tile of C is written.
pub trait Epilogue<G: MmaConfig> {
    /// A tile's first row is a multiple of so many.
    const GRANULE: usize = 1;

    /// Writes the tile from the accumulators `(MMA, MMA_M, MMA_N)` of all threads.
    ///
    /// # Safety
    /// All threads of the block come by together; none needs the stages in shared memory any more; the tile may be written,
    /// and what another block writes of it has the same values.
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        arguments: &ArgumentsOf<G>,
        place: Place,
    );
}

/// Through shared memory, for atoms whose threads have pairs here and there.
pub struct ThroughShared;

impl<G: MmaConfig> Epilogue<G> for ThroughShared
where
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum>,
{
    #[inline(always)]
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        arguments: &ArgumentsOf<G>,
        place: Place,
    ) {
        // SAFETY: the caller's contract.
        unsafe { through_shared::<G>(sums, arguments, place) }
    }
}

/// Straight from the registers, for threads that have runs along M of a C with M contiguous, 16 bytes each: `alpha * sum`, and
/// nothing else. The sums of so many runs, each with all that can be asked for, would be a long program; who asks for more has
/// the sums finished by another kernel.
///
/// The columns of C start at multiples of 16 bytes.
pub struct Direct;

impl<G> Epilogue<G> for Direct
where
    G: MmaConfig,
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum>,
{
    const GRANULE: usize = 16 / G::Output::BYTES;

    #[inline(always)]
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        arguments: &ArgumentsOf<G>,
        place: Place,
    ) {
        let (first_m, first_n) = place.first;
        let c =
            arguments.c.offset(place.offset + i64::from(first_n) * arguments.ldc).offset(i64::from(first_m));
        let strides = Aligned::<_, 16>(UnitStride::<0>(arguments.ldc));
        let m_c = Matrix::new(c, (arguments.m - first_m, arguments.n - first_n), strides); // (M, N), from the tile on
        let g_c = m_c.local_tile::<G::TileC, _>((0, 0)); // (BLK_M, BLK_N)
        let mut t_g_c = G::Mma::get_slice(place.thread).partition_c(g_c); // (MMA, MMA_M, MMA_N)
        // SAFETY: each element of C belongs to one thread; every element of the fragment is written before it is read.
        unsafe {
            let mut results = t_g_c.make_fragment_like();
            transform(sums, &mut results, |sum| {
                G::Output::narrow(arguments.alpha.fma(sum.widen(), G::Scalar::ZERO))
            });
            copy(&results, &mut t_g_c);
        }
    }
}

/// [`ThroughShared`].
///
/// # Safety
/// As [`Epilogue::store`].
#[inline(always)]
unsafe fn through_shared<G: MmaConfig>(
    sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
    arguments: &ArgumentsOf<G>,
    place: Place,
) where
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum>,
{
    const {
        assert!(
            SharedArray::<G::Sum, SumsOf<G>>::BYTES <= <Storage<G> as SharedStorage>::BYTES,
            "the sums of a tile need more shared memory than the stages, which they take the place of: take more stages, or \
             a smaller tile"
        );
    }
    // SAFETY: the caller has no use for the stages any more; each element belongs to one thread.
    unsafe {
        let s_c = SharedArray::<G::Sum, SumsOf<G>>::take(); // (BLK_M, BLK_N)
        let mut t_s_c = G::Mma::get_slice(place.thread).partition_c(s_c); // (MMA, MMA_M, MMA_N)
        copy(sums, &mut t_s_c);
    }
    sync_threads();
    // SAFETY: a barrier is behind the writes; the caller's contract.
    unsafe {
        if size_of::<G::Output>() != size_of::<G::Scalar>() && arguments.wide != 0 {
            rows::<G, G::Scalar>(arguments, arguments.c.cast(), arguments.bias.cast(), place);
        } else {
            rows::<G, G::Output>(arguments, arguments.c, arguments.bias, place);
        }
    }
}

/// Writes the rows of a tile with elements `O`.
///
/// # Safety
/// As [`Epilogue::store`]; the sums are in shared memory.
#[inline(always)]
unsafe fn rows<G: MmaConfig, O: Convertible<G::Scalar>>(
    arguments: &ArgumentsOf<G>,
    c: GlobalMut<O>,
    bias: Global<O>,
    place: Place,
) {
    let (first_m, first_n) = place.first;
    let c = c.offset(place.offset + i64::from(first_m) * arguments.ldc).offset(i64::from(first_n));
    let bias =
        bias.offset(i64::from(first_m) * arguments.bias_m).offset(i64::from(first_n) * arguments.bias_n);
    let whole = (c.address() | (arguments.ldc as u64).wrapping_mul(O::BYTES as u64)).is_multiple_of(16);
    // SAFETY: the caller's contract, and the alignment as promised.
    unsafe {
        if whole {
            rows_of::<G, O, _>(arguments, c, Aligned::<_, 16>(UnitStride::<0>(arguments.ldc)), bias, place);
        } else {
            rows_of::<G, O, _>(arguments, c, UnitStride::<0>(arguments.ldc), bias, place);
        }
    }
}

/// [`rows`], with what is known of the strides of C as `(N, M)`.
///
/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn rows_of<G: MmaConfig, O: Convertible<G::Scalar>, S: Strides>(
    arguments: &ArgumentsOf<G>,
    c: GlobalMut<O>,
    strides: S,
    bias: Global<O>,
    place: Place,
) {
    let Place { first: (first_m, first_n), thread, .. } = place;
    let shape = (arguments.n - first_n, arguments.m - first_m);
    let at = (0, 0);
    let m_c = Matrix::new(c, shape, strides); // (N, M), from the tile on
    let m_bias = Matrix::new(bias, shape, Dense([arguments.bias_n, arguments.bias_m])); // (N, M), likewise
    let g_c = m_c.local_tile::<Transposed<G::TileC>, _>(at); // (BLK_N, BLK_M)
    let g_bias = m_bias.local_tile::<Transposed<G::TileC>, _>(at); // (BLK_N, BLK_M)
    // SAFETY: as for the array in `through_shared`.
    let s_c = unsafe { SharedArray::<G::Sum, SumsOf<G>>::take() }.with_layout::<Transposed<SumsOf<G>>>(); // (BLK_N, BLK_M)

    let out = Rows::<O, O, G>::get_slice(thread);
    let t_g_c = out.partition_d(g_c); // (CPY, CPY_N, CPY_M)
    let t_g_bias = out.partition_s(g_bias); // (CPY, CPY_N, CPY_M)
    let t_s_c = Rows::<G::Sum, O, G>::get_slice(thread).partition_s(s_c); // (CPY, CPY_N, CPY_M)

    let block_m = const { G::TileC::LAYOUT.extent(0) as u32 };
    let left = arguments.m - first_m;
    let rows = if left < block_m { left } else { block_m };
    let mut row = thread / Rows::<O, O, G>::ACROSS;
    let mut i = 0;
    // The end is known at run time, so that this stays a loop: its body is long, and runs little.
    while row < rows {
        // SAFETY: a barrier is behind the writes to shared memory; each element of C belongs to one thread; every element of
        // a fragment is written before it is read.
        unsafe {
            let from = t_s_c.slice_last(i); // (CPY, CPY_N)
            let mut to = t_g_c.slice_last(i); // (CPY, CPY_N)
            let mut sums = from.make_fragment_like();
            copy(&from, &mut sums);
            let mut results = to.make_fragment_like();
            if arguments.beta != G::Scalar::ZERO {
                copy(&to, &mut results);
            }
            let t_bias = t_g_bias.slice_last(i); // (CPY, CPY_N)
            finish(arguments, &sums, &t_bias, &mut results);
            copy(&results, &mut to);
        }
        row += Rows::<O, O, G>::AT_ONCE;
        i += 1;
    }
}
