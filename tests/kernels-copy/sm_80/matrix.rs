//! Atoms of a warp: matrices from shared memory, transposes in registers.

use crate::support::{RowStorage, row_address};
use moye_device::arch::{lane_id, shared_base, sync_threads};
use moye_device::atom::copy::*;
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut, Shared};

/// Each lane puts its row, words `4 * lane` on of `rows`, into shared memory; then the warp loads
/// `N` matrices, and lane `l` writes its registers to words `N * l` on of `output`.
#[inline(always)]
unsafe fn load<A, const N: usize>(rows: Global<u32>, output: GlobalMut<u32>)
where
    A: CopyAtom<Source = SharedMemory, Destination = RegisterFile<N>>,
{
    let lane = lane_id();
    // SAFETY: `rows` has 128 words, `output` 32 * N, and the kernel declares `RowStorage`.
    unsafe {
        let row = row_address(shared_base(), lane);
        for i in 0..4 {
            let word = rows.read(i64::from(4 * lane + i));
            Shared::<u32>::from_address(row + 4 * i).write(0, word);
        }
        sync_threads();
        let registers = A::call(row, ());
        for (i, register) in registers.into_iter().enumerate() {
            output.write(i64::from(lane) * N as i64 + i as i64, register);
        }
    }
}

macro_rules! load {
    ($($name:ident $atom:ident $count:literal;)*) => { $(
        #[kernel(threads = 32, shared = RowStorage)]
        pub unsafe fn $name(rows: Global<u32>, output: GlobalMut<u32>) {
            // SAFETY: the kernel's own contract.
            unsafe { load::<$atom, $count>(rows, output) }
        }
    )* };
}
load! {
    ldsm_x1 SM75_U32x1_LDSM_N 1;
    ldsm_x2 SM75_U32x2_LDSM_N 2;
    ldsm_x4 SM75_U32x4_LDSM_N 4;
    ldsm_x1_trans SM75_U16x2_LDSM_T 1;
    ldsm_x2_trans SM75_U16x4_LDSM_T 2;
    ldsm_x4_trans SM75_U16x8_LDSM_T 4;
}

/// Lane `l` gives words `N * l` on of `input` as its registers and writes what it gets to the same
/// words of `output`.
#[inline(always)]
unsafe fn exchange<A, const N: usize>(input: Global<u32>, output: GlobalMut<u32>)
where
    A: CopyAtom<Source = RegisterFile<N>, Destination = RegisterFile<N>>,
{
    let first = i64::from(lane_id()) * N as i64;
    // SAFETY: the buffers have 32 * N words.
    unsafe {
        let registers = A::call(core::array::from_fn(|i| input.read(first + i as i64)), ());
        for (i, register) in registers.into_iter().enumerate() {
            output.write(first + i as i64, register);
        }
    }
}

macro_rules! exchange {
    ($($name:ident $atom:ident $count:literal;)*) => { $(
        #[kernel(threads = 32)]
        pub unsafe fn $name(input: Global<u32>, output: GlobalMut<u32>) {
            // SAFETY: the kernel's own contract.
            unsafe { exchange::<$atom, $count>(input, output) }
        }
    )* };
}
exchange! {
    movm_trans SM75_U32x1_MOVM_T 1;
    shuffle_xor1 SM50_Shuffle_U32_2x2Trans_XOR1 2;
    shuffle_xor4 SM50_Shuffle_U32_2x2Trans_XOR4 2;
}
