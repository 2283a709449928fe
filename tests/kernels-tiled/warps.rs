//! Tiled copies by the instructions of a warp, `ldmatrix` and `stmatrix`: a tile goes through
//! shared memory and the registers of the tiled copy's threads, and arrives in global memory as it
//! was.

use half::f16;
use moye_device::algorithm::{CopyDestination, CopySource, copy, copy_tiled};
use moye_device::arch::{sync_threads, thread_idx};
use moye_device::atom::copy::*;
use moye_device::atom::mma::{SM80_16x8x8_F32TF32TF32F32_TN, SM80_16x8x16_F32F16F16F32_TN};
use moye_device::atom::{StaticTiledCopy, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use moye_device::layout::{ComposedLayout, Layout, Swizzle, layout, tuple};
use moye_device::memory::{Element, Global, GlobalMut, GlobalPointer, Shared, SharedArray, SharedStorage};
use moye_device::tensor::{
    GlobalTensor, IdentityOf, Matrix, Registers, StaticLayout, UnitStride, WholeTiles,
};
use moye_device::{kernel, static_layout, swizzled_layout, tiled_copy};

/// Rows and columns of the tile.
pub const EXTENT: i64 = 32;

static_layout! {
    /// (BLK_M, BLK_N)
    pub Tile = layout!((EXTENT, EXTENT));
    /// A column for each thread of the first warp, where no tiled copy is at work.
    pub Columns = layout!((1, EXTENT));
    pub Plain = layout!((32, 32));
    pub Padded = layout!((32, 32):(1, 40));
    pub KMajor = layout!((32, 32):(40, 1));
    /// Pairs of columns: MoYe's `(32,(2,4)):(2,(1,64))`, four times as wide.
    pub Pairs = layout!((32, (2, 16)):(2, (1, 64)));
}
swizzled_layout! {
    pub Swizzled = ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((8, 32):(32, 1))).tile_to_shape(tuple!((32, 32)));
    pub SwizzledDown = ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((32, 8))).tile_to_shape(tuple!((32, 32)));
    pub SwizzledWords = ComposedLayout::new(Swizzle::new(3, 2, 3), 0, layout!((8, 32):(32, 1))).tile_to_shape(tuple!((32, 32)));
}

type SourceOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Source;
type DestinationOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Destination;

/// The tile in global memory, columns contiguous.
#[inline(always)]
fn tile<P: GlobalPointer>(pointer: P) -> GlobalTensor<P, WholeTiles<UnitStride<0>>, IdentityOf<Tile>> {
    let extents = (EXTENT as u32, EXTENT as u32);
    Matrix::new(pointer, extents, WholeTiles(UnitStride(EXTENT))).local_tile::<Tile, _>((0, 0))
}

/// Shared memory to registers by `C`, and what they have in `C`'s parts of the destination to
/// global memory.
///
/// # Safety
/// Both buffers hold the tile; the kernel has the threads of `C`, at least a warp, and declares
/// `SharedArray<_, M>`.
#[inline(always)]
pub(crate) unsafe fn loads<C, M>(src: Global<C::Element>, dst: GlobalMut<C::Element>)
where
    C: StaticTiledCopy<Element: Element>,
    M: StaticLayout,
    Shared<C::Element>: CopySource<SourceOf<C>>,
    Registers<C::Element>: CopyDestination<DestinationOf<C>>,
{
    let thread = thread_idx().x;
    let slice = C::get_slice(thread);
    // SAFETY: the caller's contract; the tile is read after a barrier, and fragments after they
    // were written. Who holds an element too writes the same.
    unsafe {
        let smem = SharedArray::<C::Element, M>::take(); // (BLK_M, BLK_N)
        if thread < EXTENT as u32 {
            let columns = tile(src).local_partition::<Columns>(thread);
            copy(&columns, &mut smem.local_partition::<Columns>(thread));
        }
        sync_threads();
        let t_s = slice.partition_s(smem); // (CPY, CPY_M, CPY_N)
        let mut t_g = slice.partition_d(tile(dst)); // (CPY, CPY_M, CPY_N)
        let mut t_r = t_g.make_fragment_like(); // (CPY, CPY_M, CPY_N)
        copy_tiled(C::default(), &t_s, &mut t_r);
        copy(&t_r, &mut t_g);
    }
}

/// Global memory to registers in the parts of `C`'s source, and to shared memory by `C`.
///
/// # Safety
/// As [`loads`].
#[inline(always)]
#[cfg(any(not(target_arch = "nvptx64"), feature = "sm_90"))]
pub(crate) unsafe fn stores<C, M>(src: Global<C::Element>, dst: GlobalMut<C::Element>)
where
    C: StaticTiledCopy<Element: Element>,
    M: StaticLayout,
    Registers<C::Element>: CopySource<SourceOf<C>>,
    Shared<C::Element>: CopyDestination<DestinationOf<C>>,
{
    let thread = thread_idx().x;
    let slice = C::get_slice(thread);
    // SAFETY: as in `loads`.
    unsafe {
        let smem = SharedArray::<C::Element, M>::take(); // (BLK_M, BLK_N)
        let t_g = slice.partition_s(tile(src)); // (CPY, CPY_M, CPY_N)
        let mut t_r = t_g.make_fragment_like(); // (CPY, CPY_M, CPY_N)
        let mut t_s = slice.partition_d(smem); // (CPY, CPY_M, CPY_N)
        copy(&t_g, &mut t_r);
        copy_tiled(C::default(), &t_r, &mut t_s);
        sync_threads();
        if thread < EXTENT as u32 {
            let mut columns = tile(dst).local_partition::<Columns>(thread);
            copy(&smem.local_partition::<Columns>(thread), &mut columns);
        }
    }
}

/// A kernel for each: its body, the layout of shared memory, the tiled copy.
macro_rules! warps {
    ($($name:ident: $body:ident, $t:ty, $smem:ident, $atom:ty, $copy:expr;)+) => { $(
        mod $name {
            use super::*;

            tiled_copy! {
                pub Copy: TiledCopy<$atom, $t> = $copy;
            }
        }

        #[kernel(threads = $name::Copy::COPY.threads(), shared = SharedArray<$t, $smem>)]
        pub unsafe fn $name(src: Global<$t>, dst: GlobalMut<$t>) {
            // SAFETY: the caller's contract.
            unsafe { $body::<$name::Copy, $smem>(src, dst) }
        }
    )+ };
}

type Half = TiledMma<SM80_16x8x16_F32F16F16F32_TN>;

/// Threads and values of MoYe's example.
const THREADS: Layout = layout!((16, 2));
const VALUES: Layout = layout!((2, 4));

#[cfg(not(all(target_arch = "nvptx64", feature = "sm_90")))]
mod ldmatrix {
    use super::*;

    const HALF: Half = Half::tiled(layout!((2, 2, 1)), [32, 32, 16]);

    type Tf32 = TiledMma<SM80_16x8x8_F32TF32TF32F32_TN>;
    const TF32: Tf32 = Tf32::tiled(layout!((2, 2, 1)), [32, 32, 8]);

    warps! {
        // MoYe's tiled copy by each count of matrices, over other layouts of shared memory too.
        ldsm_x1: loads, u16, Plain, SM75_U32x1_LDSM_N, TiledCopy::new(THREADS, VALUES);
        ldsm_x2: loads, u16, Padded, SM75_U32x2_LDSM_N, TiledCopy::new(THREADS, VALUES);
        ldsm_x4: loads, u16, Plain, SM75_U32x4_LDSM_N, TiledCopy::new(THREADS, VALUES);
        ldsm_x4_padded: loads, u16, Padded, SM75_U32x4_LDSM_N, TiledCopy::new(THREADS, VALUES);
        ldsm_x4_swizzled: loads, u16, SwizzledDown, SM75_U32x4_LDSM_N, TiledCopy::new(THREADS, VALUES);
        ldsm_pairs_x1: loads, u16, Pairs, SM75_U32x1_LDSM_N, TiledCopy::new(layout!((32, 1)), layout!((1, 8)));
        ldsm_pairs_x2: loads, u16, Pairs, SM75_U32x2_LDSM_N, TiledCopy::new(layout!((32, 1)), layout!((1, 8)));
        ldsm_pairs_x4: loads, u16, Pairs, SM75_U32x4_LDSM_N, TiledCopy::new(layout!((32, 1)), layout!((1, 8)));
        // Operands of products: K-major ones, and transposed M- and N-major ones.
        ldsm_f16_a: loads, f16, KMajor, SM75_U32x4_LDSM_N, make_tiled_copy_a(&HALF);
        ldsm_f16_a_swizzled: loads, f16, Swizzled, SM75_U32x4_LDSM_N, make_tiled_copy_a(&HALF);
        ldsm_f16_b: loads, f16, KMajor, SM75_U32x2_LDSM_N, make_tiled_copy_b(&HALF);
        ldsm_f16_b_x4: loads, f16, Swizzled, SM75_U32x4_LDSM_N, make_tiled_copy_b(&HALF);
        ldsm_f16_a_trans: loads, f16, Padded, SM75_U16x8_LDSM_T, make_tiled_copy_a(&HALF);
        ldsm_f16_a_trans_swizzled: loads, f16, SwizzledDown, SM75_U16x8_LDSM_T, make_tiled_copy_a(&HALF);
        ldsm_f16_b_trans: loads, f16, Plain, SM75_U16x4_LDSM_T, make_tiled_copy_b(&HALF);
        ldsm_f16_b_trans_x1: loads, f16, SwizzledDown, SM75_U16x2_LDSM_T, make_tiled_copy_b(&HALF);
        ldsm_tf32_a: loads, f32, KMajor, SM75_U32x4_LDSM_N, make_tiled_copy_a(&TF32);
        ldsm_tf32_a_swizzled: loads, f32, SwizzledWords, SM75_U32x4_LDSM_N, make_tiled_copy_a(&TF32);
        ldsm_tf32_b: loads, f32, SwizzledWords, SM75_U32x2_LDSM_N, make_tiled_copy_b(&TF32);
        ldsm_tf32_b_x4: loads, f32, KMajor, SM75_U32x4_LDSM_N, make_tiled_copy_b(&TF32);
    }
}
#[cfg(not(all(target_arch = "nvptx64", feature = "sm_90")))]
pub use ldmatrix::*;

#[cfg(any(not(target_arch = "nvptx64"), feature = "sm_90"))]
mod stmatrix {
    use super::*;

    const WARP: Half = Half::new(layout!((1, 1, 1)));
    /// Two warps, with rows of A each.
    const WARPS: Half = Half::new(layout!((2, 1, 1)));

    warps! {
        stsm_x1: stores, u16, Plain, SM90_U32x1_STSM_N, TiledCopy::new(THREADS, VALUES);
        stsm_x2: stores, u16, Padded, SM90_U32x2_STSM_N, TiledCopy::new(THREADS, VALUES);
        stsm_x4: stores, u16, Plain, SM90_U32x4_STSM_N, TiledCopy::new(THREADS, VALUES);
        stsm_x4_swizzled: stores, u16, SwizzledDown, SM90_U32x4_STSM_N, TiledCopy::new(THREADS, VALUES);
        stsm_f16_a: stores, f16, KMajor, SM90_U32x4_STSM_N, make_tiled_copy_a(&WARP);
        stsm_f16_a_swizzled: stores, f16, Swizzled, SM90_U32x4_STSM_N, make_tiled_copy_a(&WARP);
        stsm_f16_a_trans: stores, f16, Padded, SM90_U16x8_STSM_T, make_tiled_copy_a(&WARP);
        stsm_f16_b_trans: stores, f16, Plain, SM90_U16x4_STSM_T, make_tiled_copy_b(&WARP);
        stsm_f16_b_trans_x1: stores, f16, SwizzledDown, SM90_U16x2_STSM_T, make_tiled_copy_b(&WARP);
        stsm_f16_warps: stores, f16, KMajor, SM90_U32x4_STSM_N, make_tiled_copy_a(&WARPS);
    }
}
#[cfg(any(not(target_arch = "nvptx64"), feature = "sm_90"))]
pub use stmatrix::*;
