//! The second kernel of split-K: reduces the slices, and applies the epilogue.

use super::arguments::Arguments;
use super::scalar::{Convertible, Scalar, finish};
use core::marker::PhantomData;
use half::{bf16, f16};
use moye_device::algorithm::{axpby, copy};
use moye_device::arch::{Convert, block_idx, overlap_launches, thread_idx};
use moye_device::atom::copy::AutoVectorizingCopy;
use moye_device::atom::{PartitionS, StaticTiledCopy, TiledCopy};
use moye_device::layout::layout;
use moye_device::memory::{Element, GlobalMut};
use moye_device::tensor::{
    Aligned, Dense, Fragment, FragmentLike, IdentityOf, Matrix, Rank, Strides, UnitStride,
};
use moye_device::{kernel, static_layout};

static_layout! {
    /// A block's tile of C, (BLK_N, BLK_M).
    pub Tile = layout!((128, 8));
}

/// Threads over rows of C: four adjacent elements along N for each thread, 32 threads for each row.
struct Rows<T>(PhantomData<T>);

impl<T> Clone for Rows<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Rows<T> {}
impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Element> StaticTiledCopy for Rows<T> {
    type Atom = AutoVectorizingCopy;
    type Element = T;
    const COPY: TiledCopy<AutoVectorizingCopy, T> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
}

/// Reduces a block's tile of C: `a` holds the accumulators, `(M, N)` with leading dimension `lda`,
/// for each of the `splits` of each batch.
///
/// # Safety
/// Same contract as the kernels below.
#[inline(always)]
unsafe fn add_up<O: Convertible<S>, S: Scalar + Convertible<S> + Convert<O>>(arguments: Arguments<S, O, S>) {
    overlap_launches();
    let c = arguments.c.offset(i64::from(block_idx().y) * arguments.batch_c);
    let whole = (c.address() | (arguments.ldc as u64).wrapping_mul(O::BYTES as u64)).is_multiple_of(16);
    if whole {
        add_up_of(&arguments, c, Aligned::<_, 16>(UnitStride::<0>(arguments.ldc)));
    } else {
        add_up_of(&arguments, c, UnitStride::<0>(arguments.ldc));
    }
}

/// [`add_up`] with the static part of the strides of C as `(N, M)`.
///
/// # Safety
/// Same contract as [`add_up`].
#[inline(always)]
unsafe fn add_up_of<
    O: Convertible<S>,
    S: Scalar + Convertible<S> + Convert<O>,
    D: Strides<Rank = Rank<2>>,
>(
    arguments: &Arguments<S, O, S>,
    c: GlobalMut<O>,
    strides: D,
) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let shape = (arguments.n, arguments.m);
    let tiles_n = arguments.n.div_ceil(128);
    let at = (block.x % tiles_n, block.x / tiles_n);
    let out = Rows::<O>::get_slice(thread);
    let mut tCgC = out.partition_d(Matrix::new(c, shape, strides).local_tile::<Tile, _>(at)); // (CPY, 1, 1)
    let mBias = Matrix::new(arguments.bias, shape, Dense([arguments.bias_n, arguments.bias_m])); // (N, M)
    let tCgBias = out.partition_s(mBias.local_tile::<Tile, _>(at)); // (CPY, 1, 1)
    let part = Rows::<S>::get_slice(thread);
    let mut from = arguments.a.offset(i64::from(block.y) * arguments.batch_a);
    let mut results = tCgC.make_fragment_like();
    if arguments.beta != S::ZERO {
        copy(&tCgC, &mut results);
    }
    let mut sum = Fragment::<S, FragmentLike<PartitionS<IdentityOf<Tile>, Rows<S>>>>::filled(S::ZERO);
    for _ in 0..arguments.splits {
        let mSums = Matrix::new(from, shape, Aligned::<_, 16>(UnitStride::<0>(arguments.lda))); // (N, M)
        let tCgSums = part.partition_s(mSums.local_tile::<Tile, _>(at)); // (CPY, 1, 1)
        let mut sums = tCgSums.make_fragment_like();
        copy(&tCgSums, &mut sums);
        axpby(S::ONE, &sums, S::ONE, &mut sum);
        from = from.offset(arguments.split_c);
    }
    finish(arguments, &sum, &tCgBias, &mut results, arguments.splits == 0);
    copy(&results, &mut tCgC);
}

macro_rules! finish {
    ($($name:ident $t:ty, $scalar:ty;)+) => { $(
        #[doc = concat!("Reduces the accumulators of the splits of K in `a`, and writes `", stringify!($t), "` to `c`: a block of 256 threads")]
        /// for each tile of 8 x 128 along x, for each batch along y. With 0 splits neither `a` nor
        /// `alpha` is read.
        ///
        /// # Safety
        /// Same contract as a product's kernel, with `a` as `(batches, splits, M, N)` by `batch_a`,
        /// `split_c` and `lda`; its rows start at multiples of 16 bytes.
        #[kernel(threads = 256)]
        pub unsafe fn $name(arguments: Arguments<$scalar, $t, $scalar>) {
            add_up(arguments)
        }
    )+ };
}
finish! {
    finish_f16 f16, f32;
    finish_bf16 bf16, f32;
    finish_f32 f32, f32;
    finish_f64 f64, f64;
    finish_i32 i32, i32;
}
