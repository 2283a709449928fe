//! Loads by TMA into a stage that is being filled.

use super::Filling;
use crate::atom::tma::{SameTile, ThrTma, TmaCopy, TmaTensor};
use crate::memory::{Element, Shared};
use crate::tensor::{StaticLayout, Tensor};

impl<T: Element, L: StaticLayout, const R: usize, const CLUSTER: u32> ThrTma<TmaCopy<T, L, R, CLUSTER>> {
    /// Issues the load of a tile into a stage that is being filled. One thread calls it.
    ///
    /// # Safety
    /// The tile is in the block's shared memory, aligned to the swizzle's period (128 bytes without
    /// a swizzle); the stage expects the bytes. `source` belongs to a map of this copy, whose
    /// tensor is readable memory.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn copy<N: StaticLayout>(
        self,
        source: TmaTensor<TmaCopy<T, L, R, CLUSTER>, R>,
        destination: Tensor<Shared<T>, N>,
        stage: &Filling,
    ) {
        let () = SameTile::<TmaCopy<T, L, R, CLUSTER>, N>::CHECKED;
        // SAFETY: `source` is of a map of this copy, and the stage expects the bytes.
        unsafe { self.copy_to_barrier(source, destination, stage.barrier()) }
    }
}
