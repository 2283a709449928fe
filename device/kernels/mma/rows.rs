//! The rows of a tile of C, from sums in shared memory: `activation(alpha * sum + beta * c + bias)`.
//!
//! Threads read rows of the sums back, so that every access to global memory is a coalesced one of 16 bytes, where the rows of C
//! allow that.

use super::arguments::Arguments;
use super::scalar::{Convertible, Scalar, finish};
use super::smem::Transposed;
use core::marker::PhantomData;
use moye_device::algorithm::copy;
use moye_device::arch::Fma as _;
use moye_device::atom::copy::AutoVectorizingCopy;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::{IntTuple, Layout};
use moye_device::memory::{Element, Global, GlobalMut};
use moye_device::tensor::{Aligned, Dense, Matrix, SharedTensor, StaticLayout, Strides, UnitStride};

/// A tile's sums in shared memory, and the threads that make C of them.
pub trait Staged: Sized + 'static {
    /// The elements of A and B.
    type Operand: Element;
    /// The elements that were accumulated.
    type Sum: Convertible<Self::Scalar>;
    /// What is computed in behind the product.
    type Scalar: Scalar + Convertible<Self::Scalar>;
    /// The elements of C.
    type Output: Convertible<Self::Scalar>;
    /// The tile of C, (BLK_M, BLK_N).
    type TileC: StaticLayout;
    /// The sums in shared memory, (BLK_M, BLK_N).
    type Sums: StaticLayout;
    /// How many threads there are.
    const THREADS: u32;
}

/// Rows of a tile of C as (BLK_N, BLK_M): each thread has 16 bytes of `O` along N where rows are `WHOLE`, start at multiples of
/// 16 bytes, and one element otherwise, so that what a warp writes lies together; neighbours follow each other.
///
/// `T` is the element that is partitioned, which may be another than `O`: the sums, and what is written of them.
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
    /// Elements that a thread has of a row.
    const VECTOR: usize = if WHOLE { 16 / O::BYTES } else { 1 };
    /// Threads of a row.
    const ACROSS: u32 = G::TileC::LAYOUT.extent(1) as u32 / Self::VECTOR as u32;
    /// Rows that the block has at a time.
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

/// Where a block's tile lies.
#[derive(Clone, Copy)]
pub struct Place {
    /// The tile's first row and column in C.
    pub first: (u32, u32),
    /// The matrix of the batch.
    pub batch: u32,
    /// The offset in C of the block's batch and split, in elements.
    pub offset: i64,
    /// The thread.
    pub thread: u32,
}

/// Writes the rows of a tile, with elements `G::Scalar` where `wide` says so.
///
/// # Safety
/// All threads come by together, behind a barrier after the writes of the sums; the tile may be written, and what others write of
/// it has the same values.
#[inline(always)]
pub unsafe fn write_rows<G: Staged>(
    arguments: &Arguments<G::Operand, G::Output, G::Scalar>,
    s_c: SharedTensor<G::Sum, G::Sums>,
    place: Place,
) {
    // SAFETY: the caller's contract.
    unsafe {
        if size_of::<G::Output>() != size_of::<G::Scalar>() && arguments.wide != 0 {
            rows::<G, G::Scalar>(arguments, s_c, arguments.c.cast(), arguments.bias.cast(), place);
        } else {
            rows::<G, G::Output>(arguments, s_c, arguments.c, arguments.bias, place);
        }
    }
}

/// Writes the rows of a tile with elements `O`.
///
/// # Safety
/// As [`write_rows`].
#[inline(always)]
unsafe fn rows<G: Staged, O: Convertible<G::Scalar>>(
    arguments: &Arguments<G::Operand, G::Output, G::Scalar>,
    s_c: SharedTensor<G::Sum, G::Sums>,
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
            rows_of::<G, O, _, true>(
                arguments,
                s_c,
                c,
                Aligned::<_, 16>(UnitStride::<0>(arguments.ldc)),
                bias,
                place,
            );
        } else {
            rows_of::<G, O, _, false>(arguments, s_c, c, UnitStride::<0>(arguments.ldc), bias, place);
        }
    }
}

/// [`rows`], with what is known of the strides of C as `(N, M)`.
///
/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn rows_of<G: Staged, O: Convertible<G::Scalar>, S: Strides, const WHOLE: bool>(
    arguments: &Arguments<G::Operand, G::Output, G::Scalar>,
    s_c: SharedTensor<G::Sum, G::Sums>,
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
    let s_c = s_c.with_layout::<Transposed<G::Sums>>(); // (BLK_N, BLK_M)

    let out = Rows::<O, O, G, WHOLE>::get_slice(thread);
    let t_g_c = out.partition_d(g_c); // (CPY, CPY_N, CPY_M)
    let t_g_bias = out.partition_s(g_bias); // (CPY, CPY_N, CPY_M)
    let t_s_c = Rows::<G::Sum, O, G, WHOLE>::get_slice(thread).partition_s(s_c); // (CPY, CPY_N, CPY_M)

    let block_m = const { G::TileC::LAYOUT.extent(0) as u32 };
    let left = arguments.m - first_m;
    let rows = if left < block_m { left } else { block_m };
    let mut row = thread / Rows::<O, O, G, WHOLE>::ACROSS;
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
            finish(arguments, &sums, &t_bias, &mut results, false);
            copy(&results, &mut to);
        }
        row += Rows::<O, O, G, WHOLE>::AT_ONCE;
        i += 1;
    }
}
