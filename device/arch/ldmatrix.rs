//! `ldmatrix`: loads matrices of 8 x 8 elements of 16 bits from shared memory, distributed over a
//! warp as `mma.sync` needs them, from sm_75 on (PTX 6.5).
//!
//! For each matrix, lane `4 * row + column / 2` receives the elements `(row, column)` and
//! `(row, column + 1)`, `column` even, in one register, the first in its lower half; the
//! transposing forms do so for the transposed matrix. A matrix is 8 rows of 16 bytes in shared
//! memory, each at any multiple of 16: lane `8 * i + r` passes the address of row `r` of matrix
//! `i`. With one or two matrices the addresses of lanes from 8 or 16 on are ignored.
//!
//! LLVM's intrinsics for it take pointers to the shared address space, which Rust cannot express,
//! so these are `asm!` and not marked convergent: call them in control flow that is uniform across
//! the warp, not in branches that depend on the thread.

macro_rules! ldmatrix {
    ($($(#[$doc:meta])* $name:ident $count:literal $transposed:literal $form:literal $atom:literal: $first:ident $($next:ident)*;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// All 32 lanes of the warp call it together. A used address is a multiple of 16 in the
        /// block's shared memory; its 16 bytes were written before a barrier.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name(address: u32) -> [u32; $count] {
            super::target::needs!(
                concat!("ldmatrix.sync.aligned.m8n8.", $form, ".shared.b16 (the atom ", $atom, ")"), 75 6.5
            );
            #[cfg(target_arch = "nvptx64")]
            {
                let $first: u32;
                $(let $next: u32;)*
                // SAFETY: all lanes are here; addresses are aligned and their bytes written.
                unsafe {
                    core::arch::asm!(
                        concat!(
                            "ldmatrix.sync.aligned.m8n8.", $form, ".shared.b16 ",
                            "{{{", stringify!($first), "}", $(", {", stringify!($next), "}",)* "}}, [{address}];"
                        ),
                        $first = out(reg32) $first, $($next = out(reg32) $next,)* address = in(reg32) address,
                        options(nostack)
                    )
                };
                [$first, $($next),*]
            }
            #[cfg(not(target_arch = "nvptx64"))]
            moye_sim::intrinsics::ldmatrix::<$count>($transposed, address)
        }
    )* };
}
ldmatrix! {
    /// One matrix.
    ldmatrix_x1 1 false "x1" "SM75_U32x1_LDSM_N": a;
    /// Two matrices.
    ldmatrix_x2 2 false "x2" "SM75_U32x2_LDSM_N": a b;
    /// Four matrices.
    ldmatrix_x4 4 false "x4" "SM75_U32x4_LDSM_N": a b c d;
    /// One matrix, transposed.
    ldmatrix_x1_trans 1 true "x1.trans" "SM75_U16x2_LDSM_T": a;
    /// Two matrices, each transposed.
    ldmatrix_x2_trans 2 true "x2.trans" "SM75_U16x4_LDSM_T": a b;
    /// Four matrices, each transposed.
    ldmatrix_x4_trans 4 true "x4.trans" "SM75_U16x8_LDSM_T": a b c d;
}
