//! The epilogue by rows, from accumulators in shared memory:
//! `activation(alpha * sum + beta * c + bias)`.
//!
//! Threads read the accumulators by rows, so that every access to global memory is coalesced, and
//! of 16 bytes if the rows of C are aligned.

use super::arguments::Arguments;
use super::scalar::{Convertible, Scalar, finish};
use super::smem::Transposed;
use core::marker::PhantomData;
use moye_device::algorithm::copy;
use moye_device::arch::{Convert, Fma as _};
use moye_device::atom::copy::AutoVectorizingCopy;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::{IntTuple, Layout};
use moye_device::memory::{Element, Global, GlobalMut};
use moye_device::tensor::{Aligned, Dense, Matrix, Rank, SharedTensor, StaticLayout, Strides, UnitStride};

/// A tile's accumulators in shared memory, and the threads that store C.
pub trait Staged: Sized + 'static {
    /// The element type of A and B.
    type Operand: Element;
    /// The accumulator's type.
    type Sum: Convertible<Self::Scalar>;
    /// The type of the epilogue's arithmetic.
    type Scalar: Scalar + Convertible<Self::Scalar> + Convert<Self::Output>;
    /// The element type of C.
    type Output: Convertible<Self::Scalar>;
    /// The tile of C, (BLK_M, BLK_N).
    type TileC: StaticLayout;
    /// The accumulators in shared memory, (BLK_M, BLK_N).
    type Sums: StaticLayout;
    /// The number of threads.
    const THREADS: u32;
}

/// Rows of a tile of C as (BLK_N, BLK_M). If rows are `WHOLE`, that is, start at multiples of 16
/// bytes, each thread stores 16 bytes of `O` along N; otherwise one element. Either way the
/// accesses of a warp are contiguous.
///
/// `T` is the element type of the tensor that is partitioned, which may differ from `O`: the
/// accumulators, or C.
struct Rows<T, O, G, const WHOLE: bool>(PhantomData<(T, O, G)>);

impl<T, O, G, const WHOLE: bool> Clone for Rows<T, O, G, WHOLE> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, O, G, const WHOLE: bool> Copy for Rows<T, O, G, WHOLE> {}
impl<T, O, G, const WHOLE: bool> Default for Rows<T, O, G, WHOLE> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, O: Element, G: Staged, const WHOLE: bool> Rows<T, O, G, WHOLE> {
    /// Elements of a thread in a row.
    const VECTOR: usize = if WHOLE { 16 / O::BYTES } else { 1 };
    /// Threads of a row.
    const ACROSS: u32 = G::TileC::LAYOUT.extent(1) as u32 / Self::VECTOR as u32;
    /// Rows that the block stores at a time.
    const AT_ONCE: u32 = G::THREADS / Self::ACROSS;
}

impl<T: Element, O: Element, G: Staged, const WHOLE: bool> StaticTiledCopy for Rows<T, O, G, WHOLE> {
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

/// The place of a block's tile.
#[derive(Clone, Copy)]
pub struct Place {
    /// The tile's first row and column in C.
    pub first: (u32, u32),
    /// The offset in C of the block's batch and slice, in elements.
    pub offset: i64,
    /// The thread's index.
    pub thread: u32,
}

/// Stores the rows of a tile, with elements of `G::Scalar` if `wide` is set.
///
/// # Safety
/// All threads call it together, after a barrier that follows the writes of the accumulators. The
/// tile is writable, and another block that writes a part of it writes the same values.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn write_rows<G: Staged>(
    arguments: &Arguments<G::Operand, G::Output, G::Scalar>,
    sC: SharedTensor<G::Sum, G::Sums>,
    place: Place,
) {
    if size_of::<G::Output>() != size_of::<G::Scalar>() && arguments.wide != 0 {
        rows::<G, G::Scalar>(arguments, sC, arguments.c.cast(), arguments.bias.cast(), place);
    } else {
        rows::<G, G::Output>(arguments, sC, arguments.c, arguments.bias, place);
    }
}

/// Stores the rows of a tile with elements of `O`.
///
/// # Safety
/// Same contract as [`write_rows`].
#[inline(always)]
unsafe fn rows<G: Staged, O: Convertible<G::Scalar>>(
    arguments: &Arguments<G::Operand, G::Output, G::Scalar>,
    sC: SharedTensor<G::Sum, G::Sums>,
    c: GlobalMut<O>,
    bias: Global<O>,
    place: Place,
) where
    G::Scalar: Convert<O>,
{
    let (first_m, first_n) = place.first;
    let c = c.offset(place.offset + i64::from(first_m) * arguments.ldc).offset(i64::from(first_n));
    let bias =
        bias.offset(i64::from(first_m) * arguments.bias_m).offset(i64::from(first_n) * arguments.bias_n);
    let whole = (c.address() | (arguments.ldc as u64).wrapping_mul(O::BYTES as u64)).is_multiple_of(16);
    if whole {
        rows_of::<G, O, _, true>(
            arguments,
            sC,
            c,
            Aligned::<_, 16>(UnitStride::<0>(arguments.ldc)),
            bias,
            place,
        );
    } else {
        rows_of::<G, O, _, false>(arguments, sC, c, UnitStride::<0>(arguments.ldc), bias, place);
    }
}

/// [`rows`] with the static part of the strides of C as `(N, M)`.
///
/// # Safety
/// Same contract as [`rows`].
#[inline(always)]
unsafe fn rows_of<G: Staged, O: Convertible<G::Scalar>, S: Strides<Rank = Rank<2>>, const WHOLE: bool>(
    arguments: &Arguments<G::Operand, G::Output, G::Scalar>,
    sC: SharedTensor<G::Sum, G::Sums>,
    c: GlobalMut<O>,
    strides: S,
    bias: Global<O>,
    place: Place,
) where
    G::Scalar: Convert<O>,
{
    let Place { first: (first_m, first_n), thread, .. } = place;
    let shape = (arguments.n - first_n, arguments.m - first_m);
    let at = (0, 0);
    let mC = Matrix::new(c, shape, strides); // (N, M), from the tile on
    let mBias = Matrix::new(bias, shape, Dense([arguments.bias_n, arguments.bias_m])); // (N, M)
    let gC = mC.local_tile::<Transposed<G::TileC>, _>(at); // (BLK_N, BLK_M)
    let gBias = mBias.local_tile::<Transposed<G::TileC>, _>(at); // (BLK_N, BLK_M)
    let sC = sC.with_layout::<Transposed<G::Sums>>(); // (BLK_N, BLK_M)

    let out = Rows::<O, O, G, WHOLE>::get_slice(thread);
    let tCgC = out.partition_d(gC); // (CPY, CPY_N, CPY_M)
    let tCgBias = out.partition_s(gBias); // (CPY, CPY_N, CPY_M)
    let tCsC = Rows::<G::Sum, O, G, WHOLE>::get_slice(thread).partition_s(sC); // (CPY, CPY_N, CPY_M)

    let block_m = const { G::TileC::LAYOUT.extent(0) as u32 };
    let left = arguments.m - first_m;
    let rows = if left < block_m { left } else { block_m };
    let mut row = thread / Rows::<O, O, G, WHOLE>::ACROSS;
    let mut i = 0;
    // The bound is known only at run time, which keeps this loop: its body is long and rarely runs.
    while row < rows {
        let (from, mut to) = (tCsC.at((.., .., i)), tCgC.at((.., .., i))); // (CPY, CPY_N)
        let mut tCrC = from.make_fragment_like(); // (CPY, CPY_N)
        copy(&from, &mut tCrC);
        let mut results = to.make_fragment_like(); // (CPY, CPY_N)
        if arguments.beta != G::Scalar::ZERO {
            copy(&to, &mut results);
        }
        finish(arguments, &tCrC, &tCgBias.at((.., .., i)), &mut results, false);
        copy(&results, &mut to);
        row += Rows::<O, O, G, WHOLE>::AT_ONCE;
        i += 1;
    }
}
