//! Copies that take the widest access that both tensors, the elements and the alignment allow, with
//! an atom that caps it, and by `cp.async`: a tile of columns from global to shared memory and on
//! to global memory, a column for each of 32 threads.

use half::{bf16, f16};
use moye_device::algorithm::{copy, copy_async, copy_tiled};
use moye_device::arch::{cp_async_commit, cp_async_wait, thread_idx};
use moye_device::atom::copy::{
    AutoVectorizingCopy, AutoVectorizingCopyWithAssumedAlignment as Capped, DefaultCopy,
};
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::memory::{Element, Global, GlobalMut, SharedArray, SharedStorage};
use moye_device::tensor::{Aligned, Dense, Matrix, StaticLayout, Strides, UnitStride, WholeTiles};
use moye_device::{kernel, layout, static_layout, tiled_copy};

/// Rows of the tile: what a thread copies.
pub const ROWS: i64 = 16;
/// Columns of the tile: one for each thread.
pub const COLUMNS: i64 = 32;
/// The stride of the slow axis of both matrices, in elements.
pub const LEADING: i64 = 48;

static_layout! {
    /// (BLK_M, BLK_N)
    pub Tile = layout!((ROWS, COLUMNS));
    /// (THR_M, THR_N)
    pub Threads = layout!((1, COLUMNS));
}

/// A column of each thread, in and out, by copies without an atom, or into shared memory by
/// `cp.async`. All elements are in bounds, so nothing is checked.
///
/// # Safety
/// Both matrices hold a tile and lie as their strides say; the kernel has 32 threads and declares
/// `SharedArray<T, L>`.
#[inline(always)]
unsafe fn without_atom<const ASYNC: bool, T: Element, L: StaticLayout>(
    src: Global<T>,
    from: impl Strides,
    dst: GlobalMut<T>,
    to: impl Strides,
) {
    let (shape, thread) = ((ROWS as u32, COLUMNS as u32), thread_idx().x);
    let g_src = Matrix::new(src, shape, WholeTiles(from)).local_tile::<Tile, _>((0, 0)); // (BLK_M, BLK_N)
    let g_dst = Matrix::new(dst, shape, WholeTiles(to)).local_tile::<Tile, _>((0, 0)); // (BLK_M, BLK_N)
    let t_g_src = g_src.local_partition::<Threads>(thread); // (THR_M, THR_N)
    // SAFETY: the caller's contract; each thread has its column to itself, also in shared memory,
    // and reads what comes by `cp.async` after the wait.
    unsafe {
        let mut t_s = SharedArray::<T, L>::take().local_partition::<Threads>(thread); // (THR_M, THR_N)
        if ASYNC {
            copy_async(&t_g_src, &mut t_s);
            cp_async_commit();
            cp_async_wait::<0>();
        } else {
            copy(&t_g_src, &mut t_s);
        }
        copy(&t_s, &mut g_dst.local_partition::<Threads>(thread));
    }
}

/// The same by a tiled copy whose atom says how wide accesses may be.
///
/// # Safety
/// As [`without_atom`].
#[inline(always)]
unsafe fn with_atom<const BITS: usize, C, L>(
    src: Global<C::Element>,
    from: impl Strides,
    dst: GlobalMut<C::Element>,
    to: impl Strides,
) where
    C: StaticTiledCopy<Atom = Capped<BITS>, Element: Element>,
    L: StaticLayout,
{
    let (shape, slice) = ((ROWS as u32, COLUMNS as u32), C::get_slice(thread_idx().x));
    let g_src = Matrix::new(src, shape, WholeTiles(from)).local_tile::<Tile, _>((0, 0)); // (BLK_M, BLK_N)
    let g_dst = Matrix::new(dst, shape, WholeTiles(to)).local_tile::<Tile, _>((0, 0)); // (BLK_M, BLK_N)
    // SAFETY: the caller's contract; each thread has its column to itself, also in shared memory.
    unsafe {
        let smem = SharedArray::<C::Element, L>::take(); // (BLK_M, BLK_N)
        let mut t_s = slice.partition_d(smem); // (CPY, CPY_M, CPY_N)
        copy_tiled(C::default(), &slice.partition_s(g_src), &mut t_s);
        let mut t_g_dst = slice.partition_d(g_dst); // (CPY, CPY_M, CPY_N)
        copy_tiled(C::default(), &t_s, &mut t_g_dst);
    }
}

/// `name: element, strides of the source, stride of a column in shared memory, strides of the
/// destination`, the atom where there is one, and the bits of an access into shared memory and out
/// of it. A source that is read across its rows is marked.
macro_rules! copies {
    ($($name:ident $(($across:ident))?: $t:ident, $from:expr, $column:literal, $to:expr $(, $atom:ty)? => $into:literal, $out:literal;)+) => {
        $(
            mod $name {
                use super::*;

                static_layout! {
                    /// The tile in shared memory.
                    pub Smem = layout!((ROWS, COLUMNS):(1, $column));
                }
                $(tiled_copy! {
                    /// A column of each thread.
                    pub Columns: TiledCopy<$atom, $t> = TiledCopy::new(layout!((1, COLUMNS)), layout!((ROWS, 1)));
                })?
            }

            #[kernel(threads = 32, shared = SharedArray<$t, $name::Smem>)]
            pub unsafe fn $name(src: Global<$t>, dst: GlobalMut<$t>) {
                // SAFETY: the caller's contract.
                unsafe { copies!(@ $name $t, src, $from, dst, $to $(, $atom)?) }
            }
        )+

        /// Gives the macro `$then` all copies:
        /// `name: element, bits of an access into shared memory, and out of it`.
        #[macro_export]
        macro_rules! for_each_widest {
            ($then:ident) => { $then! { $($name $(($across))?: $t, $into, $out;)+ } };
        }
    };
    (@ $name:ident $t:ty, $src:ident, $from:expr, $dst:ident, $to:expr) => {
        without_atom::<false, $t, $name::Smem>($src, $from, $dst, $to)
    };
    (@ $name:ident $t:ty, $src:ident, $from:expr, $dst:ident, $to:expr, $atom:ty) => {
        with_atom::<{ <$atom as BitsOf>::BITS }, $name::Columns, $name::Smem>($src, $from, $dst, $to)
    };
}

/// The cap of an atom.
trait BitsOf {
    const BITS: usize;
}

impl<const N: usize> BitsOf for Capped<N> {
    const BITS: usize = N;
}

/// Columns contiguous, the base and each column aligned to this many bytes.
const fn at<const BYTES: usize>() -> Aligned<UnitStride<0>, BYTES> {
    Aligned(UnitStride(LEADING))
}

/// Columns contiguous; nothing is known of where they start.
const ANYWHERE: UnitStride<0> = UnitStride(LEADING);

/// Rows contiguous.
const ACROSS: Aligned<UnitStride<1>, 16> = Aligned(UnitStride(LEADING));

/// Nothing known of any stride.
const UNKNOWN: Dense = Dense([1, LEADING]);

copies! {
    // Everything allows 16 bytes.
    u8_all_16: u8, at::<16>(), 16, at::<16>() => 128, 128;
    f16_all_16: f16, at::<16>(), 24, at::<16>() => 128, 128;
    f32_all_16: f32, at::<16>(), 20, at::<16>() => 128, 128;
    f64_all_16: f64, at::<16>(), 18, at::<16>() => 128, 128;
    u128_all_16: u128, at::<16>(), 17, at::<16>() => 128, 128;
    // The source does not.
    f32_from_8: f32, at::<8>(), 20, at::<16>() => 64, 128;
    f32_from_4: f32, at::<4>(), 20, at::<16>() => 32, 128;
    f32_from_anywhere: f32, ANYWHERE, 20, at::<16>() => 32, 128;
    f32_from_unknown: f32, UNKNOWN, 20, at::<16>() => 32, 128;
    f32_from_across (across): f32, ACROSS, 20, at::<16>() => 32, 128;
    bf16_from_4: bf16, at::<4>(), 24, at::<16>() => 32, 128;
    f64_from_8: f64, at::<8>(), 18, at::<16>() => 64, 128;
    // The destination does not.
    f32_to_8: f32, at::<16>(), 20, at::<8>() => 128, 64;
    f16_to_4: f16, at::<16>(), 24, at::<4>() => 128, 32;
    f16_to_2: f16, at::<16>(), 24, at::<2>() => 128, 16;
    u8_to_4: u8, at::<16>(), 16, at::<4>() => 128, 32;
    // What lies between does not.
    f32_through_8: f32, at::<16>(), 18, at::<16>() => 64, 64;
    f32_through_4: f32, at::<16>(), 17, at::<16>() => 32, 32;
    f16_through_8: f16, at::<16>(), 20, at::<16>() => 64, 64;
    f16_through_4: f16, at::<16>(), 18, at::<16>() => 32, 32;
    f16_through_2: f16, at::<16>(), 17, at::<16>() => 16, 16;
    u8_through_8: u8, at::<16>(), 24, at::<16>() => 64, 64;
    u8_through_4: u8, at::<16>(), 20, at::<16>() => 32, 32;
    u8_through_2: u8, at::<16>(), 18, at::<16>() => 16, 16;
    u8_through_1: u8, at::<16>(), 17, at::<16>() => 8, 8;
    f64_through_8: f64, at::<16>(), 17, at::<16>() => 64, 64;
    // An atom caps it; a single element is moved whatever its size.
    f32_capped_128: f32, at::<16>(), 20, at::<16>(), AutoVectorizingCopy => 128, 128;
    f32_capped_64: f32, at::<16>(), 20, at::<16>(), Capped<64> => 64, 64;
    f32_capped_32: f32, at::<16>(), 20, at::<16>(), Capped<32> => 32, 32;
    f32_capped_16: f32, at::<16>(), 20, at::<16>(), Capped<16> => 32, 32;
    f16_capped_64: f16, at::<16>(), 24, at::<16>(), Capped<64> => 64, 64;
    f16_capped_32: f16, at::<16>(), 24, at::<16>(), Capped<32> => 32, 32;
    f16_capped_8: f16, at::<16>(), 24, at::<16>(), DefaultCopy => 16, 16;
    u8_capped_32: u8, at::<16>(), 16, at::<16>(), Capped<32> => 32, 32;
    u8_capped_16: u8, at::<16>(), 16, at::<16>(), Capped<16> => 16, 16;
    u8_capped_8: u8, at::<16>(), 16, at::<16>(), DefaultCopy => 8, 8;
    f64_capped_64: f64, at::<16>(), 18, at::<16>(), Capped<64> => 64, 64;
    // The cap is above what the tensors allow.
    f16_capped_64_to_4: f16, at::<16>(), 24, at::<4>(), Capped<64> => 64, 32;
}

/// `name: element, strides of the source, stride of a column in shared
/// memory`, and the bits of a `cp.async `, 0 where none can move the elements. On the way out
/// everything allows 16 bytes but what shared memory does not.
macro_rules! async_copies {
    ($($name:ident $(($across:ident))?: $t:ident, $from:expr, $column:literal => $into:literal;)+) => {
        $(
            mod $name {
                use super::*;

                static_layout! {
                    /// The tile in shared memory.
                    pub Smem = layout!((ROWS, COLUMNS):(1, $column));
                }
            }

            #[kernel(threads = 32, shared = SharedArray<$t, $name::Smem>)]
            pub unsafe fn $name(src: Global<$t>, dst: GlobalMut<$t>) {
                // SAFETY: the caller's contract.
                unsafe { without_atom::<true, $t, $name::Smem>(src, $from, dst, at::<16>()) }
            }
        )+

        /// Gives the macro `$then` all copies by `cp.async`: `name: element, bits of a cp.async`.
        #[macro_export]
        macro_rules! for_each_async {
            ($then:ident) => { $then! { $($name $(($across))?: $t, $into;)+ } };
        }
    };
}

async_copies! {
    // Everything allows 16 bytes.
    u8_cp_async_16: u8, at::<16>(), 16 => 128;
    f16_cp_async_16: f16, at::<16>(), 24 => 128;
    f32_cp_async_16: f32, at::<16>(), 20 => 128;
    f64_cp_async_16: f64, at::<16>(), 18 => 128;
    u128_cp_async_16: u128, at::<16>(), 17 => 128;
    // The source does not: its alignment, what is known of it, or its order.
    f16_cp_async_from_8: f16, at::<8>(), 24 => 64;
    f32_cp_async_from_8: f32, at::<8>(), 20 => 64;
    f64_cp_async_from_8: f64, at::<8>(), 18 => 64;
    u8_cp_async_from_4: u8, at::<4>(), 16 => 32;
    f16_cp_async_from_4: f16, at::<4>(), 24 => 32;
    f32_cp_async_from_4: f32, at::<4>(), 20 => 32;
    f32_cp_async_from_anywhere: f32, ANYWHERE, 20 => 32;
    f32_cp_async_from_unknown: f32, UNKNOWN, 20 => 32;
    f32_cp_async_from_across (across): f32, ACROSS, 20 => 32;
    // What it goes to does not.
    u8_cp_async_to_8: u8, at::<16>(), 24 => 64;
    f16_cp_async_to_8: f16, at::<16>(), 20 => 64;
    f32_cp_async_to_8: f32, at::<16>(), 18 => 64;
    f64_cp_async_to_8: f64, at::<16>(), 17 => 64;
    f16_cp_async_to_4: f16, at::<16>(), 18 => 32;
    f32_cp_async_to_4: f32, at::<16>(), 17 => 32;
    // No `cp.async` moves fewer than 4 bytes: through registers.
    f16_cp_async_to_2: f16, at::<16>(), 17 => 0;
    bf16_cp_async_from_2: bf16, at::<2>(), 24 => 0;
    u8_cp_async_to_1: u8, at::<16>(), 17 => 0;
}
