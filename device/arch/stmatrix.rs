//! `stmatrix`: the inverse of [`ldmatrix`](super::ldmatrix_x4), from sm_90 on (PTX 7.8).
//!
//! Registers and addresses are arranged as for `ldmatrix`, and the same conditions apply.

macro_rules! stmatrix {
    ($($(#[$doc:meta])* $name:ident $count:literal $transposed:literal $form:literal $atom:literal: $first:ident $($next:ident)*;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// All 32 lanes of the warp call it together. A lane's address, if it is used, is a
        /// multiple of 16 in the block's shared memory; no other thread accesses those 16 bytes,
        /// and others see them after a barrier.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name(address: u32, matrices: [u32; $count]) {
            super::target::needs!(
                concat!("stmatrix.sync.aligned.m8n8.", $form, ".shared.b16 (the atom ", $atom, ")"), 90 7.8
            );
            #[cfg(target_arch = "nvptx64")]
            {
                let [$first, $($next),*] = matrices;
                // SAFETY: all lanes are here; no other thread accesses the aligned bytes.
                unsafe {
                    core::arch::asm!(
                        concat!(
                            "stmatrix.sync.aligned.m8n8.", $form, ".shared.b16 [{address}], ",
                            "{{{", stringify!($first), "}", $(", {", stringify!($next), "}",)* "}};"
                        ),
                        $first = in(reg32) $first, $($next = in(reg32) $next,)* address = in(reg32) address,
                        options(nostack)
                    )
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            moye_sim::intrinsics::stmatrix::<$count>($transposed, address, matrices);
        }
    )* };
}
stmatrix! {
    /// One matrix.
    stmatrix_x1 1 false "x1" "SM90_U32x1_STSM_N": a;
    /// Two matrices.
    stmatrix_x2 2 false "x2" "SM90_U32x2_STSM_N": a b;
    /// Four matrices.
    stmatrix_x4 4 false "x4" "SM90_U32x4_STSM_N": a b c d;
    /// One matrix, transposed.
    stmatrix_x1_trans 1 true "x1.trans" "SM90_U16x2_STSM_T": a;
    /// Two matrices, each transposed.
    stmatrix_x2_trans 2 true "x2.trans" "SM90_U16x4_STSM_T": a b;
    /// Four matrices, each transposed.
    stmatrix_x4_trans 4 true "x4.trans" "SM90_U16x8_STSM_T": a b c d;
}
