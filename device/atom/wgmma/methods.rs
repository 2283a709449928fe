//! The methods of a slice of a tiled MMA whose atom is a `wgmma`: products in batches, and waits
//! for them.
//!
//! ```
//! use moye_device::prelude::*;
//!
//! swizzled_layout! {
//!     Smem = // (BLK_M, BLK_K, PIPE)
//!         shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((128, 64, 4)));
//! }
//! static_layout! { Tile = layout!((128, 128)); }
//! tiled_mma! { Mma: TiledMma<SM90_64x128x16_F32BF16BF16_SS> = TiledMma::new(layout!((1, 1, 1))); }
//!
//! /// Multiplies the full stages of a pipeline: a stage is released when it was read.
//! ///
//! /// # Safety
//! /// All threads of a warpgroup; the stages are those of A and B.
//! unsafe fn mainloop(
//!     (sA, sB): (SharedTensor<bf16, Smem>, SharedTensor<bf16, Smem>),
//!     mut consumer: Consumer<4, 1>,
//!     k_tiles: u32,
//! ) -> f32 {
//!     let mma = Mma::get_slice(0);
//!     let tCrA = mma.fragment_a(&mma.partition_a(sA)); // (1, MMA_M, MMA_K, PIPE)
//!     let tCrB = mma.fragment_b(&mma.partition_b(sB)); // (1, MMA_N, MMA_K, PIPE)
//!     let mut tCrC = mma.accumulator::<Tile>(); // (MMA, MMA_M, MMA_N)
//!     let mut previous = None;
//!     for _ in 0..k_tiles {
//!         let stage = consumer.wait();
//!         let (tCrA, tCrB) = stage.of((tCrA, tCrB)); // (1, MMA_M, MMA_K), (1, MMA_N, MMA_K)
//!         // SAFETY: the stage is full, and stays so until its release.
//!         unsafe { mma.gemm(&mut tCrC, &tCrA, &tCrB) };
//!         // The product before has read its stage.
//!         mma.wait::<1>();
//!         if let Some(previous) = previous.replace(stage) {
//!             consumer.release(previous);
//!         }
//!     }
//!     mma.wait_for::<0>(&mut tCrC);
//!     tCrC[(0, 0, 0)]
//! }
//! ```

use super::gemm::{Extents, SameNumbers};
use super::{
    DescriptorTensor, OperandTensorA, ScaleOut, WgmmaAtom, warpgroup_arrive, warpgroup_commit_batch,
    warpgroup_fence_operand, warpgroup_gemm, warpgroup_wait,
};
use crate::atom::Multiplies;
use crate::atom::tiled_mma::{StaticTiledMma, ThrMma};
use crate::memory::Storable;
use crate::tensor::{Fragment, StaticLayout};

// Written out: the first lines of a check's message would show a macro, if one expanded to it.
impl<'c, M, A, LB, D, LC> Multiplies<M, A, &'c mut Fragment<D, LC>> for DescriptorTensor<LB>
where
    M: StaticTiledMma<Atom: WgmmaAtom>,
    A: OperandTensorA<M::Atom>,
    LB: StaticLayout,
    D: Storable,
    LC: StaticLayout,
{
    const CHECKED: () = {
        let () = A::ELEMENTS;
        let () = SameNumbers::<M, D>::CHECKED;
        let _ = Extents::<M, A, LB, LC>::EXTENTS;
    };

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn multiply(self, a: A, c: &'c mut Fragment<D, LC>, adds: bool) {
        warpgroup_arrive();
        // SAFETY: all threads of the warpgroup call this; the registers were fenced above.
        unsafe { warpgroup_gemm(M::default(), &a, &self, c, ScaleOut::One.unless(!adds)) };
        warpgroup_commit_batch();
    }
}

impl<'c, M, A, LB, D, LC> Multiplies<M, A, &'c mut Fragment<D, LC>> for &DescriptorTensor<LB>
where
    M: StaticTiledMma<Atom: WgmmaAtom>,
    A: OperandTensorA<M::Atom>,
    LB: StaticLayout,
    D: Storable,
    LC: StaticLayout,
{
    const CHECKED: () = {
        let () = A::ELEMENTS;
        let () = SameNumbers::<M, D>::CHECKED;
        let _ = Extents::<M, A, LB, LC>::EXTENTS;
    };

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn multiply(self, a: A, c: &'c mut Fragment<D, LC>, adds: bool) {
        // SAFETY: the operands may be read, and all threads of the warpgroup execute this.
        unsafe { Multiplies::<M, _, _>::multiply(*self, a, c, adds) }
    }
}

impl<M: StaticTiledMma<Atom: WgmmaAtom>> ThrMma<M> {
    /// Waits until all but the `PENDING` youngest products are complete: the shared memory that the
    /// others read may then be rewritten. All threads of the warpgroup must call it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait<const PENDING: u32>(self) {
        warpgroup_wait::<PENDING>();
    }

    /// [`wait`](Self::wait) for the products that add to `c`, which are older than the `PENDING`
    /// youngest: afterwards the thread may read `c`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait_for<const PENDING: u32>(self, c: &mut Fragment<impl Storable, impl StaticLayout>) {
        warpgroup_wait::<PENDING>();
        warpgroup_fence_operand(M::default(), c);
    }
}
