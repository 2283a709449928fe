//! What needs sm_90: `stmatrix`, the roundings of tf32 to even and towards 0, atomic sums of bf16
//! pairs.

use crate::cells::{global, shared};
use crate::support::{RowStorage, row_address, unary};
use moye_device::arch::*;
use moye_device::atom::copy::*;
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut, Shared};

unary! {
    cvt_tf32_rn: f32 => f32 = f32_to_tf32_rn;
    cvt_tf32_rz: f32 => f32 = f32_to_tf32_rz;
    cvt_tf32_rn_relu: f32 => f32 = f32_to_tf32_rn_relu;
}

/// The warp stores `N` matrices, lane `l` having words `N * l` on of `input` as its registers; then
/// lane `l < 8 * N` writes row `l` to words `4 * l` on of `output`.
#[inline(always)]
unsafe fn store<A, const N: usize>(input: Global<u32>, output: GlobalMut<u32>)
where
    A: CopyAtom<Source = RegisterFile<N>, Destination = SharedMemory>,
{
    let lane = lane_id();
    // SAFETY: `input` has 32 * N words, `output` 128, and the kernel declares `RowStorage`.
    unsafe {
        let row = row_address(shared_base(), lane);
        let registers = core::array::from_fn(|i| input.read(i64::from(lane) * N as i64 + i as i64));
        A::call(registers, row);
        sync_threads();
        if lane < 8 * N as u32 {
            for i in 0..4 {
                let word = Shared::<u32>::from_address(row + 4 * i).read(0);
                output.write(i64::from(4 * lane + i), word);
            }
        }
    }
}

macro_rules! store {
    ($($name:ident $atom:ident $count:literal;)*) => { $(
        #[kernel(threads = 32, shared = RowStorage)]
        pub unsafe fn $name(input: Global<u32>, output: GlobalMut<u32>) {
            // SAFETY: the kernel's own contract.
            unsafe { store::<$atom, $count>(input, output) }
        }
    )* };
}
store! {
    stsm_x1 SM90_U32x1_STSM_N 1;
    stsm_x2 SM90_U32x2_STSM_N 2;
    stsm_x4 SM90_U32x4_STSM_N 4;
    stsm_x1_trans SM90_U16x2_STSM_T 1;
    stsm_x2_trans SM90_U16x4_STSM_T 2;
    stsm_x4_trans SM90_U16x8_STSM_T 4;
}

global! {
    atom_add_bf16x2 Bf16x2: AtomicAdd::atomic_add_global;
    red_add_bf16x2 Bf16x2: AtomicAdd::reduce_add_global;
}
shared! {
    shared_atom_add_bf16x2 Bf16x2: AtomicAdd::atomic_add_shared;
    shared_red_add_bf16x2 Bf16x2: AtomicAdd::reduce_add_shared;
}
