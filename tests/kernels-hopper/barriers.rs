//! mbarriers, named barriers, and what else threads of one block do together.

use moye_device::arch::*;
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut, Shared, SharedArray};
use moye_device::static_layout;

static_layout! {
    /// 64 words, and room for an mbarrier behind them.
    pub Slots = moye_device::layout!(66);
}

/// What kernels of 64 threads have.
pub type SlotStorage = SharedArray<u32, Slots>;

/// Thread `i` of a block of 64 writes `source[i]` into shared memory and arrives; after the wait it
/// takes what the next thread wrote to `output[i]`; all that `rounds` times, on the next 64
/// elements each.
macro_rules! by_parity {
    ($($name:ident $wait:expr;)*) => { $(
        #[kernel(threads = 64, shared = SlotStorage)]
        pub unsafe fn $name(source: Global<u32>, output: GlobalMut<u32>, rounds: u32) {
            let thread = thread_idx().x;
            let wait = $wait;
            // SAFETY: `source` and `output` have 64 elements for each round, and the kernel
            // declares its storage.
            unsafe {
                let slots = Shared::<u32>::from_address(shared_base());
                let barrier = slots.offset(64).address();
                if thread == 0 {
                    mbarrier_init(barrier, 64);
                }
                sync_threads();
                let mut round = 0;
                while round < rounds {
                    let at = i64::from(64 * round + thread);
                    slots.write(thread as i32, source.read(at));
                    mbarrier_arrive(barrier);
                    wait(barrier, round % 2);
                    output.write(at, slots.read(((thread + 1) % 64) as i32));
                    sync_threads();
                    round += 1;
                }
                if thread == 0 {
                    mbarrier_inval(barrier);
                }
            }
        }
    )* };
}
by_parity! {
    mbarrier_try_parity |barrier, parity| unsafe { mbarrier_wait_parity(barrier, parity) };
    mbarrier_test_parity |barrier, parity| unsafe { while !mbarrier_test_wait_parity(barrier, parity) {} };
}

/// A block of 128: the upper half writes, and arrives at barrier 3; the lower half waits there and
/// reads.
#[kernel(threads = 128, shared = SlotStorage)]
pub unsafe fn named_barrier(source: Global<u32>, output: GlobalMut<u32>) {
    let thread = thread_idx().x;
    // SAFETY: `source` and `output` have 64 elements; whole warps take one branch.
    unsafe {
        let slots = Shared::<u32>::from_address(shared_base());
        if thread >= 64 {
            slots.write(thread as i32 - 64, source.read(i64::from(thread - 64)));
            arrive_barrier(3, 128);
        } else {
            sync_barrier(3, 128);
            output.write(i64::from(thread), slots.read(63 - thread as i32));
        }
    }
}

/// A block of 384: one warpgroup gives registers to the other two; each thread writes the sum of
/// its numbers.
#[kernel(threads = 384, min_blocks = 1)]
pub unsafe fn set_registers(source: Global<u32>, output: GlobalMut<u32>) {
    let thread = thread_idx().x;
    // SAFETY: `source` and `output` have 384 elements; whole warpgroups take one branch.
    unsafe {
        if thread < 128 {
            decrease_registers::<24>();
            output.write(i64::from(thread), source.read(i64::from(thread)) + 24);
        } else {
            increase_registers::<240>();
            output.write(i64::from(thread), source.read(i64::from(thread)) + 240);
        }
    }
}

/// One lane of each warp adds 1 to its warp's word, and writes its lane's bit into the next.
#[kernel(threads = 96)]
pub unsafe fn elect_one(output: GlobalMut<u32>) {
    let warp = u64::from(thread_idx().x / 32);
    if elect(FULL_WARP) {
        // SAFETY: `output` has two words for each of three warps.
        unsafe {
            u32::atomic_add_global(output.address() + 8 * warp, 1);
            output.write(2 * warp as i64 + 1, 1 << lane_id());
        }
    }
}

/// Each thread writes one more than it reads, between the two instructions of dependent launches.
#[kernel(threads = 64)]
pub unsafe fn dependent(source: Global<u32>, output: GlobalMut<u32>) {
    let at = i64::from(block_idx().x * 64 + thread_idx().x);
    wait_for_prior_kernels();
    // SAFETY: both have 64 elements for each block.
    unsafe { output.write(at, source.read(at) + 1) };
    launch_dependents();
}
