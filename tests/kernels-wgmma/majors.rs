//! The ways in which operands can lie in shared memory: majors, swizzles, and several instructions
//! along M, N and K of one tile, with A there or in registers; and negated operands.

use crate::execute::{B_OFFSET, Storage, fill};
use moye_device::arch::wgmma::{
    Accumulators, wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group,
};
use moye_device::arch::{block_idx, fence_proxy_async_shared, shared_base, sync_threads, thread_idx};
use moye_device::atom::wgmma::*;
use moye_device::kernel;
use moye_device::layout::{ComposedLayout, IntTuple, Major, SwizzleBytes, shared_memory_atom};
use moye_device::memory::{Global, GlobalMut};
use moye_device::number::Number;

/// Rows of A, columns of B: two instructions along M, and one of N = 64 or two.
pub const TILE_M: i64 = 128;
/// See [`TILE_M`].
pub const TILE_N: i64 = 128;

/// The tile (`rows`, 128 bytes of K) of a swizzle.
pub const fn tile(rows: i64, bits: i64, major: Major, swizzle: SwizzleBytes) -> ComposedLayout {
    shared_memory_atom(major, swizzle, bits).tile_to_shape(IntTuple::flat(&[rows, 1024 / bits]))
}

/// D = A B of a 128 x 128 tile, of 128 bytes of K: the operands as they lie in shared memory, then
/// for each block, instruction along M and N, and thread the registers of D.
#[inline(always)]
unsafe fn product<M: WgmmaAtom<OperandA = u64>>(
    operands: (SharedOperand, SharedOperand),
    a: Global<u32>,
    b: Global<u32>,
    d: GlobalMut<u32>,
) {
    let (a_operand, b_operand) = operands;
    // SAFETY: the kernels' own contract: 128 rows of 128 bytes each of A and B for each block, and
    // D's registers.
    unsafe {
        fill(shared_base(), a, 128 * 128);
        fill(shared_base() + B_OFFSET, b, 128 * 128);
        fence_proxy_async_shared();
        sync_threads();
        for m in 0..a_operand.blocks_mn() {
            for n in 0..b_operand.blocks_mn() {
                let mut sums = M::Accumulators::ZERO;
                wgmma_fence();
                for k in 0..a_operand.blocks_k() {
                    let a = a_operand.descriptor(shared_base(), m, k);
                    let b = b_operand.descriptor(shared_base() + B_OFFSET, n, k);
                    // What the accumulators held is of no meaning to the first.
                    M::mma(&mut sums, a, b, k > 0);
                }
                wgmma_commit_group();
                wgmma_wait_group::<0>();
                wgmma_fence_registers(&mut sums);
                let part = (block_idx().x as usize * a_operand.blocks_mn() + m) * b_operand.blocks_mn() + n;
                let first = (part * 128 + thread_idx().x as usize) * M::Accumulators::COUNT;
                for (i, sum) in sums.as_slice().iter().enumerate() {
                    d.cast().write((first + i) as i64, *sum);
                }
            }
        }
    }
}

/// Instructions of the tile along K: 128 bytes, 32 each.
const BLOCKS_K: usize = 4;

/// [`product`] with A in registers: four for each 64 rows, instruction along K, and thread.
#[inline(always)]
unsafe fn product_of_registers<M: WgmmaAtom<OperandA = [u32; 4]>>(
    b_operand: SharedOperand,
    a: Global<u32>,
    b: Global<u32>,
    d: GlobalMut<u32>,
) {
    // SAFETY: the kernels' own contract: A's registers, 128 rows of 128 bytes of B, and D's
    // registers, of one block.
    unsafe {
        fill(shared_base() + B_OFFSET, b, 128 * 128);
        fence_proxy_async_shared();
        sync_threads();
        for part in 0..TILE_M as usize / 64 * b_operand.blocks_mn() {
            let (m, n) = (part / b_operand.blocks_mn(), part % b_operand.blocks_mn());
            // All before the first instruction: none is written while one that reads it may run.
            let first = |k| (((m * BLOCKS_K + k) * 128 + thread_idx().x as usize) * 4) as i64;
            let a: [[u32; 4]; BLOCKS_K] =
                core::array::from_fn(|k| core::array::from_fn(|i| a.read(first(k) + i as i64)));
            let mut sums = M::Accumulators::ZERO;
            wgmma_fence();
            for (k, a) in a.into_iter().enumerate() {
                let b = b_operand.descriptor(shared_base() + B_OFFSET, n, k);
                // What the accumulators held is of no meaning to the first.
                M::mma(&mut sums, a, b, k > 0);
            }
            wgmma_commit_group();
            wgmma_wait_group::<0>();
            wgmma_fence_registers(&mut sums);
            let first = (part * 128 + thread_idx().x as usize) * M::Accumulators::COUNT;
            for (i, sum) in sums.as_slice().iter().enumerate() {
                d.cast().write((first + i) as i64, *sum);
            }
        }
    }
}

macro_rules! majors {
    ($($name:ident $atom:ty, $a_major:ident $a_swizzle:ident, $b_major:ident $b_swizzle:ident;)*) => {
        $(
            #[kernel(threads = 128, shared = Storage)]
            pub unsafe fn $name(a: Global<u32>, b: Global<u32>, d: GlobalMut<u32>) {
                const BITS: i64 = <<$atom as WgmmaAtom>::A as Number>::WIDTH as i64;
                const A: SharedOperand =
                    SharedOperand::a::<$atom>(tile(TILE_M, BITS, Major::$a_major, SwizzleBytes::$a_swizzle));
                const B: SharedOperand =
                    SharedOperand::b::<$atom>(tile(TILE_N, BITS, Major::$b_major, SwizzleBytes::$b_swizzle));
                // SAFETY: the kernel's own contract.
                unsafe { product::<$atom>((A, B), a, b, d) };
            }
        )*

        /// Calls the macro with each of these kernels: name, atom, and how A and B lie.
        #[macro_export]
        macro_rules! for_each_major {
            ($each:ident) => { $each! { $($name $atom, $a_major $a_swizzle, $b_major $b_swizzle;)* } };
        }
    };
}
majors! {
    k_none_k_none SM90_64x128x16_F32BF16BF16_SS<false, false>, K None, K None;
    k_32_k_32 SM90_64x128x16_F32BF16BF16_SS<false, false>, K B32, K B32;
    k_64_k_64 SM90_64x128x16_F32BF16BF16_SS<false, false>, K B64, K B64;
    k_128_k_128 SM90_64x128x16_F32BF16BF16_SS<false, false>, K B128, K B128;
    k_128_k_32 SM90_64x64x16_F32BF16BF16_SS<false, false>, K B128, K B32;
    mn_none_k_128 SM90_64x128x16_F32BF16BF16_SS<true, false>, Mn None, K B128;
    mn_32_k_64 SM90_64x128x16_F32F16F16_SS<true, false>, Mn B32, K B64;
    mn_64_k_128 SM90_64x128x16_F32F16F16_SS<true, false>, Mn B64, K B128;
    mn_128_k_128 SM90_64x128x16_F32BF16BF16_SS<true, false>, Mn B128, K B128;
    k_128_mn_none SM90_64x128x16_F32BF16BF16_SS<false, true>, K B128, Mn None;
    k_128_mn_32 SM90_64x64x16_F32BF16BF16_SS<false, true>, K B128, Mn B32;
    k_128_mn_64 SM90_64x64x16_F32BF16BF16_SS<false, true>, K B128, Mn B64;
    k_128_mn_128 SM90_64x128x16_F32BF16BF16_SS<false, true>, K B128, Mn B128;
    mn_128_mn_128 SM90_64x64x16_F32F16F16_SS<true, true>, Mn B128, Mn B128;
    mn_128_mn_128_f16 SM90_64x128x16_F16F16F16_SS<true, true>, Mn B128, Mn B128;
    tf32_128 SM90_64x128x8_F32TF32TF32_SS_TN<false, false>, K B128, K B128;
    tf32_32 SM90_64x64x8_F32TF32TF32_SS_TN<false, false>, K B32, K B32;
    e4m3_128 SM90_64x128x32_F32E4M3E5M2_SS_TN<false, false>, K B128, K B128;
    e4m3_64 SM90_64x128x32_F32E4M3E5M2_SS_TN<false, false>, K B64, K B64;
    s8_128 SM90_64x128x32_S32S8U8_SS_TN, K B128, K B128;
    s8_32 SM90_64x64x32_S32S8U8_SS_TN, K B32, K B32;
    negated_a SM90_64x128x16_F32BF16BF16_SS<false, false, true, false>, K B128, K B128;
    negated_b SM90_64x64x8_F32TF32TF32_SS_TN<false, true>, K B128, K B128;
    negated_both SM90_64x128x16_F32F16F16_SS<true, false, true, true>, Mn B128, K B128;
    negated_a_f16 SM90_64x128x16_F16F16F16_SS<false, false, true, false>, K B128, K B128;
    negated_b_f16 SM90_64x64x16_F16F16F16_SS<false, true, false, true>, K B128, Mn B128;
    negated_both_f16 SM90_64x64x16_F16F16F16_SS<true, true, true, true>, Mn B128, Mn B128;
    negated_a_e4m3 SM90_64x128x32_F32E4M3E5M2_SS_TN<true, false>, K B128, K B128;
    negated_b_e5m2 SM90_64x64x32_F32E5M2E4M3_SS_TN<false, true>, K B64, K B64;
    negated_a_e4m3_f16 SM90_64x64x32_F16E4M3E4M3_SS_TN<true, false>, K B128, K B128;
    negated_both_e5m2_f16 SM90_64x128x32_F16E5M2E5M2_SS_TN<true, true>, K B128, K B128;
}

/// All of N = 128: in more parts of the tile the loop over K is left a loop, and A lies in local
/// memory.
macro_rules! registers {
    ($($name:ident $atom:ty, $b_major:ident $b_swizzle:ident;)*) => {
        $(
            #[kernel(threads = 128, shared = Storage)]
            pub unsafe fn $name(a: Global<u32>, b: Global<u32>, d: GlobalMut<u32>) {
                const BITS: i64 = <<$atom as WgmmaAtom>::B as Number>::WIDTH as i64;
                const B: SharedOperand =
                    SharedOperand::b::<$atom>(tile(TILE_N, BITS, Major::$b_major, SwizzleBytes::$b_swizzle));
                // SAFETY: the kernel's own contract.
                unsafe { product_of_registers::<$atom>(B, a, b, d) };
            }
        )*

        /// Calls the macro with each of the kernels that have A in registers: name, atom, and how B
        /// lies.
        #[macro_export]
        macro_rules! for_each_of_registers {
            ($each:ident) => { $each! { $($name $atom, $b_major $b_swizzle;)* } };
        }
    };
}
registers! {
    registers_k_128 SM90_64x128x16_F32BF16BF16_RS<false>, K B128;
    registers_mn_none SM90_64x128x16_F32BF16BF16_RS<true>, Mn None;
    registers_mn_32 SM90_64x128x16_F32F16F16_RS<true>, Mn B32;
    registers_mn_64 SM90_64x128x16_F32BF16BF16_RS<true>, Mn B64;
    registers_mn_128 SM90_64x128x16_F32F16F16_RS<true>, Mn B128;
    registers_mn_128_f16 SM90_64x128x16_F16F16F16_RS<true>, Mn B128;
    registers_negated_a SM90_64x128x16_F32BF16BF16_RS<true, true, false>, Mn B128;
    registers_negated_b SM90_64x128x16_F32F16F16_RS<true, false, true>, Mn B128;
    registers_negated_both SM90_64x128x16_F32BF16BF16_RS<false, true, true>, K B128;
    registers_negated_a_f16 SM90_64x128x16_F16F16F16_RS<true, true, false>, Mn B128;
    registers_negated_b_f16 SM90_64x128x16_F16F16F16_RS<false, false, true>, K B128;
    registers_negated_a_tf32 SM90_64x128x8_F32TF32TF32_RS_TN<true, false>, K B128;
    registers_negated_b_tf32 SM90_64x128x8_F32TF32TF32_RS_TN<false, true>, K B128;
    registers_negated_a_e4m3 SM90_64x128x32_F32E4M3E5M2_RS_TN<true, false>, K B128;
    registers_negated_b_e5m2_f16 SM90_64x128x32_F16E5M2E4M3_RS_TN<false, true>, K B128;
}
