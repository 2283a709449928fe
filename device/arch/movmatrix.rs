//! `movmatrix`: a matrix of 8 x 8 elements of 16 bits transposed within a warp's registers.

/// The lane's part of the transpose of a matrix in the layout of [`ldmatrix`](super::ldmatrix_x1):
/// `movmatrix.sync.aligned.m8n8.trans.b16`.
///
/// LLVM has no intrinsic for it that Rust can call, so it is `asm!`, under the conditions of
/// `ldmatrix`.
///
/// # Safety
/// All 32 lanes of the warp call it together.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn movmatrix_trans(matrix: u32) -> u32 {
    super::target::needs!("movmatrix.sync.aligned.m8n8.trans.b16 (the atom SM75_U32x1_MOVM_T)", 75 7.8);
    #[cfg(target_arch = "nvptx64")]
    {
        let transposed: u32;
        // SAFETY: all lanes of the warp are here.
        unsafe {
            core::arch::asm!(
                "movmatrix.sync.aligned.m8n8.trans.b16 {d}, {a};",
                d = out(reg32) transposed, a = in(reg32) matrix,
                options(nostack)
            )
        };
        transposed
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::movmatrix_transposed(matrix)
}
