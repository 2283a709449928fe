//! `cp.async` that arrives at an mbarrier.

use moye_device::arch::*;
use moye_device::memory::{Global, GlobalMut, Shared, SharedArray};
use moye_device::{kernel, layout, static_layout};

static_layout! {
    /// 64 words and, behind them, an mbarrier.
    pub SlotsAndBarrier = layout!(66);
}

/// Shared memory of the kernels with an mbarrier.
pub type BarrierStorage = SharedArray<u32, SlotsAndBarrier>;

/// Thread `i` of a block of 64 copies `source[i]` into shared memory, and its copies arrive at an
/// mbarrier; then it writes what the *next* thread copied to `output[i]`; all that `rounds` times,
/// on the next 64 elements each.
///
/// The second warp begins when the first has arrived with all that it has: a phase that took the
/// arrivals of copies for those of threads would be over by then, and thread 31 would not find what
/// thread 32 copies. So each thread's two arrivals are in one phase also for a tool that counts
/// both, and each waits for that phase before it arrives again.
macro_rules! mbarrier {
    ($($name:ident $count:literal $arrive:ident;)*) => { $(
        #[kernel(threads = 64, shared = BarrierStorage)]
        pub unsafe fn $name(source: Global<u32>, output: GlobalMut<u32>, rounds: u32) {
            let thread = thread_idx().x;
            // SAFETY: `source` and `output` have 64 elements for each round, and the kernel
            // declares `BarrierStorage`; whole warps take one branch.
            unsafe {
                let slots = Shared::<u32>::from_address(shared_base());
                let barrier = slots.offset(64).address();
                if thread == 0 {
                    mbarrier_init(barrier, $count);
                }
                sync_threads();
                let mut round = 0;
                while round < rounds {
                    let at = i64::from(64 * round + thread);
                    let slot = slots.offset(thread as i32).address();
                    if thread >= 32 {
                        sync_barrier(1, 64);
                    }
                    cp_async_plain(CpAsyncKind::Ca4, L2Prefetch::None, slot, source.offset(at).address());
                    $arrive(barrier);
                    let state = mbarrier_arrive(barrier);
                    if thread < 32 {
                        arrive_barrier(1, 64);
                    }
                    mbarrier_wait(barrier, state);
                    output.write(at, slots.read(((thread + 1) % 64) as i32));
                    sync_threads();
                    round += 1;
                }
            }
        }
    )* };
}
mbarrier! {
    mbarrier_counted 128 cp_async_mbarrier_arrive_noinc;
    mbarrier_uncounted 64 cp_async_mbarrier_arrive;
}
